"""What the episodes of a run come to, kept up as each of them changes: nothing is ever summed again. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from quintain.serve.dashboard.views import State, TaskLine, TaskStanding
from quintain.types import Trainable

if TYPE_CHECKING:
    from quintain.serve.dashboard.fold import Known

_K = TypeVar("_K")

BINS = 20
MOMENTS = 60
#: So many components, detectors, kinds are told apart.
OWN_KEYS = 64
#: Lengths of a moment, in seconds: the shortest that shows all of a run in at most 60 of them is taken.
STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
_FARES = {"broken": 0, "never solved": 1, "mixed": 2, "always solved": 3, "not finished": 4}
_UNWELL = {"suspended", "retired"}


class Part:
    """How many closed, how many of them are solved, and the rewards of those that have one."""

    __slots__ = ("closed", "reward", "rewarded", "solved")

    def __init__(self) -> None:
        self.closed = self.solved = self.rewarded = 0
        self.reward = 0.0

    def count(self, one: Known, by: int) -> None:
        self.closed += by
        self.solved += by * one.solved
        if one.reward is not None:
            self.rewarded += by
            self.reward = self.reward + by * one.reward if self.rewarded else 0.0

    @property
    def mean(self) -> float | None:
        return self.reward / self.rewarded if self.rewarded else None


class _Task(Part):
    __slots__ = ("broken", "faults", "kind", "played")

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self.played = self.broken = 0
        self.faults: dict[str, int] = {}

    @property
    def fares(self) -> str:
        return fares_of(self.closed, self.solved, self.broken)


class Sums:
    """`count(one, -1)` before an episode changes, `count(one, 1)` afterwards: everything else follows. `states`,
    `kinds`, `faults` and `flags` are of all episodes, the rest of those that have closed."""

    def __init__(self) -> None:
        self.whole = Part()
        self.states: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.flags: dict[str, int] = {}
        self.owners: dict[str, int] = {}
        self.failures: dict[tuple[str, str], int] = {}  # by owner and fault, of what was not solved
        self.detectors: dict[str, int] = {}
        self.fares: dict[str, int] = {}
        self.versions: dict[int, Part] = {}
        self.bins = [0] * BINS
        self.episodes = self.masked = self.turns = 0
        self.began_unix_seconds = math.inf
        self.latest_unix_seconds = 0.0
        self._scores: dict[str, list[float]] = {}
        self._tasks: dict[str, _Task] = {}
        self._times: list[float] = []
        self._closed: dict[str, Known] = {}
        self._step = float(STEPS[0])
        self._parts: dict[int, Part] = {}

    def count(self, one: Known, by: int) -> None:
        self.episodes += by
        add(self.states, one.state.value, by)
        add(self.kinds, one.kind, by)
        if one.fault:
            add(self.faults, one.fault, by)
        for flag in one.flags:
            add(self.flags, flag, by)
        self.began_unix_seconds = min(self.began_unix_seconds, one.opened_unix_seconds)
        self.latest_unix_seconds = max(self.latest_unix_seconds, one.closed_unix_seconds)
        task = self._tasks.get(one.task)
        if task is None:
            task = self._tasks[one.task] = _Task()
        task.kind = task.kind or one.kind
        task.played += by
        if one.stop is not None:
            self._count_closed(one, by, task)
        if not task.played:
            del self._tasks[one.task]

    def _count_closed(self, one: Known, by: int, task: _Task) -> None:
        self.whole.count(one, by)
        if one.reward is not None:
            self.bins[max(0, min(BINS - 1, math.floor((one.reward + 1.0) * BINS / 2)))] += by
            if one.version.isdecimal() and len(one.version) < 16:
                self._part(self.versions, int(one.version), one, by)
        if one.owner is not None and not one.solved:
            add(self.owners, one.owner.value, by)
            if one.fault:
                add(self.failures, (one.owner.value, one.fault), by)
        for flag in one.flags:
            add(self.detectors, flag, by)
        for name, value in one.scores:
            score = self._scores.get(name)
            if score is None:
                if len(self._scores) >= OWN_KEYS:
                    continue
                score = self._scores[name] = [0.0, 0.0]
            score[1] += by
            score[0] = score[0] + by * value if score[1] else 0.0
        self.masked += by * (one.trainable is Trainable.MASK)
        self.turns += by * one.turns
        if task.closed:
            add(self.fares, task.fares, -1)
        task.count(one, by)
        task.broken += by * (one.state is State.BROKEN)
        if one.fault:
            add(task.faults, one.fault, by)
        if task.closed:
            add(self.fares, task.fares, 1)
        self._part(self._parts, math.floor(one.closed_unix_seconds / self._step), one, by)
        if by > 0:
            insort(self._times, one.closed_unix_seconds)
            self._closed[one.id] = one
        else:
            del self._times[bisect_left(self._times, one.closed_unix_seconds)]
            del self._closed[one.id]

    @staticmethod
    def _part(parts: dict[int, Part], key: int, one: Known, by: int) -> None:
        part = parts.setdefault(key, Part())
        part.count(one, by)
        if not part.closed:
            del parts[key]

    def closed_within(self, seconds: float) -> int:
        """Of the last so many seconds before the last that closed."""
        return len(self._times) - bisect_right(self._times, self._times[-1] - seconds) if self._times else 0

    @property
    def step_seconds(self) -> float:
        """How long a moment is, so that all of them fit."""
        if not self._times:
            return float(STEPS[0])
        whole = self._times[-1] - self._times[0]
        return float(next((step for step in STEPS if whole <= step * (MOMENTS - 1)), STEPS[-1]))

    def moments(self) -> list[tuple[float, Part]]:
        """The run cut into stretches, each with the Unix time of its end; those in which nothing closed are there too,
        but not more than 60 in all (the latest)."""
        if self.step_seconds != self._step:
            self._step = self.step_seconds
            self._parts = {}
            for one in self._closed.values():
                self._part(self._parts, math.floor(one.closed_unix_seconds / self._step), one, 1)
        if not self._parts:
            return []
        last = max(self._parts)
        nothing = Part()
        return [((at + 1) * self._step, self._parts.get(at, nothing))
                for at in range(max(min(self._parts), last - MOMENTS + 1), last + 1)]

    def components(self) -> dict[str, float]:
        """The mean of each component of the rewards where it was measured."""
        return {name: total / count for name, (total, count) in sorted(self._scores.items()) if count}

    def tasks(self, standings: Mapping[str, TaskStanding]) -> tuple[TaskLine, ...]:
        """Every task that was played or stands in a ledger, those in trouble first."""
        nothing = _Task()
        lines = [_line(task, self._tasks.get(task, nothing), standings.get(task))
                 for task in (*standings, *(task for task in self._tasks if task not in standings))]
        return tuple(sorted(lines, key=lambda line: (
            line.standing is None or line.standing.state not in _UNWELL, _FARES.get(line.fares, 9), line.task)))


def add(counts: dict[_K, int], key: _K, by: int) -> None:
    """Nothing is left of what there is none of."""
    value = counts.get(key, 0) + by
    if value:
        counts[key] = value
    else:
        del counts[key]


def fares_of(closed: int, solved: int, broken: int) -> str:
    """How a task fares in one word or two."""
    judged = closed - broken
    if not closed:
        return "not finished"
    if broken * 2 > closed:
        return "broken"
    return "always solved" if solved == judged else "never solved" if not solved else "mixed"


def _line(task: str, found: _Task, standing: TaskStanding | None) -> TaskLine:
    return TaskLine(
        task=task, kind=found.kind, attempts=found.closed, solved=found.solved, broken=found.broken, reward=found.mean,
        fares=found.fares, fault=max(found.faults, key=found.faults.__getitem__) if found.faults else None,
        standing=standing,
    )
