"""Who works at a register, and with how much room: so that what fits nobody is given up, and does not wait for ever."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from quintain.fleet.plan_words import Room
from quintain.fleet.register import Register
from quintain.types import HouseError

_log = logging.getLogger(__name__)

#: How often a worker says that it is there.
SAY_SECONDS = 15.0
#: Who has said nothing for so long is gone. Clocks of hosts may differ by less than this.
GONE_SECONDS = 120.0
#: So many refused episodes are known at most.
REMEMBERED = 10_000


class Peers:
    """One worker among all of its register. `room` is its own (`None`: it bounds nothing)."""

    def __init__(
        self, register: Register, name: str, room: Room | None, *, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._register = register
        self._name = name
        self._room = room
        self._clock = clock
        self._refused: dict[str, float] = {}

    async def stay(self) -> None:
        """Say that this one is there, for ever: run it in a task of its own."""
        while True:
            try:
                await self._register.attend(self._name, msgspec.json.encode(self._room))
            except HouseError as error:
                _log.warning("%s: cannot say that it is there: %s", self._name, error)
            await asyncio.sleep(SAY_SECONDS)

    def knows(self, id: str) -> bool:
        """Whether it was refused here before."""
        return id in self._refused

    async def verdict(self, id: str, need: Room, *, patience_seconds: float) -> str:
        """Why nobody will ever take an episode that does not fit here; nothing while somebody may. Before
        `patience_seconds` have gone by since it was first refused here, somebody larger may still come."""
        since = self._refused.setdefault(id, self._clock())
        if len(self._refused) > REMEMBERED:
            del self._refused[next(iter(self._refused))]  # the oldest, which a larger one has taken, most likely
        if self._clock() - since < patience_seconds:
            return ""
        there = await self._register.attending(GONE_SECONDS)
        rooms = [msgspec.json.decode(room, type=Room | None) for _, room in there]
        if any(room is None or holds(room, need) for room in rooms):
            return ""
        self._refused.pop(id, None)
        return f"no worker has room for it: it needs {said(need)}; {len(rooms)} worker(s), the largest has " + said(
            max((room for room in rooms if room is not None), key=lambda room: room.shape, default=Room()))


def holds(room: Room, need: Room) -> bool:
    """Whether what needs so much fits into an empty room."""
    return all(least <= most for least, most in zip(need.shape, room.shape, strict=True))


def said(room: Room) -> str:
    """For people: what is bounded nowhere is left out."""
    parts = [f"{room.cpus:g} CPUs", f"{room.memory_bytes / 2**20:.0f} MiB of memory"]
    for value, unit, name in ((room.disk_bytes, 2**20, "MiB of disk"), (room.inference_tokens, 1, "tokens")):
        if 0 < value < 2**60:
            parts.append(f"{value / unit:.0f} {name}")
    return ", ".join(parts)
