"""An agent that we did not write talks to the gateway, and every id that was read and sampled for it is there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")
torch = pytest.importorskip("torch", reason="a local model needs torch: pip install quintain[train]")
pytest.importorskip("transformers", reason="a local model needs transformers: pip install quintain[train]")

from quintain.policy import LocalPolicy, LocalSampling, OpenAIPolicy, Sampling  # noqa: E402
from quintain.serve import (  # noqa: E402
    Allowance,
    ChatUpstream,
    CompletionsSampler,
    Gateway,
    ModelServer,
    TokenUpstream,
    listening,
)
from quintain.train import Trajectory  # noqa: E402
from quintain.types import Message, Reward, Role  # noqa: E402
from tests.policy.endpoint import completion, serving  # noqa: E402
from tests.train import tiny  # noqa: E402

SAMPLING = LocalSampling(max_tokens=8)


@pytest.fixture(scope="module")
def made() -> Any:
    words = tiny.tokenizer()
    return tiny.model(words), words


class Agent:
    """Somebody else's: it knows a base address and OpenAI's words, keeps its history as text, and strips replies."""

    def __init__(self, base: str, **fields: object) -> None:
        self.base = base
        self.fields = fields
        self.messages: list[dict[str, str]] = [{"role": "system", "content": "Be brief."}]

    async def ask(self, text: str, *, stream: bool = False) -> dict[str, Any]:
        self.messages.append({"role": "user", "content": text})
        body = {"model": "any", "messages": self.messages, "stream": stream, **self.fields}
        async with httpx.AsyncClient(timeout=30) as client:
            response = await client.post(self.base + "/chat/completions", json=body)
        response.raise_for_status()
        if not stream:
            found: dict[str, Any] = response.json()
            reply = found["choices"][0]["message"]["content"]
        else:
            events = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
            assert events[-1] == "[DONE]"
            pieces = [json.loads(line) for line in events[:-1]]
            reply = "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece["choices"])
            found = {"pieces": pieces}
        self.messages.append({"role": "assistant", "content": reply.strip()})
        return found


def own_logprobs(model: Any, row: Trajectory) -> list[float]:
    with torch.no_grad():
        logp = model.eval()(torch.tensor([row.token_ids])).logits[0].log_softmax(-1)
    return [float(logp[at - 1, token]) for at, token in enumerate(row.token_ids) if row.loss_mask[at]]


def check_rows(model: Any, captured: Any, *, turns: int, rows: int) -> None:
    found = captured.rows(task="t", group="g", reward=Reward(total=1.0, solved=True))
    assert len(found) == rows and sum(len(row.turns) for row in found) == turns
    for row in found:
        said = [value for value, sampled in zip(row.logprobs, row.loss_mask, strict=True) if sampled]
        assert said == pytest.approx(own_logprobs(model, row), abs=1e-4)
        assert row.reward == 1.0


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_foreign_agent_samples_is_one_row_bit_for_bit(made: Any, stream: bool) -> None:
    async def play() -> None:
        policy = LocalPolicy(*made, sampling=SAMPLING, policy_version="7")
        gateway = Gateway(TokenUpstream(policy, policy.renderer))
        async with listening(gateway.app) as url:
            agent = Agent(url + gateway.open("t#0"))
            for text in ("one", "two", "three"):
                await agent.ask(text, stream=stream)
        captured = gateway.close("t#0")
        assert captured.lost == 0 and [turn.policy_version for turn in captured.turns] == ["7"] * 3
        check_rows(made[0], captured, turns=3, rows=1)

    asyncio.run(play())


def test_agents_at_once_in_many_episodes_never_mix(made: Any) -> None:
    async def play() -> None:
        policy = LocalPolicy(*made, sampling=SAMPLING)
        gateway = Gateway(TokenUpstream(policy, policy.renderer))

        async def talk(url: str, name: str) -> None:
            agent = Agent(url + gateway.open(name))
            for nth in range(2):
                await agent.ask(f"{name} asks {nth}", stream=bool(nth))

        async with listening(gateway.app) as url, asyncio.TaskGroup() as crew:
            for nth in range(8):
                crew.create_task(talk(url, f"t#{nth}"))
        for nth in range(8):
            captured = gateway.close(f"t#{nth}")
            assert [one.conversation[-1].text for one in captured.exchanges] == [f"t#{nth} asks {k}" for k in (0, 1)]
            check_rows(made[0], captured, turns=2, rows=1)

    asyncio.run(play())


@pytest.mark.parametrize("way", ["chat", "ids"])
def test_a_model_behind_another_url_is_recorded_alike(made: Any, way: str) -> None:
    async def play() -> None:
        policy = LocalPolicy(*made, sampling=SAMPLING, policy_version="3")
        async with listening(ModelServer(policy).app) as model_url:
            chat = ChatUpstream(model_url + "/v1", model="local")
            ids = CompletionsSampler(model_url + "/v1", "local", policy.renderer, max_tokens=8, version="3")
            gateway = Gateway(chat if way == "chat" else TokenUpstream(ids, policy.renderer))
            async with listening(gateway.app) as url:
                agent = Agent(url + gateway.open("t#0"))
                await agent.ask("one")
                await agent.ask("two", stream=True)
            captured = gateway.close("t#0")
            await chat.aclose()
            await ids.aclose()
        assert [turn.policy_version for turn in captured.turns] == ["3", "3"]
        # by text the server encodes the first reply anew, which may be other ids: then they are another row
        check_rows(made[0], captured, turns=2, rows=1 if way == "ids" else len(captured.rows(
            task="t", group="g", reward=None)))

    asyncio.run(play())


def test_an_agent_is_told_ids_only_where_it_asks_for_them(made: Any) -> None:
    async def play() -> tuple[Any, Any]:
        policy = LocalPolicy(*made, sampling=SAMPLING)
        gateway = Gateway(TokenUpstream(policy, policy.renderer))
        async with listening(gateway.app) as url:
            plain = await Agent(url + gateway.open("a")).ask("one")
            curious = await Agent(url + gateway.open("b"), return_token_ids=True, logprobs=True).ask("one")
        return plain, curious

    plain, curious = asyncio.run(play())
    assert "prompt_token_ids" not in plain and "policy_version" not in plain
    assert "token_ids" not in plain["choices"][0] and plain["choices"][0]["logprobs"] is None
    assert len(curious["choices"][0]["token_ids"]) == len(curious["choices"][0]["logprobs"]["content"])


def test_what_cannot_be_answered_is_said_in_openais_words(made: Any) -> None:
    async def play() -> None:
        policy = LocalPolicy(*made, sampling=SAMPLING)
        gateway = Gateway(TokenUpstream(policy, policy.renderer))
        async with listening(gateway.app) as url, httpx.AsyncClient(base_url=url) as client:
            base = gateway.open("t#0", allowance=Allowance(turns=2))
            said = {"messages": [{"role": "user", "content": "hello"}]}

            async def refused(path: str, body: object, status: int, words: str) -> None:
                response = await client.post(path + "/chat/completions", json=body)
                assert response.status_code == status, response.text
                assert words in response.json()["error"]["message"]

            await refused("/e/guessed/v1", said, 401, "no such episode")
            await refused(base, {"messages": 3}, 400, "$.messages")
            await refused(base, {**said, "n": 2}, 400, "expected n = 1")
            await refused(base, {**said, "tools": [{"type": "function"}]}, 400, "cannot take: tools")
            assert (await client.post(base + "/chat/completions", json=said)).status_code == 200
            await refused(base, said, 403, "may ask 2 times")  # what was refused by the model counts as asked
            captured = gateway.close("t#0")
            assert len(captured.exchanges) == 1 and captured.lost == 1
            await refused(base, said, 401, "no such episode")

    asyncio.run(play())


def test_a_reply_without_ids_is_an_error_and_no_silent_loss() -> None:
    async def play() -> None:
        async with serving(completion("hello")) as endpoint:
            gateway = Gateway(ChatUpstream(endpoint.url))
            async with listening(gateway.app) as url, httpx.AsyncClient(base_url=url) as client:
                response = await client.post(
                    gateway.open("t#0") + "/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
        assert response.status_code == 502 and "expected prompt_token_ids" in response.text
        assert endpoint.requests[0][1]["return_token_ids"] is True
        assert gateway.close("t#0").lost == 1

    asyncio.run(play())


def test_a_reply_that_nobody_waited_for_is_not_recorded(made: Any) -> None:
    async def play() -> None:
        policy = LocalPolicy(*made, sampling=SAMPLING)
        gateway = Gateway(TokenUpstream(policy, policy.renderer))
        async with listening(gateway.app) as url:
            base = gateway.open("t#0")
            await policy.paused.acquire()  # the reply does not come before its time-out
            with pytest.raises(httpx.ReadTimeout):
                async with httpx.AsyncClient(timeout=0.2) as client:
                    await client.post(url + base + "/chat/completions",
                                      json={"messages": [{"role": "user", "content": "x"}]})
            policy.paused.release()
            while not gateway.captured("t#0").lost:  # noqa: ASYNC110 - by HTTP nobody tells
                await asyncio.sleep(0.01)
            await Agent(url + base).ask("again")
        captured = gateway.close("t#0")
        assert [one.conversation[-1].text for one in captured.exchanges] == ["again"]

    asyncio.run(play())


def test_our_own_policy_reads_ids_and_versions_of_a_served_model(made: Any) -> None:
    async def play() -> None:
        local = LocalPolicy(*made, sampling=SAMPLING, policy_version="5")
        async with listening(ModelServer(local).app) as url:
            for stream in (False, True):
                sampling = Sampling(logprobs=True, stream=stream, extra={"return_token_ids": True})
                policy = OpenAIPolicy("local", url + "/v1", sampling=sampling)
                turn = await policy.act((Message(role=Role.USER, text="hello"),), task="t", seed=3)
                await policy.aclose()
                assert turn.policy_version == "5" and turn.logprobs is not None
                assert len(turn.output_token_ids or ()) == len(turn.logprobs) > 0

    asyncio.run(play())
