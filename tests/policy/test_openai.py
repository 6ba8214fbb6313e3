from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.policy import OpenAIPolicy, Retries, Sampling, Timeouts
from quintain.policy._events import EventStream
from quintain.policy.openai import _retry_after_seconds
from quintain.types import FaultKind, Finish, HouseError, Message, Role, Turn

from .endpoint import Endpoint, Reply, chunk, completion, data, hang_up, respond, say_nothing, serving, stream

ASKED = (Message(role=Role.SYSTEM, text="Be brief."), Message(role=Role.USER, text="Say hello."))
QUICK = Retries(tries=3, first_seconds=0.001, most_seconds=0.01)
WHOLE = Sampling(stream=False)
HELLO = stream(chunk(role="assistant"), chunk(content="hel"), chunk(content="lo"),
               data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), b"data: [DONE]\n\n")


def ask(*replies: Reply, sampling: Sampling | None = None, timeouts: Timeouts | None = None,
        retries: Retries = QUICK, conversation: tuple[Message, ...] = ASKED) -> tuple[Turn, Endpoint]:
    async def asking() -> tuple[Turn, Endpoint]:
        async with serving(*replies) as endpoint:
            policy = OpenAIPolicy("m", endpoint.url, sampling=sampling, timeouts=timeouts, retries=retries)
            try:
                return await policy.act(conversation, task="t", seed=5), endpoint
            finally:
                await policy.aclose()

    return asyncio.run(asking())


def test_a_whole_response_becomes_a_turn() -> None:
    turn, endpoint = ask(completion("hello"), sampling=WHOLE)
    assert turn == Turn(text="hello", policy_version="m", prompt_tokens=7, output_tokens=3)
    headers, body = endpoint.requests[0]
    assert headers[":start"] == "POST /v1/chat/completions HTTP/1.1"
    assert body == {
        "model": "m", "seed": 5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}],
    }


def test_a_stream_becomes_the_same_turn() -> None:
    turn, endpoint = ask(HELLO)
    assert (turn.text, turn.finish) == ("hello", Finish.STOP)
    assert endpoint.requests[0][1]["stream_options"] == {"include_usage": True}


def test_a_reply_cut_for_length_says_so() -> None:
    assert ask(completion("hel", finish="length"), sampling=WHOLE)[0].finish is Finish.LENGTH


def test_tokens_logprobs_usage_and_reasoning_are_recorded_as_they_come() -> None:
    def part(text: str, ids: list[int], probs: list[float], **more: object) -> bytes:
        logprobs = {"content": [{"token": "x", "logprob": p, "top_logprobs": []} for p in probs]}
        return data({"prompt_token_ids": [1, 2, 3], "choices": [
            {"index": 0, "delta": {"content": text, **more}, "token_ids": ids, "logprobs": logprobs},
        ]})

    turn, _ = ask(stream(
        part("", [4], [-0.1], reasoning_content="hm"), part("a", [5, 6], [-0.2, -0.3]),
        data({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
        data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}), b"data: [DONE]\n\n",
    ))
    assert turn == Turn(
        text="a", reasoning="hm", prompt_token_ids=(1, 2, 3), output_token_ids=(4, 5, 6), logprobs=(-0.1, -0.2, -0.3),
        finish=Finish.LENGTH, policy_version="m", prompt_tokens=3, output_tokens=3,
    )


@pytest.mark.parametrize("probs", [[-0.1], [-0.1, None], [-0.1, float("-inf")]])
def test_logprobs_that_do_not_fit_their_tokens_are_not_measured(probs: list[float | None]) -> None:
    more = {"token_ids": [1, 2], "logprobs": {"content": [{"logprob": p} for p in probs]}}
    turn, _ = ask(completion("ab", **more), sampling=WHOLE)
    assert turn.output_token_ids == (1, 2)
    assert turn.logprobs is None


def test_too_many_requests_is_tried_again_after_the_time_that_was_asked_for() -> None:
    async def asking() -> float:
        async with serving(respond(429, b"{}", "retry-after: 0.3"), completion("ok")) as endpoint:
            policy = OpenAIPolicy("m", endpoint.url, sampling=WHOLE, retries=QUICK)
            began = asyncio.get_running_loop().time()
            assert (await policy.act(ASKED, task="t", seed=0)).text == "ok"
            await policy.aclose()
            return asyncio.get_running_loop().time() - began

    assert asyncio.run(asking()) >= 0.3


@pytest.mark.parametrize("failing", [
    pytest.param(hang_up, id="closed without a word"),
    pytest.param(respond(503, b"busy"), id="busy"),
    pytest.param(respond(200, b"<html>gateway</html>"), id="no JSON"),
    pytest.param(respond(200, b'{"object": "list"}'), id="no completion"),
    pytest.param(stream(chunk(content="hel")), id="ended early"),
    pytest.param(stream(chunk(content="hel"), promised=10_000), id="dropped in the middle"),
    pytest.param(stream(b"data: {garbage\n\n"), id="garbage"),
    pytest.param(stream(b"data: \xff\xfe\n\n"), id="no text"),
    pytest.param(stream(chunk(content="x"), data({"error": {"message": "engine died"}})), id="died in the middle"),
])
@pytest.mark.parametrize("sampling", [Sampling(), WHOLE], ids=["streamed", "whole"])
def test_a_try_that_failed_is_made_again_and_nothing_of_it_is_kept(failing: Reply, sampling: Sampling) -> None:
    turn, endpoint = ask(failing, failing, HELLO, sampling=sampling)
    assert turn.text == "hello"
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(("failing", "message", "tries"), [
    (hang_up, "RemoteProtocolError", 3),
    (respond(500, b"boom"), "status 500: .*; it said 'boom'", 3),
    (stream(chunk(content="hel")), "the stream ended before its reply did", 3),
    (stream(b"data: {garbage\n\n"), "expected a chat completion, found '{garbage'", 3),
    (stream(data({"error": {"message": "engine died"}})), "the endpoint reported .*engine died", 3),
    (respond(401, b"bad key"), "status 401: the endpoint refuses the key", 1),
    (respond(404, b"no model"), "status 404: there is no such address or model there", 1),
    (respond(400, b"bad field"), "status 400: the endpoint refuses the request; it said 'bad field'", 1),
])
def test_what_cannot_be_had_is_the_houses_fault_and_says_what_was_found(
    failing: Reply, message: str, tries: int,
) -> None:
    async def asking() -> int:
        async with serving(failing) as endpoint:
            policy = OpenAIPolicy("m", endpoint.url, retries=QUICK)
            with pytest.raises(HouseError, match=message) as found:
                await policy.act(ASKED, task="t", seed=0)
            assert found.value.kind is FaultKind.POLICY_UNREACHABLE
            assert endpoint.url in found.value.message
            await policy.aclose()
            return len(endpoint.requests)

    assert asyncio.run(asking()) == tries


def test_nobody_there_is_the_houses_fault() -> None:
    async def asking() -> None:
        async with serving(hang_up) as endpoint:
            url = endpoint.url
        policy = OpenAIPolicy("m", url, retries=QUICK)
        with pytest.raises(HouseError, match=r"ConnectError.*\(after 3 tries\)"):
            await policy.act(ASKED, task="t", seed=0)
        await policy.aclose()

    asyncio.run(asking())


@pytest.mark.parametrize("timeouts", [
    Timeouts(read_seconds=0.05), Timeouts(read_seconds=30, total_seconds=0.2),
], ids=["silence", "in all"])
def test_silence_ends_in_a_clear_error(timeouts: Timeouts) -> None:
    with pytest.raises(HouseError, match=r"ReadTimeout|no reply within 0\.2 s"):
        ask(say_nothing, timeouts=timeouts)


def test_a_stream_that_drips_for_ever_is_bounded_by_the_total() -> None:
    drip = stream(*[chunk(content="x")] * 1000, pause_seconds=0.02)
    with pytest.raises(HouseError, match=r"no reply within 0\.3 s"):
        ask(drip, timeouts=Timeouts(read_seconds=5, total_seconds=0.3))


@pytest.mark.parametrize("body", [
    b'{"error": {"code": "context_length_exceeded"}}', b"This model's maximum context length is 2048 tokens.",
])
def test_a_conversation_that_no_longer_fits_is_cut_for_length(body: bytes) -> None:
    turn, endpoint = ask(respond(400, body))
    assert (turn.text, turn.finish, len(endpoint.requests)) == ("", Finish.LENGTH, 1)


def test_the_key_comes_from_the_environment_and_is_shown_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-secret\n")

    async def asking() -> None:
        async with serving(respond(401, b"Incorrect API key provided: sk-secret")) as endpoint:
            policy = OpenAIPolicy("m", endpoint.url, api_key_env="TEST_KEY")
            with pytest.raises(HouseError) as found:
                await policy.act(ASKED, task="t", seed=0)
            assert endpoint.requests[0][0]["authorization"] == "Bearer sk-secret"
            assert "***" in str(found.value)
            for shown in (str(found.value), repr(found.value), repr(policy), repr(vars(policy))):
                assert "secret" not in shown
            await policy.aclose()

    asyncio.run(asking())


def test_lone_halves_of_a_character_are_joined_and_never_sent() -> None:
    asked = (Message(role=Role.USER, text="lone \ud83d half"),)
    turn, endpoint = ask(stream(
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ude00"},"finish_reason":"stop"}]}\n\n',
    ), conversation=asked)
    assert turn.text == "\U0001f600"
    assert endpoint.requests[0][1]["messages"][0]["content"].startswith("lone \ufffd")


PIECES = [b"data: a", b"data:b\n", b"\n", b"\r\n", b"\r", b": no\n", b"id: 1\n", b"\n\n"]


@given(pieces=st.lists(st.sampled_from(PIECES)))
def test_events_do_not_depend_on_where_the_line_was_cut(pieces: list[bytes]) -> None:
    whole, cut = EventStream(), EventStream()
    text = b"".join(pieces) + b"\n\n"
    expected = whole.feed(text)
    assert [event for byte in text for event in cut.feed(bytes([byte]))] == expected


def test_a_retry_date_is_read() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert _retry_after_seconds(format_datetime(now + timedelta(seconds=90), usegmt=True), now) == 90
    assert [_retry_after_seconds(v, now) for v in (None, "", "soon", "-3", "2.5")] == [0, 0, 0, 0, 2.5]


def test_a_completion_is_no_json_bomb() -> None:
    with pytest.raises(HouseError, match="expected a chat completion"):
        ask(respond(200, b"[" * 200_000), sampling=WHOLE)


def test_a_reply_that_the_server_aborted_is_no_reply() -> None:
    cut = stream(chunk(content="hal"), data({"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]}),
                 b"data: [DONE]\n\n")
    turn, endpoint = ask(cut, HELLO)
    assert turn.text == "hello" and len(endpoint.requests) == 2
    with pytest.raises(HouseError, match="aborted the reply"):
        ask(cut, cut, cut)
