"""Step 3: whether the author's answer passes, every time: in order and shuffled, crowded, elsewhere on the globe.

Of 25 runs 10 are in order and 10 in other orders; 5 of these start afresh, with other hash seeds, time zones and
locales. 5 more fight each other for the CPUs, so that each gets less than half of one, within the task's own memory
limit. One failure fails the task: a test that was wrong once will be wrong about a policy. 25 clean runs exclude (95
%) only tests that fail more often than in 11 % of runs; the rest is for the health ledger to find.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.site import Site, command_limits
from quintain.tasks import AnswerSuite, Item, PythonSuite
from quintain.types import FaultKind, Outcome, Passed, Verdict

#: Where and how the shuffled runs take place.
PLACES: tuple[dict[str, str], ...] = (
    {"TZ": "UTC", "LC_ALL": "C.UTF-8"}, {"TZ": "Asia/Kathmandu", "LC_ALL": "C"},
    {"TZ": "America/St_Johns", "LANG": "de_DE.UTF-8"}, {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8"},
    {"TZ": "Pacific/Pago_Pago", "LANG": "en_US.UTF-8"},
)
_KEPT = 5
_AGAIN = 5


class _Plan(msgspec.Struct, frozen=True):
    name: str
    seed: int
    confirm: bool = False
    shuffled: bool = False
    env: dict[str, str] = {}
    crowded: bool = False


class OracleRuns:
    """`pairs` are runs in order that are each followed by one that starts afresh elsewhere; `more` are so many runs in
    order and so many in another; `crowd` are made at once."""

    name = "oracle"
    runs = True

    def __init__(self, *, pairs: int = 5, more: int = 5, crowd: int = 5) -> None:
        self.version = f"4:{pairs}:{more}:{crowd}"
        self._more = more
        self._pairs = pairs
        self._crowd = crowd

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        answer = item.exam.oracle
        if answer is None:
            return unmeasured(self.name, "it has no answer of its author's", remedy="add one: oracle/ in our own form, "
                              "solution/solve.sh in Harbor's")
        plans = self._plans(item)
        measured: list[Outcome] = []

        async def run(plan: _Plan) -> Verdict:
            if plan.shuffled:
                return await site.shuffled(item, answer, seed=plan.seed, measured=measured)
            return await site.verdict(item, answer, seed=plan.seed, confirm=plan.confirm, env=plan.env, oracle=True,
                                      crowded=plan.crowded)

        first = await run(plans[0])
        verdicts = [first]
        if not first.solved:  # one that fails every time need not fail 24 times
            verdicts += await site.together(run, [plan for plan in plans[1:] if not plan.crowded][:_AGAIN])
        else:
            verdicts += await site.together(run, [plan for plan in plans[1:] if not plan.crowded])
            verdicts += await site.together(run, [plan for plan in plans if plan.crowded])
        return self._told(verdicts, measured, command_limits(item).cpu_seconds)

    def _late(
        self, late: int, tries: int, figures: dict[str, float], cpu_limit: float, *, starved: bool
    ) -> Finding:
        """Too slow, by its own doing or by the house's."""
        cpu = figures["cpu_seconds_p95"]
        if starved or (late < tries and cpu <= cpu_limit / 3):
            return unmeasured(self.name, f"late in {late} of {tries} tries ({cpu:.2f} s of CPU where it was not): this "
                              "machine was busy", remedy="run it again with fewer --sandboxes")
        problem = Problem(code="headroom", text=f"the author's answer is too slow in {late} of {tries} tries")
        return found(self.name, [problem], figures=figures, remedy="raise the limits, or make the work smaller")

    def _plans(self, item: Item) -> list[_Plan]:
        hidden = item.exam.hidden
        if isinstance(hidden, AnswerSuite):
            return [_Plan(name="once", seed=0)]
        python = isinstance(hidden, PythonSuite)
        plans = [_Plan(name="in order, then shuffled", seed=2 * n, confirm=True,
                       env=PLACES[n % len(PLACES)] if python else {}) for n in range(self._pairs)]
        plans += [_Plan(name="in order", seed=50 + n) for n in range(self._more)]
        plans += [_Plan(name="shuffled", seed=70 + n, shuffled=True) for n in range(self._more)]
        crowd = max(self._crowd, 2 * len(os.sched_getaffinity(0)) + 1) if self._crowd else 0
        plans += [_Plan(name="crowded", seed=100 + n, crowded=True) for n in range(crowd)]
        return plans

    def _told(self, verdicts: Sequence[Verdict], measured: Sequence[Outcome], cpu_limit: float) -> Finding:
        runs = sum(verdict.runs for verdict in verdicts)
        bad = [verdict for verdict in verdicts if not verdict.solved]
        figures = {
            "runs": float(runs), "failed_runs": float(len(bad)),
            "wall_seconds_p95": _p95([v.wall_seconds for v in verdicts]),
            "cpu_seconds_p95": _p95([v.cpu_seconds or 0.0 for v in verdicts]),
            "cpu_seconds_median": median(v.cpu_seconds or 0.0 for v in verdicts),
        }
        if peaks := [one.peak_memory_bytes for one in measured if one.peak_memory_bytes is not None]:
            figures["peak_memory_bytes"] = float(max(peaks))
        evidence = [f"{runs - len(bad)} of {runs} runs were solved, at level {verdicts[0].level}"]
        if not bad:
            return found(self.name, evidence=evidence, figures=figures)
        if all(_is_late(verdict) for verdict in bad):
            starved = all(_was_starved(verdict) for verdict in bad)
            return self._late(len(bad), len(verdicts), figures, cpu_limit, starved=starved)
        failing = Counter(test.id for verdict in bad for test in verdict.tests if test.passed is not Passed.PASSED)
        tests = tuple(id for id, _ in failing.most_common())
        torn = any(test.fault is not None and test.fault.kind is FaultKind.CONFLICTING_RUNS
                   for verdict in bad for test in verdict.tests)
        always = len(bad) == len(verdicts) and not torn
        why = "; ".join(why_of(verdict) for verdict in bad[:2])
        problem = Problem(code="oracle fails" if always else "flaky", tests=tests[:_KEPT], text=(
            f"the author's answer fails: {why}" if always else
            f"the author's answer fails in {len(bad)} of {len(verdicts)} tries, though nothing changed: {why}"))
        remedy = ("mend the answer or the tests named" if always else
                  "make the tests named independent of order, hash seed, time zone, locale and load, or drop them")
        return found(self.name, [problem], evidence=evidence, remedy=remedy, figures=figures)


_LATE = (FaultKind.TIMEOUT, FaultKind.CPU_LIMIT)


def _is_late(verdict: Verdict) -> bool:
    """Whether it failed by nothing but being too slow: tests that were not reached any more say nothing else."""
    ended = verdict.fault is not None and verdict.fault.kind in _LATE
    failed = [t.fault for t in verdict.tests if t.passed is Passed.FAILED or (t.passed is Passed.MISSING and not ended)]
    faults = [fault for fault in (verdict.fault, *failed) if fault is not None]
    return bool(faults) and all(fault.kind in _LATE for fault in faults)


def _was_starved(verdict: Verdict) -> bool:
    """Whether it was late by the clock, twice, while programs waited for a CPU (`grade.doubt`)."""
    return any(seen.source == "doubt" and "waited for a CPU" in seen.text for seen in verdict.evidence)


def why_of(verdict: Verdict) -> str:
    """Why a verdict is no solution, in one line."""
    said = [str(verdict.fault)] if verdict.fault is not None else []
    said += [f"{t.id} {t.passed.value}{f' ({t.fault})' if t.fault else ''}" for t in verdict.tests
             if t.passed is not Passed.PASSED]
    return "; ".join(said[:3])[:600] or "no test was run"


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))] if values else 0.0
