"""OpenAI's Chat Completions from the side of those who answer: requests as they are read, replies as they are written.
Pure.

After https://platform.openai.com/docs/api-reference/chat, with vLLM's `return_token_ids`: `prompt_token_ids` and, in
each choice, `token_ids`. Ours is `policy_version`: which weights sampled it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from quintain.serve.base import Asked, Refused
from quintain.types import Finish, Message, Role, Turn

_ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.USER,
    "function": Role.USER,
}
#: Fields that change a reply in ways that a plain sampler cannot follow, where they say anything.
_BEYOND = ("tools", "functions", "stop", "logit_bias", "response_format", "top_p", "presence_penalty",
           "frequency_penalty", "guided_json", "guided_regex", "structured_outputs")
_SAYS_NOTHING: dict[str, tuple[object, ...]] = {
    "response_format": ({"type": "text"},), "top_p": (1, 1.0), "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
}


class _Part(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[object] | None = None


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class _Body(msgspec.Struct, frozen=True):
    messages: list[_Said]
    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None


def read_request(body: bytes) -> Asked:
    """Raises Refused(400) for what is no request, and for several choices at once: which of them the episode went on
    from, nobody could tell."""
    try:
        said = msgspec.json.decode(body, type=_Body)
        fields: dict[str, object] = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Refused(400, f"expected the body of a chat completion: {error}") from None
    if said.n not in (None, 1):
        raise Refused(400, f"expected n = 1, found {said.n}: one reply at a time is recorded")
    if not said.messages:
        raise Refused(400, "expected at least one message, found none")
    limit = said.max_completion_tokens if said.max_completion_tokens is not None else said.max_tokens
    if limit is not None and limit < 1:
        raise Refused(400, f"expected max_tokens of at least 1, found {limit}")
    return Asked(
        conversation=tuple(_message(message) for message in said.messages), fields=fields, model=said.model or "",
        stream=bool(said.stream), usage=bool(said.stream_options and said.stream_options.include_usage),
        logprobs=bool(said.logprobs), ids=bool(said.return_token_ids), temperature=said.temperature, max_tokens=limit,
        seed=said.seed, beyond=tuple(_beyond(said, fields)),
    )


def completion(turn: Turn, *, id: str, model: str, created: int) -> str:
    """A reply in one piece, with everything that is known of it."""
    choice = {
        "index": 0, "message": {"role": "assistant", "content": turn.text}, "finish_reason": turn.finish.value,
        "logprobs": _logprobs(turn), "token_ids": list(turn.output_token_ids or ()),
    }
    return json.dumps({
        "id": id, "object": "chat.completion", "created": created, "model": model, "choices": [choice],
        "usage": _usage(turn), "prompt_token_ids": list(turn.prompt_token_ids or ()),
        "policy_version": turn.policy_version,
    })


def chunks(turn: Turn, *, id: str, model: str, created: int) -> Iterator[str]:
    """The same as a stream has it: the role with the prompt's ids, the text, the end, the usage."""
    head: dict[str, Any] = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}

    def piece(delta: Mapping[str, object], finish: str | None = None, **more: object) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": finish, **more}

    yield json.dumps({**head, "choices": [piece({"role": "assistant", "content": ""})],
                      "prompt_token_ids": list(turn.prompt_token_ids or ()), "policy_version": turn.policy_version})
    yield json.dumps({**head, "choices": [piece(
        {"content": turn.text}, logprobs=_logprobs(turn), token_ids=list(turn.output_token_ids or ()))]})
    yield json.dumps({**head, "choices": [piece({}, turn.finish.value)]})
    yield json.dumps({**head, "choices": [], "usage": _usage(turn)})


def read_piece(piece: str) -> dict[str, Any]:
    """A completion or a chunk that was read before."""
    try:
        found: dict[str, Any] = msgspec.json.decode(piece)
    except msgspec.MsgspecError:  # NaN, or half of a pair of surrogates
        found = json.loads(piece)
    return found


def as_wanted(piece: str, asked: Asked) -> bytes | None:
    """A completion or a chunk without what was not asked for; None where nothing is left of it."""
    value = read_piece(piece)
    choices = value.get("choices") or []
    if not asked.ids:
        value.pop("prompt_token_ids", None)
        value.pop("policy_version", None)
        for choice in choices:
            choice.pop("token_ids", None)
    if not asked.logprobs:
        for choice in choices:
            if choice.get("logprobs") is not None:
                choice["logprobs"] = None
    if asked.stream and not asked.usage:
        value.pop("usage", None)
        if not choices and "error" not in value:
            return None
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a pair of surrogates
        return json.dumps(value).encode()


def event(data: str | bytes) -> bytes:
    """A server-sent event."""
    return b"data: %b\n\n" % (data.encode() if isinstance(data, str) else data)


def problem(refused: Refused) -> bytes:
    """An error as OpenAI words it; another endpoint's own words where they are that."""
    message = str(refused)
    if refused.content is not None:
        try:
            told = json.loads(refused.content)
        except ValueError:
            told, message = None, refused.content[:2000].decode("utf-8", "replace") or message
        if isinstance(told, dict):
            return refused.content
    kind = "invalid_request_error" if refused.status < 500 else "upstream_error"
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()


def _message(said: _Said) -> Message:
    if said.role not in _ROLES:
        raise Refused(400, f"expected a role of {', '.join(_ROLES)}, found {said.role!r}")
    text = said.content if isinstance(said.content, str) else "".join(part.text for part in said.content or ())
    return Message(role=_ROLES[said.role], text=text)


def _beyond(said: _Body, fields: Mapping[str, object]) -> Iterator[str]:
    for name in _BEYOND:
        value = fields.get(name)
        if value not in (None, [], {}, *_SAYS_NOTHING.get(name, ())):
            yield name
    if any(message.role in ("tool", "function") or message.tool_calls for message in said.messages):
        yield "messages of tools"
    if any(part.type != "text" for message in said.messages if isinstance(message.content, list)
           for part in message.content):
        yield "parts that are not text"


def _logprobs(turn: Turn) -> dict[str, object] | None:
    if turn.logprobs is None or turn.output_token_ids is None:
        return None
    return {"content": [
        {"token": f"token_id:{token}", "logprob": value, "bytes": None, "top_logprobs": []}
        for token, value in zip(turn.output_token_ids, turn.logprobs, strict=True)]}


def _usage(turn: Turn) -> dict[str, int]:
    read, said = len(turn.prompt_token_ids or ()), len(turn.output_token_ids or ())
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}


def stop_of(reason: str | None) -> Finish:
    """A finish reason in our words."""
    return Finish.LENGTH if reason == "length" else Finish.STOP
