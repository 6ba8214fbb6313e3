"""The real SDKs of OpenAI and Anthropic talk to the gateway as to their own houses; what was sampled is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")

from quintain.serve import Captured, ChatUpstream, Gateway, listening
from tests.serve.scripted_model import ScriptedModel

ANSWER = "The answer is 42."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
#: model, the SDKs' class, a status where it has one
TROUBLES = pytest.mark.parametrize(("model", "error", "stream"), [
    ("busy", "RateLimitError", False), ("busy", "RateLimitError", True), ("broken", "InternalServerError", False),
    ("absent", "NotFoundError", True), ("small", "BadRequestError", False), ("slow", "InternalServerError", False),
    ("dropping", "APIError", True)])


@asynccontextmanager
async def played() -> AsyncIterator[tuple[ScriptedModel, Gateway, str, str]]:
    """A model, a gateway before it, its address, and the base address of the one episode."""
    model = ScriptedModel()
    async with listening(model.app, grace_seconds=1) as behind:
        upstream = ChatUpstream(behind + "/v1", read_seconds=0.4)
        gateway = Gateway(upstream)
        async with listening(gateway.app, grace_seconds=1) as url:
            yield model, gateway, url, url + gateway.open("e")
        await upstream.aclose()


def check(model: ScriptedModel, captured: Captured) -> None:
    """The record is what the model sampled, bit for bit, and trains on all of it."""
    assert captured.lost == 0
    assert [(list(turn.prompt_token_ids or ()), list(turn.output_token_ids or ()), list(turn.logprobs or ()))
            for turn in captured.turns] == model.sampled
    rows = captured.rows(task="t", group="g", reward=None)
    assert sum(row.trained_tokens for row in rows) == sum(len(ids) for _, ids, _ in model.sampled)


@pytest.mark.bridge("openai", "theirs drives ours", "chat.completions: tools, streamed and whole, every token recorded")
@STREAMS
def test_openais_chat_completions_with_a_tool(stream: bool) -> None:
    openai = pytest.importorskip("openai", reason="needs OpenAI's SDK: pip install openai")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]

    async def play() -> None:
        async with played() as (model, gateway, _, base), openai.AsyncOpenAI(base_url=base, api_key="any") as client:
            messages: list[Any] = [{"role": "user", "content": "Weather?"}]
            said = []
            for _ in range(2):
                if stream:
                    async with client.chat.completions.stream(model="m", messages=messages, tools=tools) as pieces:
                        reply = await pieces.get_final_completion()
                else:
                    reply = await client.chat.completions.create(model="m", messages=messages, tools=tools)
                    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (
                        len(messages), 5 if said else 3)
                message = reply.choices[0].message
                said.append(message)
                if message.tool_calls:
                    messages += [message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}), {
                        "role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]
        call = said[0].tool_calls[0].function
        assert (call.name, call.arguments, said[1].content) == ("weather", '{"city": "Oslo"}', ANSWER)
        check(model, gateway.close("e"))

    asyncio.run(play())


@pytest.mark.bridge("openai", "theirs drives ours", "responses: tools, streamed and whole, every token recorded")
@STREAMS
@pytest.mark.parametrize("named", [False, True], ids=["repeated", "by_id"])
def test_openais_responses_with_a_tool(stream: bool, named: bool) -> None:
    openai = pytest.importorskip("openai", reason="needs OpenAI's SDK: pip install openai")
    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]

    async def play() -> None:
        async with played() as (model, gateway, _, base), openai.AsyncOpenAI(base_url=base, api_key="any") as client:
            given: list[Any] = [{"role": "user", "content": "Weather?"}]
            more: dict[str, Any] = {"model": "m", "instructions": "Be brief.", "tools": tools}

            async def ask(**fields: Any) -> Any:
                if not stream:
                    return await client.responses.create(**more, **fields)
                async with client.responses.stream(**more, **fields) as pieces:
                    return await pieces.get_final_response()

            first = await ask(input=given)
            call = first.output[0]
            assert (call.type, call.name, call.arguments) == ("function_call", "weather", '{"city": "Oslo"}')
            assert (first.usage.input_tokens, first.usage.output_tokens) == (2, 3)
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
            if named:
                second = await ask(input=[result], previous_response_id=first.id)
            else:
                second = await ask(input=[*given, *(one.to_dict() for one in first.output), result])
        assert second.output_text == ANSWER and second.status == "completed"
        assert (second.usage.input_tokens, second.usage.output_tokens) == (4, 5)
        assert [one["role"] for one in model.asked[1]["messages"]] == ["system", "user", "assistant", "tool"]
        assert model.asked[1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"city": "Oslo"}'
        check(model, gateway.close("e"))

    asyncio.run(play())


@pytest.mark.bridge("anthropic", "theirs drives ours", "messages: tools, streamed and whole, every token recorded")
@STREAMS
def test_anthropics_messages_with_a_tool(stream: bool) -> None:
    anthropic = pytest.importorskip("anthropic", reason="needs Anthropic's SDK: pip install anthropic")

    async def play() -> None:
        async with played() as (model, gateway, _, base), anthropic.AsyncAnthropic(
            base_url=base, api_key="any",
        ) as client:
            messages: list[Any] = [{"role": "user", "content": "Weather?"}]
            asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "system": "Be brief.", "tools": [
                {"name": "weather", "input_schema": SCHEMA}]}
            said = []
            for _ in range(2):
                if stream:
                    async with client.messages.stream(messages=messages, **asked) as pieces:
                        reply = await pieces.get_final_message()
                else:
                    reply = await client.messages.create(messages=messages, **asked)
                said.append(reply)
                messages.append({"role": "assistant", "content": reply.content})
                if reply.stop_reason == "tool_use":
                    messages.append({"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": reply.content[0].id, "content": "rain"}]})
        assert (said[0].content[0].name, said[0].content[0].input) == ("weather", {"city": "Oslo"})
        assert (said[1].content[0].text, said[1].stop_reason) == (ANSWER, "end_turn")
        assert [(one.usage.input_tokens, one.usage.output_tokens) for one in said] == [(2, 3), (4, 5)]
        assert [one["role"] for one in model.asked[1]["messages"]] == ["system", "user", "assistant", "tool"]
        check(model, gateway.close("e"))

    asyncio.run(play())


@pytest.mark.bridge("openai", "theirs drives ours", "its own errors for what goes wrong upstream")
@TROUBLES
@pytest.mark.parametrize("way", ["chat", "responses"])
def test_what_goes_wrong_upstream_is_an_error_of_openais_own(way: str, model: str, error: str, stream: bool) -> None:
    openai = pytest.importorskip("openai", reason="needs OpenAI's SDK: pip install openai")

    async def play() -> None:
        async with played() as (_, gateway, _, base), openai.AsyncOpenAI(
            base_url=base, api_key="any", max_retries=0,
        ) as client:

            async def ask() -> None:
                if way == "chat":
                    reply = await client.chat.completions.create(
                        model=model, stream=stream, messages=[{"role": "user", "content": "?"}])
                else:
                    reply = await client.responses.create(model=model, stream=stream, input="?")
                async for _ in reply:
                    pass

            with pytest.raises(getattr(openai, error)) as caught:
                await ask()
            if model == "busy":
                assert caught.value.response.headers["retry-after"] == "7"
            captured = gateway.close("e")
            assert (len(captured.turns), captured.lost) == (0, 1)
            assert [one.turn.output_token_ids for one in captured.cut] == ([(0, 1)] if model == "dropping" else [])

    asyncio.run(play())


@pytest.mark.bridge("anthropic", "theirs drives ours", "its own errors for what goes wrong upstream")
@TROUBLES
def test_what_goes_wrong_upstream_is_an_error_of_anthropics_own(model: str, error: str, stream: bool) -> None:
    anthropic = pytest.importorskip("anthropic", reason="needs Anthropic's SDK: pip install anthropic")

    async def play() -> None:
        async with played() as (_, gateway, _, base), anthropic.AsyncAnthropic(
            base_url=base, api_key="any", max_retries=0,
        ) as client:

            async def ask() -> None:
                reply = await client.messages.create(
                    model=model, stream=stream, max_tokens=9, messages=[{"role": "user", "content": "?"}])
                async for _ in reply:
                    pass

            with pytest.raises(getattr(anthropic, error)):
                await ask()
            assert gateway.close("e").lost == 1

    asyncio.run(play())


def test_a_wrong_secret_is_an_authentication_error_and_a_right_one_may_be_an_api_key() -> None:
    openai = pytest.importorskip("openai", reason="needs OpenAI's SDK: pip install openai")

    async def play() -> None:
        async with played() as (model, gateway, url, base):
            key = base.split("/")[-2]
            said: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
            async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key[:-1]) as client:
                with pytest.raises(openai.AuthenticationError):
                    await client.chat.completions.create(**said)
            async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key) as client:
                assert (await client.chat.completions.create(**said)).choices[0].message.content == ANSWER
                assert (await client.models.list()).data[0].id == "policy"
        check(model, gateway.close("e"))

    asyncio.run(play())
