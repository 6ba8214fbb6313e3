"""Anthropic's Messages at the gateway (https://docs.anthropic.com/en/api/messages, version 2023-06-01). Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from quintain.serve.base import Asked, Refused
from quintain.serve.dialect import Call, Counted, Heard, Memory, heard, named_event, translated, words_of

_STOPS = {"length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use", "content_filter": "refusal"}
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
          413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: str | list[dict[str, Any]]


class _Body(msgspec.Struct, frozen=True):
    messages: list[_Said]
    max_tokens: int
    model: str = ""
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None


class Messages:
    """The dialect. Thinking that is handed back goes to the upstream as `reasoning_content`; tools that Anthropic runs
    itself, documents and citations are refused: no other model has them. One block is open at a time."""

    def __init__(self, memory: Memory) -> None:
        self._model = ""
        self._begun = False
        self._open: object = None
        self._nth = -1
        self._finish = "end_turn"
        self._counted = Counted()

    def read(self, body: bytes) -> Asked:
        try:
            said = msgspec.json.decode(body, type=_Body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Refused(400, f"expected the body of a message: {error}") from None
        self._model = said.model
        messages: list[dict[str, object]] = []
        if said.system:
            messages.append({"role": "system", "content": _plain(said.system)})
        for one in said.messages:
            messages += _message(one)
        choice = said.tool_choice or {}
        return translated({
            "model": said.model, "messages": messages, "max_tokens": said.max_tokens, "temperature": said.temperature,
            "top_p": said.top_p, "top_k": said.top_k, "stop": said.stop_sequences or None,
            "tools": [_tool(tool) for tool in said.tools] if said.tools else None, "tool_choice": _choice(choice),
            "parallel_tool_calls": False if choice.get("disable_parallel_tool_use") else None,
            "stream": said.stream or None, "stream_options": {"include_usage": True} if said.stream else None})

    def whole(self, piece: str) -> bytes:
        told = heard(piece)
        self._counted.take(told)
        blocks: list[dict[str, object]] = []
        if told.reasoning:
            blocks.append({"type": "thinking", "thinking": told.reasoning, "signature": ""})
        if told.text:
            blocks.append({"type": "text", "text": told.text})
        blocks += [_block(call) for call in told.calls]
        return json.dumps({
            **self._head(), "content": blocks, "stop_reason": _STOPS.get(told.finish or "", "end_turn")}).encode()

    def piece(self, piece: str) -> bytes:
        told, out = heard(piece), bytearray()
        self._counted.take(told)
        if not self._begun:
            self._begun = True
            start = {**self._head(), "content": [], "stop_reason": None}
            out += named_event("message_start", {"type": "message_start", "message": start})
        for part in self._parts(told):
            out += part
        if told.finish:
            self._finish = _STOPS.get(told.finish, "end_turn")
        return bytes(out)

    def end(self) -> bytes:
        return self._closed() + named_event("message_delta", {
            "type": "message_delta", "delta": {"stop_reason": self._finish, "stop_sequence": None},
            "usage": self._usage()}) + named_event("message_stop", {"type": "message_stop"})

    def broken(self, refused: Refused) -> bytes:
        return named_event("error", _problem(refused))

    def problem(self, refused: Refused) -> bytes:
        return json.dumps(_problem(refused)).encode()

    def _parts(self, told: Heard) -> Iterator[bytes]:
        if told.reasoning:
            yield self._within("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "thinking_delta", "thinking": told.reasoning})
        if told.text:
            yield self._within("text", {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": told.text})
        for call in told.calls:
            yield self._within(call.nth, _block(msgspec.structs.replace(call, arguments="")))
            if call.arguments:
                yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})

    def _within(self, what: object, block: dict[str, object]) -> bytes:
        if self._open == what:
            return b""
        closed, self._open = self._closed(), what
        self._nth += 1
        return closed + named_event("content_block_start", {
            "type": "content_block_start", "index": self._nth, "content_block": block})

    def _delta(self, delta: dict[str, object]) -> bytes:
        return named_event("content_block_delta", {"type": "content_block_delta", "index": self._nth, "delta": delta})

    def _closed(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return named_event("content_block_stop", {"type": "content_block_stop", "index": self._nth})

    def _head(self) -> dict[str, object]:
        return {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": self._model,
                "stop_sequence": None, "usage": self._usage()}

    def _usage(self) -> dict[str, object]:
        return {"input_tokens": self._counted.read, "output_tokens": self._counted.said}


def _block(call: Call) -> dict[str, object]:
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:  # a model may write anything: the agent is shown what it wrote
        given = None
    if not isinstance(given, dict):
        given = {"_raw": call.arguments}
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _problem(refused: Refused) -> dict[str, object]:
    kind = _KINDS.get(refused.status, "api_error" if refused.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": words_of(refused)}}


def _message(said: _Said) -> Iterator[dict[str, object]]:
    """A message of Anthropic's, which may hold the results of several tools, as those of Chat Completions."""
    if said.role not in ("user", "assistant"):
        raise Refused(400, f"expected a role of user or assistant, found {said.role!r}")
    if isinstance(said.content, str):
        yield {"role": said.role, "content": said.content}
        return
    parts: list[dict[str, object]] = []
    calls: list[dict[str, object]] = []
    thought = ""
    for block in said.content:
        match block.get("type"):
            case "text":
                parts.append({"type": "text", "text": str(block.get("text", ""))})
            case "image":
                parts.append({"type": "image_url", "image_url": {"url": _image(block)}})
            case "tool_use":
                calls.append({"id": block.get("id"), "type": "function", "function": {
                    "name": block.get("name"), "arguments": _arguments(block.get("input"))}})
            case "tool_result":
                yield {"role": "tool", "tool_call_id": block.get("tool_use_id"),
                       "content": _plain(block.get("content") or "")}
            case "thinking":
                thought += str(block.get("thinking", ""))
            case "redacted_thinking":
                pass  # nobody but Anthropic can read it
            case other:
                raise Refused(400, f"expected text, images, tool_use, tool_result or thinking, found {other!r}")
    if parts or calls:
        only = all(part["type"] == "text" for part in parts)
        told: dict[str, object] = {
            "role": said.role, "content": "".join(str(part["text"]) for part in parts) if only else parts}
        if calls:
            told["tool_calls"] = calls
        if thought:
            told["reasoning_content"] = thought
        yield told


def _arguments(given: object) -> str:
    """What the model wrote, where `_block` could not read it."""
    if isinstance(given, dict) and set(given) == {"_raw"} and isinstance(given["_raw"], str):
        return given["_raw"]
    return json.dumps(given)


def _plain(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or any(
            not isinstance(block, dict) or block.get("type") != "text" for block in content):
        raise Refused(400, "expected nothing but text in a system prompt and in the result of a tool")
    return "\n\n".join(str(block.get("text", "")) for block in content)


def _image(block: dict[str, Any]) -> str:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url", ""))


def _tool(tool: dict[str, Any]) -> dict[str, object]:
    if "input_schema" not in tool:
        raise Refused(400, f"expected tools with an input_schema, found {tool.get('type')!r}, which Anthropic runs")
    return {"type": "function", "function": {
        "name": tool.get("name"), "description": tool.get("description", ""), "parameters": tool["input_schema"]}}


def _choice(choice: dict[str, Any]) -> object:
    if choice.get("type") == "tool":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return {"auto": "auto", "any": "required", "none": "none"}.get(str(choice.get("type")))
