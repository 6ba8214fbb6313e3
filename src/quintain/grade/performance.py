"""Whether an answer needs less CPU than the reference: counted from outside, in turns, with a confidence interval.

Covers: time is what the control group of the answer's own sandbox counted, so no clock of the answer's is asked, and
threads, children and what is done at import count; every run has fresh processes and (with a `workload.py`) fresh
inputs, so that nothing can be kept from one run to the next; the outputs of the timed runs themselves are checked. A
sign is given only where even the 99 % interval excludes 0 and the effect is worth naming: at 95 %, one identical
program in twenty would get one.
Does not cover: work that a single run may share between its own inputs; what crossing the socket costs is part of both
times and draws their ratio towards 1; without a `workload.py` the inputs are those of the hidden tests.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Sequence

import msgspec

from quintain.grade._intervals import Interval, mean_of
from quintain.grade._trials import Contest, Trial, Trials, contest
from quintain.grade.oracle import Oracle
from quintain.sandbox import Backend
from quintain.tasks import Item
from quintain.types import Attempt, Limits, Score

#: Effects below this (in log2: 7 %) are called equal, whatever the interval says.
BAND = 0.1
#: A reference that works less than this is too short to be compared.
LEAST_SECONDS = 0.004
#: Readings of the reference whose middle half is wider than this share of their median mean that something interferes.
MOST_SPREAD = 0.35
#: The answer may take so many times the CPU of the reference, and so many seconds more.
ANSWER_CPU = (8.0, 1.0)


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of CPU of each pair of runs, what costs nothing to do with the work taken off. `log2_speedup` is that of
    the answer over the reference, with its 95 % interval; None, with the reason in `why`, where it is not known.
    `signed` says that its 99 % interval excludes 0. `wrong` says that an output of a timed run was not right, or that
    the answer ran into its limits."""

    answer_seconds: tuple[float, ...] = ()
    reference_seconds: tuple[float, ...] = ()
    log2_speedup: Interval | None = None
    signed: bool = False
    wrong: bool = False
    why: str = ""

    @property
    def value(self) -> float | None:
        """In [0, 1]: 0.5 as fast, 1 twice as fast or better, 0 half as fast or worse, or wrong."""
        if self.wrong:
            return 0.0
        if self.log2_speedup is None:
            return None
        effect = self.log2_speedup.at if self.signed else 0.0
        return 0.5 if abs(effect) < BAND else 0.5 + 0.5 * min(max(effect, -1.0), 1.0)


async def race(
    backend: Backend, oracle: Oracle, what: Contest, *, limits: Limits, pairs: int = 7, seed: int = 0
) -> Timing:
    """Run both in turns, `pairs` times each, the order reversed every time. Raises ValueError for fewer than 5 pairs;
    HouseError."""
    if pairs < 5:
        raise ValueError(f"expected at least 5 pairs, found {pairs}")
    trials = Trials(backend, oracle, what)
    idle = [await trials.idle(limits, seed=seed) for _ in range(3)]
    first = await trials.reference(limits, seed=seed)
    if not first.right:
        return Timing(why=f"the reference does not do the work: {first.why}")
    if first.cpu_seconds is None or any(t.cpu_seconds is None for t in idle):
        return Timing(why=f"the backend {backend.name!r} does not count CPU")
    base = statistics.median(t.cpu_seconds or 0.0 for t in idle)
    if first.cpu_seconds - base < LEAST_SECONDS:
        return Timing(why=f"too short to compare: the reference works {(first.cpu_seconds - base) * 1e3:.1f} ms")
    cap = msgspec.structs.replace(limits, cpu_seconds=min(
        limits.cpu_seconds, ANSWER_CPU[0] * first.cpu_seconds + ANSWER_CPU[1]))
    answer: list[float] = []
    reference: list[float] = []
    for number in range(pairs):
        this = seed + 1 + number
        turns = (trials.reference, trials.answer) if number % 2 else (trials.answer, trials.reference)
        for turn in turns:
            trial = await turn(cap, seed=this)
            failed = _failed(trial, ours=turn == trials.reference)
            if failed is not None:
                return failed
            (reference if turn == trials.reference else answer).append(_work(trial, base))
    return _compared(answer, reference)


def _failed(trial: Trial, *, ours: bool) -> Timing | None:
    if trial.right and trial.cpu_seconds is not None:
        return None
    if ours:
        return Timing(why=f"the reference did not do the work again: {trial.why}")
    return Timing(wrong=True, why=f"the timed run {'was cut off' if trial.overrun else 'is wrong'}: {trial.why}")


def _work(trial: Trial, base: float) -> float:
    """Seconds beyond those of an idle run; never so few that a ratio of them means nothing."""
    return max((trial.cpu_seconds or 0.0) - base, LEAST_SECONDS / 4)


def _compared(answer: Sequence[float], reference: Sequence[float]) -> Timing:
    low, _, high = statistics.quantiles(reference, n=4)
    spread = (high - low) / statistics.median(reference)
    timing = Timing(answer_seconds=tuple(answer), reference_seconds=tuple(reference))
    if spread > MOST_SPREAD:
        return msgspec.structs.replace(timing, why=(
            f"something interferes: the reference's own times spread by {spread:.0%} of their median"))
    ratios = [math.log2(ours / theirs) for theirs, ours in zip(answer, reference, strict=True)]
    signed = mean_of(ratios, surer=True).excludes_zero
    return msgspec.structs.replace(timing, log2_speedup=mean_of(ratios), signed=signed)


class Performance:
    """Scores `performance` by `race`: 0.5 neutral. Runs one race at a time, because two would disturb each other."""

    name = "performance"

    def __init__(
        self, backend: Backend, *, oracle: Oracle | None = None, pairs: int = 7, weight: float = 0.06
    ) -> None:
        self._backend = backend
        self._oracle = oracle or Oracle(backend)
        self._pairs = pairs
        self._weight = weight
        self._alone = asyncio.Semaphore(1)

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """One score, None with the reason where nothing can be compared. Raises HouseError."""
        what = contest(attempt, item)
        if isinstance(what, str):
            return (Score(name=self.name, value=None, weight=self._weight, evidence=what),)
        limits = item.task.limits
        async with self._alone:
            timing = await race(
                self._backend, self._oracle, what, pairs=self._pairs, seed=int(item.task.version[:6] or "0", 16),
                limits=limits.command.within(limits.turn).within(limits.episode))
        return (Score(name=self.name, value=timing.value, weight=self._weight, evidence=_told(timing, what)),)


def _told(timing: Timing, what: Contest) -> str:
    if timing.log2_speedup is None:
        return timing.why
    one, other = (statistics.median(s) * 1e3 for s in (timing.answer_seconds, timing.reference_seconds))
    speedup = timing.log2_speedup
    return (f"{one:.1f} ms against {other:.1f} ms of CPU, speed-up {2 ** speedup.at:.2f} "
            f"[{2 ** speedup.low:.2f}, {2 ** speedup.high:.2f}] over {len(timing.answer_seconds)} pairs"
            + ("" if what.fresh else ", on the inputs of the hidden tests"))
