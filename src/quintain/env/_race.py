"""How much sooner an answer does the work of the original: CPU of both by turns, on inputs that are new each time.

Covers: the time is what the control group of the program's own sandbox counted, start, imports, threads and children
included, so nobody's clock is asked; every run has a fresh process and its own inputs, drawn from a seed that nobody
could know, so nothing can be kept or written down; the outputs of the answer's timed runs are compared with those that
the trusted original makes of the same inputs in the verifier, down to their types. The interval is one of order
statistics, which needs no shape of the errors: the second smallest of 8 ratios is with 96 % below their median.
Does not cover: work that one run shares between its own inputs (it is the answer's to do); the costs of starting and of
crossing to the verifier are part of both times and draw the speed-up towards 1, so it is never overstated.
"""

from __future__ import annotations

import random
import statistics

import msgspec

from quintain.grade import Oracle
from quintain.tasks import PythonSuite
from quintain.types import FaultKind, HouseError, Limits, TaskError

PAIRS = 8
#: A speed-up below this is none; where two of the first pairs are, the others cannot change that.
BAND = 1.1
_ENOUGH = 4
#: The answer may take so many times the CPU of the original, and so many seconds more, before it is ended.
CAP = (4.0, 1.0)
_TEST = "test_timed.py"
_TIMED = """
import copy
import random

from asked import LARGE
from original import {name} as original
from same import same
from solution import {name}
from workload import inputs


def test_work():
    for number, arguments in enumerate(inputs(random.Random({seed!r}), LARGE)):
        kept = copy.deepcopy(arguments)
        found = {name}(*arguments)
        right = {trusted} or same(found, original(*kept))
        assert right, f"an output of the timed run is wrong, that of input {{number}}"
"""


class Speedup(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios of CPU, the original's over the answer's, one of each pair of runs. `wrong` says why a timed run was none;
    the ratios are then those until it."""

    ratios: tuple[float, ...] = ()
    wrong: str = ""

    @property
    def low(self) -> float:
        """The lower end of the 93 % interval of the median (96.5 % one-sided); 1.0 where there is no speed-up."""
        ordered = sorted(self.ratios)
        if self.wrong or len(ordered) < 2 or ordered[1] < BAND:
            return 1.0
        return ordered[1] if len(ordered) >= PAIRS else 1.0

    def __str__(self) -> str:
        if self.wrong:
            return self.wrong
        ordered = sorted(self.ratios)
        return (f"speed-up {statistics.median(ordered):.2f} [{ordered[1]:.2f}, {ordered[-2]:.2f}] over "
                f"{len(ordered)} pairs of runs")


async def race(
    oracle: Oracle, suite: PythonSuite, name: str, original: dict[str, bytes], answer: dict[str, bytes], *,
    image: str, limits: Limits, seed: int,
) -> Speedup:
    """Both by turns, who begins changing. `seed` must not be known to whoever wrote the answer. Raises TaskError for an
    original that does not do its own work, HouseError where CPU is not counted or the house fails."""
    chance = random.Random(seed)
    ratios: list[float] = []
    cap = limits
    for number in range(PAIRS):
        drawn = chance.getrandbits(64)
        seconds: dict[bool, float] = {}
        for ours in ((True, False) if number % 2 == 0 else (False, True)):
            timed = msgspec.structs.replace(
                suite, required=(f"{_TEST}::test_work",),
                files={**suite.files, _TEST: _TIMED.format(name=name, seed=drawn, trusted=ours).encode()})
            examined = await oracle.examine(
                timed, original if ours else answer, image=image, limits=limits if ours else cap,
                seed=chance.getrandbits(31))
            spent = examined.candidate.cpu_seconds if examined.candidate is not None else None
            if not examined.verdict.solved or spent is None:
                verdict = examined.verdict
                fault = verdict.fault or next((t.fault for t in verdict.tests if t.fault is not None), None)
                if ours:
                    raise TaskError(f"the original does not do the work: {fault or 'its CPU was not counted'}")
                if fault is None:
                    raise HouseError(FaultKind.VERIFIER_ERROR, "the CPU of an answer was not counted")
                return Speedup(ratios=tuple(ratios), wrong=f"the timed run is wrong: {fault.message}"[:600])
            seconds[ours] = spent
        cap = msgspec.structs.replace(limits, cpu_seconds=min(limits.cpu_seconds, CAP[0] * seconds[True] + CAP[1]))
        ratios.append(seconds[True] / max(seconds[False], 1e-6))
        if number + 1 >= _ENOUGH and sorted(ratios)[1] < BAND:
            break
    return Speedup(ratios=tuple(ratios))
