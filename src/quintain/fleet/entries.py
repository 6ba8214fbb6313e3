"""The words of the register: what became of an episode, and of each attempt at it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quintain.fleet.base import Job


class State(StrEnum):
    OPEN = "open"
    SETTLED = "settled"  # it has its one result
    ABANDONED = "abandoned"  # it will have none, and the reason is known


class End(StrEnum):
    """What became of an attempt."""

    RUNNING = "running"
    ACCEPTED = "accepted"
    LATE = "late"  # it brought a result when a later attempt had begun, or another result counted already
    FAILED = "failed"
    LOST = "lost"  # nothing was heard of it before the next one began


class Answer(StrEnum):
    """What the register says to a result."""

    ACCEPTED = "accepted"  # it counts; said again, the same
    LATE = "late"  # it does not; it is kept with its attempt
    UNKNOWN = "unknown"  # no such attempt was ever begun


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `result` is there for late ones; that of the accepted one is the episode's."""

    attempt: int
    worker: str
    began_seconds: float
    ended_seconds: float | None
    end: End
    reason: str = ""
    result: bytes | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One episode. `attempt` is the number of the one that may commit; `accepted` of the one that did."""

    job: Job
    attempt: int
    state: State
    accepted: int | None = None
    result: bytes | None = None
    reason: str = ""
    tried: tuple[Tried, ...] = ()


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many episodes are in which state, and how many attempts ended how."""

    open: int = 0
    settled: int = 0
    abandoned: int = 0
    attempts: dict[str, int] = {}


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconciliation did: jobs that the queue had forgotten, and dead ones that were written down as such.
    `full` says that the queue had no room for all: reconcile again later."""

    put: int = 0
    abandoned: int = 0
    full: bool = False
