"""What a queue writes into NATS, and what NATS says of it. Pure."""

from __future__ import annotations

from typing import Self

import msgspec

from quintain.fleet._subjects import last
from quintain.fleet.base import BODY_BYTES, ID_BYTES, Job


class Letter(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A job as it lies in a stream; the rest is in its subject."""

    tenant: str
    put_seconds: float
    ready_seconds: float
    body: bytes

    def job(self, subject: str) -> Job:
        _, kind, priority, id = subject.split(".")
        try:
            return Job(id=last(id), kind=last(kind), priority=int(priority), tenant=self.tenant, body=self.body)
        except ValueError:  # no id that we would have given: somebody else's
            return Job(id=id[:ID_BYTES], kind=last(kind), priority=int(priority), body=self.body)


class Grave(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A dead job."""

    letter: Letter
    priority: int
    attempt: int
    reason: str

    def job(self, subject: str) -> Job:
        _, _, kind, id = subject.split(".")
        return Job(id=last(id), kind=last(kind), priority=self.priority, tenant=self.letter.tenant,
                   body=self.letter.body)


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What the subject of an acknowledgement says of the delivery."""

    attempt: int
    seq: int
    stored_seconds: float

    @classmethod
    def of(cls, token: str) -> Self:
        parts = token.split(".")
        first = 4 if len(parts) == 9 else 6  # $JS.ACK[.DOMAIN.ACCOUNT].STREAM.CONSUMER.DELIVERED.SEQ.…
        return cls(attempt=int(parts[first]), seq=int(parts[first + 1]), stored_seconds=int(parts[first + 3]) / 1e9)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the server shows it."""

    subject: str
    seq: int
    data: bytes = b""


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    messages: int = 0
    last_seq: int = 0
    subjects: dict[str, int] | None = None


class _Name(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    config: _Name
    state: StreamState


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of which only matters that it is no error."""


_letters = msgspec.msgpack.Decoder(Letter)
_graves = msgspec.msgpack.Decoder(Grave)


def letter(data: bytes) -> Letter:
    """What a message says. What another has written, and is none, comes out as a job with all of it as its body:
    whoever is handed that finds that it is no order, and it dies with this reason, instead of everybody who looks."""
    try:
        return _letters.decode(data)
    except msgspec.MsgspecError:
        return Letter(tenant="", put_seconds=0.0, ready_seconds=0.0, body=data[:BODY_BYTES])


def grave(data: bytes) -> Grave:
    """Raises msgspec.MsgspecError for what is none."""
    return _graves.decode(data)


def nak(delay_seconds: float) -> bytes:
    """Says that a message is given back."""
    return b"-NAK" if delay_seconds <= 0 else b'-NAK {"delay": %d}' % int(delay_seconds * 1e9)
