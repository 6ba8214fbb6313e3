"""The words of a queue: where an item is, on what terms it is dealt with, and what a worker holds of it."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Place(StrEnum):
    """Where an item is. What was acknowledged is nowhere."""

    READY = "ready"
    DELAYED = "delayed"
    LEASED = "leased"
    DEAD = "dead"


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue deals. `bound` is how many items of one kind it keeps, so that a flood of one shuts out no other;
    `deliveries` is how often an item is handed out before it is dead; `ageing_seconds` is what one step of priority is
    worth in waiting time; `lease_seconds` is how long a worker may be silent (the shelf is told at each lease)."""

    bound: int = 1_000_000
    deliveries: int = 5
    ageing_seconds: float = 15.0
    lease_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, least in (("bound", 1), ("deliveries", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, found {getattr(self, name)!r}")
        if not 0.0 <= self.ageing_seconds < math.inf:
            raise ValueError(f"ageing_seconds must be finite and at least 0, found {self.ageing_seconds!r}")
        if not 0.0 < self.lease_seconds < math.inf:
            raise ValueError(f"lease_seconds must be finite and more than 0, found {self.lease_seconds!r}")

    def rank(self, put_seconds: float, priority: int) -> float:
        """What items are ordered by, least first. It is fixed when an item is put."""
        return put_seconds - priority * self.ageing_seconds


class Lease(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An item in a worker's hands until a time. (`id`, `attempt`) is the fence: attempts count from 1 and never come
    twice, so whoever names an older one is refused. `token` is what the queue itself needs to find it again."""

    id: str
    attempt: int
    worker: str
    until_seconds: float
    kind: str
    body: T
    token: str = ""


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a lease that ran out. `dead` says that it was the last delivery."""

    id: str
    attempt: int
    worker: str
    dead: bool


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many items are where."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    dead: int = 0

    @property
    def total(self) -> int:
        return self.ready + self.delayed + self.leased + self.dead


class Card(Generic[T]):
    """One item as the shelf keeps it. To be read by others, changed by the shelf only. `until_seconds` is when a lease
    ends or a delay is over; `reason` says why it is dead, or why it was given back last; `deliveries` are those that
    count towards the limit."""

    __slots__ = (
        "attempt", "body", "deliveries", "id", "kind", "number", "place", "priority", "put_seconds", "rank", "reason",
        "until_seconds", "worker",
    )

    def __init__(
        self, id: str, body: T, kind: str, priority: int, put_seconds: float, rank: float, number: int,
    ) -> None:
        self.id = id
        self.body = body
        self.kind = kind
        self.priority = priority
        self.put_seconds = put_seconds
        self.rank = rank
        self.number = number
        self.attempt = 0
        self.deliveries = 0
        self.place = Place.READY
        self.until_seconds = put_seconds
        self.worker = ""
        self.reason = ""


class Full(Exception):
    """A kind is at its bound: put again when something of it has been acknowledged."""
