"""What the HTTP faces speak of: a request for a reply, what came of earlier ones, and who answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

import msgspec

from quintain.types import Message, Turn


class Refused(Exception):
    """A request that gets no reply. `status` is the HTTP status to say so with; `content` the endpoint's own words
    where it was another endpoint that refused, `retry_after` when to ask again (the header, as it came)."""

    def __init__(
        self, status: int, message: str, *, content: bytes | None = None, retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.content = content
        self.retry_after = retry_after


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request of OpenAI's Chat Completions. `fields` is its body as it came, `conversation` its texts; `beyond` names
    what a model that reads and writes nothing but text cannot do for it. `usage`, `logprobs` and `ids` are what it
    wants to be told beside the text."""

    conversation: tuple[Message, ...]
    fields: Mapping[str, object]
    model: str = ""
    stream: bool = False
    usage: bool = False
    logprobs: bool = False
    ids: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    beyond: tuple[str, ...] = ()


class Exchange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that was answered: what was said before, and the reply with its ids. Times are Unix seconds."""

    conversation: tuple[Message, ...]
    turn: Turn
    began_seconds: float = 0.0
    ended_seconds: float = 0.0


class Upstream(Protocol):
    """Who answers."""

    def pieces(self, asked: Asked, past: Sequence[Exchange], *, seed: int) -> AsyncGenerator[str, None]:
        """The reply as JSON texts: one chat completion, or its chunks where it is to be streamed, with token ids and
        log-probabilities whether they are wanted or not. `past` are the episode's earlier exchanges, `seed` is for a
        request that brings none. Raises Refused."""
        ...


class Sampler(Protocol):
    """Token in, token out: `policy.LocalPolicy` is one."""

    async def sampled(
        self, prompt: Sequence[int], *, seed: int, temperature: float | None = None, max_tokens: int | None = None,
    ) -> Turn:
        """The reply to these ids. Raises HouseError(POLICY_UNREACHABLE) when there can be none."""
        ...
