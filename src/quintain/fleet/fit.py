"""What one worker has room for: which kinds it asks the queue for, and what it does with what it gets. Pure.

A queue hands out in its own order and knows nothing of room. So a worker asks for few at a time, gives back at once
what does not fit (which counts as no delivery, and keeps its place in line), and asks for no more of that kind until it
would fit. An episode that smaller ones pass over for `hold_seconds` has the worker kept clear for it: nothing else is
asked for, so it begins at the latest when what runs is over. What is larger than the whole worker is given back with a
rest, for a larger worker to take.
"""

from __future__ import annotations

import math

import msgspec

from quintain.fleet.plan_rooms import Host
from quintain.fleet.plan_words import Room, Shape
from quintain.types import Task

#: Of a kind that did not fit, the first in line is looked at again after so long: another worker may have taken it.
AGAIN_SECONDS = 5.0
HOLD_SECONDS = 30.0


def need_of(task: Task) -> Room:
    """What an episode of a task may use at once, by its limits: memory and disk of one turn, the CPUs that its CPU time
    can keep busy (one at most: a sandbox has one), and the tokens that it may hold in an inference server."""
    turn, episode = task.limits.turn, task.limits.episode
    return Room(
        cpus=min(1.0, turn.cpu_seconds / turn.wall_seconds),
        memory_bytes=min(turn.memory_bytes, episode.memory_bytes), disk_bytes=min(turn.disk_bytes, episode.disk_bytes),
        inference_tokens=episode.sampled_tokens,
    )


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask a queue for: up to `most` jobs; of these kinds `only` where that is given, of all but `without`
    otherwise. Nothing where `most` is 0."""

    most: int
    only: str | None = None
    without: frozenset[str] = frozenset()


class _Passed(msgspec.Struct):
    """The first of a kind that did not fit: since when, and when it was last seen."""

    id: str
    shape: Shape
    since: float
    seen: float


class Berth:
    """The room of one worker, and what runs in it. `room` says what it has in each dimension; `None` bounds nothing but
    `slots`."""

    def __init__(self, slots: int, room: Room | None = None, *, hold_seconds: float = HOLD_SECONDS) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, found {slots}")
        self._room = room
        whole = room or Room()
        self._host = Host("", whole, slots, 0)
        self._tokens_left = whole.inference_tokens
        self._hold_seconds = hold_seconds
        self._runs: dict[str, Shape] = {}
        self._passed: dict[str, _Passed] = {}
        self._least: dict[str, Shape] = {}  # the smallest that was seen of a kind

    @property
    def free(self) -> int:
        """Slots."""
        return self._host.slots

    @property
    def running(self) -> int:
        return len(self._runs)

    def asking(self, at: float) -> Asking:
        """What to ask for now."""
        if self.free <= 0:
            return Asking(most=0)
        late = [(one.since, kind) for kind, one in self._passed.items() if at - one.since >= self._hold_seconds]
        if late:
            kind = min(late)[1]
            return Asking(most=1 if self._fits(self._passed[kind].shape) else 0, only=kind)
        closed = frozenset(
            kind for kind, one in self._passed.items() if not self._fits(one.shape) and at - one.seen < AGAIN_SECONDS)
        return Asking(most=self._most(), without=closed)

    def take(self, id: str, kind: str, need: Room, *, at: float) -> bool:
        """A job came: whether it begins. Where it does not, give it back at once."""
        shape = need.shape if self._room is not None else (0, 0, 0, 0)
        self._least[kind] = min(self._least.get(kind, shape), shape)
        if not self._fits(shape):
            if self.could_hold(need):
                known = self._passed.get(kind)
                since = known.since if known is not None and known.id == id else at
                self._passed[kind] = _Passed(id, shape, since, at)
            return False
        passed = self._passed.get(kind)
        if passed is not None and (passed.id == id or at - passed.since >= self._hold_seconds):
            del self._passed[kind]  # it begins, or another had it meanwhile
        self._host.take(shape)
        self._tokens_left -= shape[3]
        self._runs[id] = shape
        return True

    def holds(self, id: str) -> bool:
        return id in self._runs

    def could_hold(self, need: Room) -> bool:
        """Whether it would fit if nothing ran."""
        if self._room is None:
            return True
        shape = need.shape
        return self._host.could_hold(shape) and shape[3] <= self._room.inference_tokens

    def nothing(self, asked: Asking) -> None:
        """The queue had nothing of what was asked: whoever was waited for is elsewhere."""
        if asked.only is not None:
            self._passed.pop(asked.only, None)

    def leave(self, id: str) -> None:
        """It is over, however it ended."""
        shape = self._runs.pop(id, None)
        if shape is not None:
            self._host.give(shape)
            self._tokens_left += shape[3]

    def _fits(self, shape: Shape) -> bool:
        return self._host.fits(shape) and (self._room is None or shape[3] <= self._tokens_left)

    def _most(self) -> int:
        """As many as may fit of the smallest that is known: more would only be given back."""
        if self._room is None or not self._least:
            return self.free
        return int(max(1, min(self.free, max(map(self._times, self._least.values())))))

    def _times(self, shape: Shape) -> float:
        return min(self._host.times(shape), self._tokens_left // shape[3] if shape[3] else math.inf)
