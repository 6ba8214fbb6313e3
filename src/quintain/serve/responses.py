"""OpenAI's Responses at the gateway (https://platform.openai.com/docs/api-reference/responses). Pure."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from quintain.serve.base import Asked, Refused
from quintain.serve.chat import problem
from quintain.serve.dialect import Call, Counted, Heard, Memory, heard, named_event, translated, words_of
from quintain.serve.response_input import messages_of, reply_message, response_format, tool, tool_choice


class _Body(msgspec.Struct, frozen=True):
    input: str | list[dict[str, Any]] = ""
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: object = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None


class Responses:
    """The dialect. `previous_response_id` names a reply of the same episode; tools that OpenAI runs itself, custom
    tools, files, conversations and background work are refused: no other model has them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._asked = _Body()
        self._fresh: list[object] = []
        self._id = f"resp_{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._items: list[dict[str, Any]] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._done = 0
        self._number = -1
        self._begun = False
        self._finish: str | None = None
        self._counted = Counted()

    def read(self, body: bytes) -> Asked:
        try:
            said = msgspec.json.decode(body, type=_Body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Refused(400, f"expected the body of a response: {error}") from None
        if said.background or said.conversation is not None:
            raise Refused(400, "expected neither background nor conversation: name what was said by "
                          "previous_response_id, or send it again")
        self._asked = said
        past = self._memory.recall(said.previous_response_id) if said.previous_response_id else []
        self._fresh = list(messages_of(said.input))
        told: list[object] = [{"role": "system", "content": said.instructions}] if said.instructions else []
        return translated({
            "model": said.model, "messages": [*told, *past, *self._fresh], "temperature": said.temperature,
            "top_p": said.top_p, "max_tokens": said.max_output_tokens,
            "tools": [tool(one) for one in said.tools] if said.tools else None,
            "tool_choice": tool_choice(said.tool_choice) if said.tools else None,
            "parallel_tool_calls": said.parallel_tool_calls if said.tools else None,
            "reasoning_effort": (said.reasoning or {}).get("effort"),
            "response_format": response_format((said.text or {}).get("format")),
            "stream": said.stream or None, "stream_options": {"include_usage": True} if said.stream else None})

    def whole(self, piece: str) -> bytes:
        for _ in self._events(heard(piece)):
            pass
        for _ in self._ended():
            pass
        return json.dumps(self._response()).encode()

    def piece(self, piece: str) -> bytes:
        out = bytearray()
        if not self._begun:
            self._begun = True
            for name in ("response.created", "response.in_progress"):
                out += self._event(name, response=self._response("in_progress"))
        for part in self._events(heard(piece)):
            out += part
        return bytes(out)

    def end(self) -> bytes:
        rest = b"".join(self._ended())
        response = self._response()
        return rest + self._event(f"response.{response['status']}", response=response)

    def broken(self, refused: Refused) -> bytes:
        words = words_of(refused)
        return self._event("error", code=str(refused.status), message=words, param=None, error={
            "message": words, "type": "upstream_error", "code": str(refused.status), "param": None})

    def problem(self, refused: Refused) -> bytes:
        return problem(refused)

    def _events(self, told: Heard) -> Iterator[bytes]:
        self._counted.take(told)
        self._finish = told.finish or self._finish
        if told.reasoning:
            yield from self._within("reasoning", {"summary": [], "content": [{"type": "reasoning_text", "text": ""}]})
            yield self._delta("response.reasoning_text.delta", told.reasoning)
        if told.text:
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield from self._within("message", {"role": "assistant", "content": [part]})
            yield self._delta("response.output_text.delta", told.text, logprobs=[])
        for call in told.calls:
            yield from self._call(call)

    def _within(self, kind: str, fields: dict[str, Any]) -> Iterator[bytes]:
        """Begin an item with one part, unless it is open already."""
        if self._items and self._items[-1]["type"] == kind:
            return
        yield from self._ended()
        item = {"id": f"{kind[:3]}_{uuid.uuid4().hex}", "type": kind, "status": "in_progress", **fields}
        self._items.append(item)
        at = len(self._items) - 1
        yield self._event("response.output_item.added", output_index=at, item={**item, "content": []})
        yield self._event("response.content_part.added", item_id=item["id"], output_index=at, content_index=0,
                          part=dict(item["content"][0]))

    def _delta(self, name: str, text: str, **more: object) -> bytes:
        item = self._items[-1]
        item["content"][0]["text"] += text
        return self._event(name, item_id=item["id"], output_index=len(self._items) - 1, content_index=0, delta=text,
                           **more)

    def _call(self, call: Call) -> Iterator[bytes]:
        item = self._calls.get(call.nth)
        if item is None:
            yield from self._ended()
            item = self._calls[call.nth] = {
                "id": f"fc_{uuid.uuid4().hex}", "type": "function_call", "status": "in_progress", "call_id": call.id,
                "name": call.name, "arguments": ""}
            self._items.append(item)
            yield self._event("response.output_item.added", output_index=len(self._items) - 1, item=dict(item))
        if call.arguments:
            item["arguments"] += call.arguments
            yield self._event("response.function_call_arguments.delta", item_id=item["id"],
                              output_index=self._items.index(item), delta=call.arguments)

    def _ended(self) -> Iterator[bytes]:
        """The ends of the items that are open."""
        while self._done < len(self._items):
            at, item = self._done, self._items[self._done]
            self._done += 1
            item["status"] = "completed"
            where: dict[str, object] = {"item_id": item["id"], "output_index": at}
            if item["type"] == "function_call":
                yield self._event("response.function_call_arguments.done", **where, name=item["name"],
                                  arguments=item["arguments"])
            else:
                part = item["content"][0]
                name = "reasoning_text" if item["type"] == "reasoning" else "output_text"
                yield self._event(f"response.{name}.done", **where, content_index=0, text=part["text"], logprobs=[])
                yield self._event("response.content_part.done", **where, content_index=0, part=dict(part))
            yield self._event("response.output_item.done", output_index=at, item=dict(item))

    def _event(self, name: str, /, **fields: object) -> bytes:
        self._number += 1
        return named_event(name, {"type": name, "sequence_number": self._number, **fields})

    def _response(self, status: str | None = None) -> dict[str, object]:
        """The whole reply so far; remembered once it is over."""
        said, cut = self._asked, self._finish == "length"
        if status is None:
            status = "incomplete" if cut else "completed"
            if said.store is not False:
                self._memory.remember(
                    self._id, said.previous_response_id, [*self._fresh, reply_message(self._items)])
        read, out = self._counted.read, self._counted.said
        return {
            "id": self._id, "object": "response", "created_at": self._created, "status": status, "model": said.model,
            "output": self._items if status != "in_progress" else [], "error": None, "metadata": {},
            "incomplete_details": {"reason": "max_output_tokens"} if cut and status == "incomplete" else None,
            "instructions": said.instructions, "previous_response_id": said.previous_response_id,
            "max_output_tokens": said.max_output_tokens, "temperature": said.temperature, "top_p": said.top_p,
            "tools": said.tools or [], "tool_choice": said.tool_choice or "auto",
            "parallel_tool_calls": said.parallel_tool_calls is not False, "text": said.text or {},
            "usage": None if status == "in_progress" else {
                "input_tokens": read, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": out,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": read + out}}
