"""Step 6: how many small faults the tests notice.

Mutants of the author's answer (of the files that it changes), at most MOST, drawn by the task. Where so many survive
that it matters, each survivor is asked about new inputs: where not even they tell it from the original it is left out
as equivalent, and counted, up to a share. Both rates are told; what is decided rests on the one without equivalents.
Where the tests notice enough even if none is equivalent, nothing is asked: `kill_rate` is then the least it can be.
Does not cover: other languages than Python; equivalence is only as sure as the new inputs are many, so a survivor for
which no inputs can be made counts as alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from quintain.curate.finding import AUGMENT_CODE, Finding, Problem, Result, found, unmeasured
from quintain.curate.site import Site, command_limits, program_of
from quintain.curate.visit import allowed_seconds, visited
from quintain.grade import Kills, Mutant, kill_rate, mutants_of
from quintain.guard import grow
from quintain.tasks import Item, PythonSuite, StdioSuite, Suite
from quintain.types import Limits, Passed, TaskError, Verdict

#: At least this share must be noticed to be admitted, and to be worth more tests.
ADMIT, AUGMENT = 0.80, 0.60
#: At most this share of the mutants is left out as equivalent. Few inputs make few new ones, and what those do not tell
#: apart need not be the same: with 2 weak cases 15 of 23 mutants looked equivalent, and were not.
EQUIVALENT_MOST = 0.25
MOST = 200
_LEAST_CPU = 0.25  # of a mutant that is judged alone: its process has to start
_SHOWN = 8
_GROWN, _TRIED = 40, 200
#: What all new inputs together may take of the author's answer, and each of them: a slow one is no test.
_ASKING, _CALL_SECONDS = Limits(wall_seconds=20.0, cpu_seconds=3.0), 0.1


class Strength:
    """`most` bounds the mutants of one task."""

    name = "strength"
    runs = True

    def __init__(self, *, most: int = MOST) -> None:
        self.version = f"6:{most}"
        self._most = most

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        answer, suite = item.exam.oracle, item.exam.hidden
        oracle = earlier.get("oracle")
        if answer is None or not isinstance(suite, PythonSuite | StdioSuite):
            return unmeasured(self.name, "faults are made in Python that tests call or start, and there is none")
        if not site.is_called(item):
            return unmeasured(self.name, f"work of the kind {item.task.kind!r} is no program that the tests call")
        if oracle is not None and oracle.result is not Result.PASS:
            return unmeasured(self.name, "the author's answer does not pass")
        changed = mutants_of(_own(item), limit=self._most, seed=int(item.task.version[:8], 16))
        if not changed:
            return unmeasured(self.name, "no fault can be made in the author's answer")
        usual = oracle.figures.get("cpu_seconds_median") if oracle is not None else None
        kills = await kills_of(item, site, suite, changed, usual=usual)
        survivors, equivalent = list(kills.survivors), 0
        if kills.sound and kills.killed < ADMIT * len(kills.mutants) and isinstance(suite, PythonSuite):
            equivalent, survivors = await self._sifted(item, site, survivors)
        return self._told(kills, survivors, equivalent)

    async def _sifted(
        self, item: Item, site: Site, survivors: list[tuple[str, Mutant]]
    ) -> tuple[int, list[tuple[str, Mutant]]]:
        """How many survivors no new input tells from the original, and the others."""
        try:
            growth = await grow(site.backend, item, seed=0, count=_GROWN, tried=_TRIED, oracle=site.oracle,
                                limits=_ASKING, call_seconds=_CALL_SECONDS)
        except TaskError:
            return 0, survivors
        if growth.suite is None or item.exam.oracle is None:
            return 0, survivors
        again = await kills_of(item, site, growth.suite, survivors, usual=None)
        if not again.sound:
            return 0, survivors
        noticed = [one for one, by in zip(again.mutants, again.by, strict=True) if by]
        return len(survivors) - len(noticed), noticed

    def _told(self, kills: Kills, survivors: list[tuple[str, Mutant]], equivalent: int) -> Finding:
        if not kills.sound:
            return unmeasured(self.name, f"the author's answer does not pass: {kills.why}")
        total = len(kills.mutants)
        equivalent = min(equivalent, int(EQUIVALENT_MOST * total))
        counted = total - equivalent
        rate = kills.killed / counted if counted else 1.0
        figures = {"mutants": float(total), "killed": float(kills.killed), "equivalent": float(equivalent),
                   "kill_rate": rate, "kill_rate_with_equivalent": kills.killed / total}
        same = f", {equivalent} cannot be told from the original" if equivalent else ""
        evidence = [f"{kills.killed} of {total} faults are noticed{same}: {rate:.0%}"]
        if rate >= ADMIT:
            return found(self.name, evidence=evidence, figures=figures)
        problems = [Problem(code="weak" if rate < AUGMENT else AUGMENT_CODE, text=(
            f"the tests notice {rate:.0%} of small faults in the author's answer, at least {ADMIT:.0%} are needed"))]
        problems += [Problem(code="survivor", file=path, line=mutant.line, fails=False, text=f"nobody notices {mutant}")
                     for path, mutant in survivors[:_SHOWN]]
        return found(self.name, problems, evidence=evidence, figures=figures, remedy=(
            "add tests that notice the faults named; `quintain admit --fix` proposes inputs that do"))


async def kills_of(
    item: Item, site: Site, suite: Suite, changed: Sequence[tuple[str, Mutant]], *, usual: float | None,
) -> Kills:
    """What a suite notices of these mutants of the author's answer: many in one visit, the others each alone. `usual`
    is the CPU that a run of the author's answer takes. Raises HouseError."""
    answer = item.exam.oracle or {}
    limits = command_limits(item)
    seconds = allowed_seconds(limits, usual)
    seen: list[Verdict | None] = [None] * len(changed)
    if isinstance(suite, PythonSuite):
        seen = await visited(site, item, suite, [{**answer, path: mutant.source} for path, mutant in changed],
                             seconds=seconds, only_first=True)
    by = [None if verdict is None else failed_tests(verdict) for verdict in seen]
    rest = [one for one, names in zip(changed, by, strict=True) if names is None]
    if rest or not changed:
        if usual is not None:  # of one that loops nobody learns more by waiting as long as the task would
            limits = msgspec.structs.replace(limits, cpu_seconds=min(limits.cpu_seconds, max(_LEAST_CPU, seconds)))
        alone = await kill_rate(site.oracle, suite, program_of(item, answer), image=item.task.image, limits=limits,
                                changed=rest, at_once=site.at_once)
        if not alone.sound:
            return alone
        others = iter(alone.by)
        by = [next(others) if names is None else names for names in by]
    return Kills(mutants=tuple(changed), by=tuple(names for names in by if names is not None))


def failed_tests(verdict: Verdict) -> tuple[str, ...]:
    return tuple(test.id for test in verdict.tests if test.passed is not Passed.PASSED)


def _own(item: Item) -> dict[str, bytes]:
    """The files of the author's answer that are not as given."""
    return {path: content for path, content in (item.exam.oracle or {}).items()
            if item.task.files.get(path) != content}
