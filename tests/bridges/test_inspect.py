"""The real `inspect eval`, with its mock model, runs its samples in sandboxes of ours."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="needs Inspect: pip install inspect-ai")

from quintain.sandbox import NativeBackend

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
TASK = '''
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import sandbox

@scorer(metrics=[accuracy()])
def judged():
    async def score(state, target):
        checked = await sandbox().exec(["python3", "check.py"], input="42", env={"MORE": "0"})
        answer = await sandbox().read_file("/work/out/answer.txt")
        return Score(value=checked.success and answer == target.text, explanation=state.messages[-2].text)
    return score

def said(output):
    # with its usage: Inspect counts tokens with a table that it fetches from the network where there is none
    return output.model_copy(update={"usage": ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)})

@task
def add():
    call = {"command": "mkdir out; echo $((20 + 22)) | tee out/answer.txt; ls"}
    replies = [said(ModelOutput.for_tool_call("mockllm/model", "bash", call)),
               said(ModelOutput.from_content("mockllm/model", "done"))]
    check = "import os, sys; assert int(sys.stdin.read()) == 42 + int(os.environ['MORE'])"
    return Task(
        dataset=[Sample(id="s", input="Add.", target="42\\n", files={"check.py": check})], scorer=judged(),
        solver=[use_tools(bash(timeout=30)), generate()], sandbox="quintain",
        model=get_model("mockllm/model", custom_outputs=replies))
'''


@pytest.mark.bridge("inspect-ai", "theirs drives ours", "`inspect eval`: its mock model calls its tool bash")
def test_inspect_eval_plays_its_samples_in_our_sandboxes(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text(TASK)
    done = subprocess.run(
        [sys.executable, "-m", "inspect_ai", "eval", "add.py", "--log-format", "json",
         "--log-dir", "logs", "--display", "none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (path,) = (tmp_path / "logs").glob("*.json")
    log = json.loads(path.read_text())
    assert log["status"] == "success", log.get("error")
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0
    assert log["samples"][0]["scores"]["judged"]["explanation"].startswith("42\n")


@pytest.mark.bridge("inspect-ai", "theirs drives ours", "all of its self_check but the one that adds users as root")
def test_inspects_own_checks_of_a_sandbox_find_nothing() -> None:
    from inspect_ai.util._sandbox import self_check

    from quintain.bridges.inspect import QuintainSandboxEnvironment

    async def main() -> dict[str, BaseException]:
        failed: dict[str, BaseException] = {}
        await QuintainSandboxEnvironment.task_init("t", None)
        made = await QuintainSandboxEnvironment.sample_init("t", None, {})
        for name in sorted(set(self_check.__all__) - {"test_exec_as_user"}):
            try:
                await getattr(self_check, name)(made["default"])
            except Exception as error:
                failed[name] = error
        await QuintainSandboxEnvironment.sample_cleanup("t", None, made, False)
        await QuintainSandboxEnvironment.task_cleanup("t", None, True)
        return failed

    assert asyncio.run(main()) == {}
