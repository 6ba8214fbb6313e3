"""What an agent may speak to the gateway: a request becomes one of Chat Completions, and what is answered to that
becomes what the agent expects. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from quintain.serve.base import Asked, Refused
from quintain.serve.chat import as_wanted, event, problem, read_piece, read_request


class Memory(Protocol):
    """What an episode keeps of earlier replies for a dialect that names them instead of repeating them."""

    def recall(self, reply: str) -> list[object]:
        """All messages up to a reply and with it. Raises Refused(400) for one that is not known."""
        ...

    def remember(self, reply: str, before: str | None, messages: Sequence[object]) -> None: ...


class NoMemory:
    """Of who has no episode."""

    def recall(self, reply: str) -> list[object]:
        raise Refused(400, f"expected a reply of this episode, found {reply!r}")

    def remember(self, reply: str, before: str | None, messages: Sequence[object]) -> None:
        return None


class Dialect(Protocol):
    """One request in one of the ways to ask, and its reply on the way out: `read` comes first, then `whole` alone, or
    `piece` for each chunk with `end` or `broken` as the last."""

    def read(self, body: bytes) -> Asked:
        """Raises Refused(400)."""
        ...

    def whole(self, piece: str) -> bytes:
        """A whole completion in this dialect's words."""
        ...

    def piece(self, piece: str) -> bytes:
        """What goes out for a chunk of Chat Completions: events, or nothing."""
        ...

    def end(self) -> bytes: ...

    def broken(self, refused: Refused) -> bytes:
        """What goes out where no more will come."""
        ...

    def problem(self, refused: Refused) -> bytes:
        """The body of a refusal."""
        ...


class Chat:
    """OpenAI's Chat Completions: what the upstream speaks too."""

    def __init__(self, memory: Memory) -> None:
        self._asked = Asked(conversation=(), fields={})

    def read(self, body: bytes) -> Asked:
        self._asked = read_request(body)
        return self._asked

    def whole(self, piece: str) -> bytes:
        return as_wanted(piece, self._asked) or b""

    def piece(self, piece: str) -> bytes:
        wanted = as_wanted(piece, self._asked)
        return b"" if wanted is None else event(wanted)

    def end(self) -> bytes:
        return event("[DONE]")

    def broken(self, refused: Refused) -> bytes:
        return event(problem(refused))

    def problem(self, refused: Refused) -> bytes:
        return problem(refused)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, or the piece of one that a chunk brings: `nth` tells which."""

    nth: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion, or a chunk of one, says. Tokens that no usage counts are counted by their ids; of a chunk
    `fresh_tokens` are those it brings."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    fresh_tokens: int = 0


def heard(piece: str) -> Heard:
    """Of a piece that was read before: a chat completion, whole or in part."""
    value = read_piece(piece)
    usage: dict[str, Any] = value.get("usage") or {}
    choice: dict[str, Any] = next(iter(value.get("choices") or ()), {})
    said: dict[str, Any] = choice.get("message") or choice.get("delta") or {}
    prompt = value.get("prompt_token_ids")
    return Heard(
        text=said.get("content") or said.get("refusal") or "",
        reasoning=said.get("reasoning_content") or said.get("reasoning") or "",
        calls=tuple(_calls(said.get("tool_calls") or ())), finish=choice.get("finish_reason"),
        prompt_tokens=usage.get("prompt_tokens", len(prompt) if prompt else None),
        output_tokens=usage.get("completion_tokens"), fresh_tokens=len(choice.get("token_ids") or ()))


class Counted:
    """The tokens of a reply that comes in pieces."""

    def __init__(self) -> None:
        self.read = 0
        self._said = 0
        self._told: int | None = None

    def take(self, told: Heard) -> None:
        self.read = told.prompt_tokens if told.prompt_tokens is not None else self.read
        self._told = told.output_tokens if told.output_tokens is not None else self._told
        self._said += told.fresh_tokens

    @property
    def said(self) -> int:
        return self._said if self._told is None else self._told


def translated(fields: dict[str, object]) -> Asked:
    """A request that was put into Chat Completions' words, fields of None left out."""
    return read_request(json.dumps({name: value for name, value in fields.items() if value is not None}).encode())


def named_event(name: str, data: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def words_of(refused: Refused) -> str:
    """What a refusal says, also where it is another endpoint's own."""
    if refused.content is None:
        return str(refused)
    text = refused.content.decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except ValueError:
        return text[:2000]
    error = told.get("error", told) if isinstance(told, dict) else told
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else text[:2000]


def _calls(said: Any) -> Iterator[Call]:
    for at, call in enumerate(said):
        function = call.get("function") or {}
        yield Call(nth=call.get("index", at), id=call.get("id") or "", name=function.get("name") or "",
                   arguments=function.get("arguments") or "")
