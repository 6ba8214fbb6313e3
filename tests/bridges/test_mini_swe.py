"""The real mini-swe-agent, with its deterministic model, works in a sandbox of ours."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
pytest.importorskip("minisweagent", reason="needs mini-swe-agent: pip install mini-swe-agent")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.test_models import DeterministicModel, make_output

from quintain.sandbox import NativeBackend
from quintain.serve import ChatUpstream, Gateway, listening
from tests.serve.scripted_model import ScriptedModel

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
OURS = {"environment_class": "quintain.bridges.mini_swe.QuintainEnvironment"}


@pytest.mark.bridge("mini-swe-agent", "theirs drives ours", "its agent loop by class path: files, time-out, hand in")
def test_mini_swe_agent_works_in_a_sandbox_and_hands_in() -> None:
    environment = get_environment({**OURS, "env": {"WHO": "you"}, "timeout": 1})
    commands = [
        "echo 'print(6 * 7)' > a.py; echo to stderr >&2; echo $WHO",
        "python3 a.py; exit 3",
        "echo before; sleep 60",
        "(setsid sleep 300 &); kill -9 $$",
        "cat /etc/shadow; touch /root/x; ps ax | grep -c '[s]leep 300'",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat a.py",
    ]
    try:
        model = DeterministicModel(outputs=[make_output("", [{"command": command}], cost=0.0) for command in commands])
        agent = DefaultAgent(
            model, environment, system_template="You work on {{system}} in {{cwd}}.", instance_template="{{task}}")
        ended = agent.run("Write 42.")
        told = [message["content"] for message in agent.messages]
    finally:
        environment.close()
    assert (ended["exit_status"], ended["submission"]) == ("Submitted", "print(6 * 7)\n")
    assert told[0] == "You work on Linux in /work."
    assert "<returncode>0</returncode>" in told[3] and "to stderr" in told[3] and "you" in told[3]
    assert "<returncode>3</returncode>\n<output>\n42\n" in told[5]
    assert "timed_out" in told[7] and "<returncode>-1</returncode>" in told[7] and "before" in told[7]
    assert "signalled" in told[9]
    assert "cannot touch '/root/x'" in told[11] and "root:" not in told[11]
    assert told[11].rstrip().endswith("0\n</output>")


@pytest.mark.bridge("mini-swe-agent", "theirs drives ours", "its agent and LiteLLM through the gateway, in a sandbox")
def test_mini_swe_agent_is_captured_by_the_gateway_and_works_in_a_sandbox() -> None:
    commands = (
        "echo 'print(6 * 7)' > a.py", "python3 a.py", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; python3 a.py")

    def work(base: str) -> tuple[str, str]:
        environment = get_environment({**OURS, "timeout": 10})
        try:
            model = LitellmModel(model_name="openai/m", cost_tracking="ignore_errors",
                                 model_kwargs={"api_base": base, "api_key": "none", "num_retries": 0})
            agent = DefaultAgent(model, environment, system_template="You work.", instance_template="{{task}}")
            ended = agent.run("Write 42.")
        finally:
            environment.close()
        return ended["exit_status"], ended["submission"]

    async def play() -> None:
        model = ScriptedModel(tuple(json.dumps({"command": command}) for command in commands))
        async with listening(model.app, grace_seconds=1) as behind:
            upstream = ChatUpstream(behind + "/v1")
            gateway = Gateway(upstream)
            async with listening(gateway.app, grace_seconds=1) as url:
                found = await asyncio.to_thread(work, url + gateway.open("e"))
            captured = gateway.close("e")
            await upstream.aclose()
        assert found == ("Submitted", "42\n")
        assert [(list(turn.prompt_token_ids or ()), list(turn.output_token_ids or ()), list(turn.logprobs or ()))
                for turn in captured.turns] == model.sampled
        assert len(captured.turns) == 3 and captured.lost == 0
        told = [message["content"] for message in model.asked[-1]["messages"] if message["role"] == "tool"]
        assert "42" in told[-1]  # what the sandbox said came back by way of the gateway

    asyncio.run(play())


def test_a_setting_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        get_environment({**OURS, "colour": "blue"})
