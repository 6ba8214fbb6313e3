"""Whether an answer needs less memory than the reference, and whether it needs more each time it is asked.

Covers: both are peaks that the control group of the answer's sandbox counted. Growth is seen from outside too: the same
work is repeated 1, 4, 7 ... times, each time in fresh sandboxes, and the slope of the peaks over the repeats, less that
of the reference, is what each repeat leaves behind; its 95 % interval is told.
Does not cover: leaks of less than some 16 KiB for each repeat, which lie within the kernel's own rounding; growth under
inputs that are new each time (the repeats bring the same ones, so that a cache of answers is no leak).
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Sequence

import msgspec

from quintain.grade._intervals import Interval, slope_of
from quintain.grade._trials import Contest, Trial, Trials, contest
from quintain.grade.oracle import Oracle
from quintain.sandbox import Backend
from quintain.tasks import Item
from quintain.types import MEBIBYTE, Attempt, Limits, Score

#: Differences of peaks below this, or below a tenth of the reference's, are called equal.
NOISE_BYTES = MEBIBYTE
#: A repeat that leaves less than this behind is no leak, whatever the interval says.
LEAK_BYTES = 16 * 1024
#: A leak of this for each repeat, or more, is as bad as can be.
WORST_LEAK_BYTES = MEBIBYTE
REPEATS = (1, 4, 7, 10, 13)


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """Peak bytes of each run beyond those of an idle one. `wrong`: an output was not right, or a limit was met."""

    answer_bytes: tuple[int, ...] = ()
    reference_bytes: tuple[int, ...] = ()
    wrong: bool = False
    why: str = ""

    @property
    def value(self) -> float | None:
        """In [0, 1]: 0.5 as much, 1 half as much or less, 0 twice as much or more; a difference counts only where all
        runs of the one lie on the same side of all runs of the other."""
        if self.wrong:
            return 0.0
        if not self.answer_bytes:
            return None
        ours, theirs = statistics.median(self.answer_bytes), statistics.median(self.reference_bytes)
        apart = max(self.answer_bytes) < min(self.reference_bytes) or min(self.answer_bytes) > max(self.reference_bytes)
        if not apart or abs(ours - theirs) < max(NOISE_BYTES, theirs / 10):
            return 0.5
        ratio = math.log2((theirs + NOISE_BYTES) / (ours + NOISE_BYTES))
        return 0.5 + 0.5 * min(max(ratio, -1.0), 1.0)


async def peaks(
    backend: Backend, oracle: Oracle, what: Contest, *, limits: Limits, runs: int = 3, seed: int = 0
) -> Peaks:
    """Run both in turns, `runs` times each. Raises HouseError."""
    trials = Trials(backend, oracle, what)
    idle = [(await trials.idle(limits, seed=seed)).peak_memory_bytes for _ in range(2)]
    base = min((peak for peak in idle if peak is not None), default=None)
    if base is None:
        return Peaks(why=f"the backend {backend.name!r} does not measure memory")
    answer: list[int] = []
    reference: list[int] = []
    for number in range(runs):
        ours = await trials.answer(limits, seed=seed + number)
        theirs = await trials.reference(limits, seed=seed + number)
        if not theirs.right:
            return Peaks(why=f"the reference does not do the work: {theirs.why}")
        if not ours.right:
            return Peaks(wrong=True, why=ours.why)
        answer.append(_beyond(ours, base))
        reference.append(_beyond(theirs, base))
    return Peaks(answer_bytes=tuple(answer), reference_bytes=tuple(reference))


def _beyond(trial: Trial, base: int) -> int:
    return max(0, (trial.peak_memory_bytes or 0) - base)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What each repeat of the work leaves behind, beyond what the reference does, in bytes. None, with the reason in
    `why`, where it is not known. `wrong` as in `Peaks`."""

    leak_bytes: Interval | None = None
    wrong: bool = False
    why: str = ""

    @property
    def leaks(self) -> bool:
        return self.leak_bytes is not None and self.leak_bytes.low > 0.0 and self.leak_bytes.at > LEAK_BYTES

    @property
    def value(self) -> float | None:
        """0.5 where nothing grows; less, down to 0, for a leak."""
        if self.wrong:
            return 0.0
        if self.leak_bytes is None:
            return None
        return 0.5 - 0.5 * min(1.0, self.leak_bytes.at / WORST_LEAK_BYTES) if self.leaks else 0.5


async def growth(
    backend: Backend, oracle: Oracle, what: Contest, *, limits: Limits, repeats: Sequence[int] = REPEATS, seed: int = 0
) -> Growth:
    """Peaks over repeats of the same work, of both. Raises ValueError for fewer than 3 repeats; HouseError."""
    trials = Trials(backend, oracle, what)
    if not what.repeatable:
        return Growth(why="a program is run once for each case: nothing can be left behind")
    wide = msgspec.structs.replace(
        limits, wall_seconds=limits.wall_seconds * max(repeats), cpu_seconds=limits.cpu_seconds * max(repeats))
    answer: list[float] = []
    reference: list[float] = []
    for count in repeats:
        theirs = await trials.reference(wide, seed=seed, repeats=count)
        ours = await trials.answer(wide, seed=seed, repeats=count)
        if not theirs.right or theirs.peak_memory_bytes is None:
            return Growth(why=f"the reference does not do the work {count} times: {theirs.why or 'not measured'}")
        if not ours.right or ours.peak_memory_bytes is None:
            return Growth(wrong=True, why=f"asked {count} times: {ours.why or 'not measured'}")
        answer.append(float(ours.peak_memory_bytes))
        reference.append(float(theirs.peak_memory_bytes))
    return Growth(leak_bytes=slope_of(repeats, answer).minus(slope_of(repeats, reference)))


class Memory:
    """Scores `memory` (peak against the reference) and `leak` (growth over repeats): 0.5 neutral."""

    name = "memory"

    def __init__(
        self, backend: Backend, *, oracle: Oracle | None = None, weight: float = 0.02, leak_weight: float = 0.01,
        repeats: Sequence[int] = REPEATS,
    ) -> None:
        self._backend = backend
        self._oracle = oracle or Oracle(backend)
        self._weight, self._leak_weight = weight, leak_weight
        self._repeats = tuple(repeats)
        self._alone = asyncio.Semaphore(1)

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """Two scores, None with the reason where nothing can be compared. Raises HouseError."""
        what = contest(attempt, item)
        if isinstance(what, str):
            return self._scores(None, what, None, what)
        limits = item.task.limits.command.within(item.task.limits.turn).within(item.task.limits.episode)
        seed = int(item.task.version[:6] or "0", 16)
        async with self._alone:
            peak = await peaks(self._backend, self._oracle, what, limits=limits, seed=seed)
            if peak.wrong or not peak.answer_bytes:
                return self._scores(peak.value, peak.why, None, peak.why)
            grown = await growth(
                self._backend, self._oracle, what, limits=limits, repeats=self._repeats, seed=seed)
        ours, theirs = (statistics.median(b) / MEBIBYTE for b in (peak.answer_bytes, peak.reference_bytes))
        return self._scores(peak.value, f"{ours:.1f} MiB against {theirs:.1f} MiB at the peak", grown.value, (
            grown.why if grown.leak_bytes is None else
            f"{grown.leak_bytes.at / 1024:.0f} KiB for each repeat "
            f"[{grown.leak_bytes.low / 1024:.0f}, {grown.leak_bytes.high / 1024:.0f}]"))

    def _scores(self, peak: float | None, said: str, leak: float | None, told: str) -> Sequence[Score]:
        return (Score(name="memory", value=peak, weight=self._weight, evidence=said),
                Score(name="leak", value=leak, weight=self._leak_weight, evidence=told))
