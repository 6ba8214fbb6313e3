"""An author's answer that is late: its own doing, or that of a machine whose CPUs others wanted."""

from __future__ import annotations

import asyncio

import pytest

from quintain.curate import Finding, Result, Site
from quintain.curate.checks import OracleRuns
from quintain.sandbox import NativeBackend
from quintain.types import Evidence, Fault, FaultKind, Owner, Passed, TestResult, Verdict

from .ground import clamp_task


class Judge(Site):
    """A site that says the same of every answer, without running any."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(NativeBackend(), at_once=1)
        self._says = verdict

    async def verdict(self, *_: object, **__: object) -> Verdict:
        return self._says

    async def shuffled(self, *_: object, **__: object) -> Verdict:
        return self._says


def found(*, kind: FaultKind = FaultKind.TIMEOUT, starved: bool = False) -> Finding:
    fault = Fault(owner=Owner.POLICY, kind=kind, message="late")
    told = "run again: it was late, and programs waited for a CPU during 80 % of the time"
    unheard = Fault(owner=Owner.POLICY, kind=FaultKind.MISSING_REQUIRED_TEST, message="not reached")
    tests = (TestResult(id="a", passed=Passed.FAILED, fault=fault),
             TestResult(id="b", passed=Passed.MISSING, fault=unheard))
    verdict = Verdict(suite="s", level="L4", tests=tests, fault=fault, cpu_seconds=0.1,
                      evidence=(Evidence(source="doubt", text=told),) if starved else ())
    return asyncio.run(OracleRuns(pairs=1, more=0, crowd=0).examine(clamp_task(), Judge(verdict), {}))


def test_one_that_is_late_by_itself_has_no_headroom_whatever_its_tests_could_not_say_any_more() -> None:
    finding = found()
    assert finding.result is Result.FAIL
    assert [problem.code for problem in finding.problems] == ["headroom"]


def test_one_that_was_starved_of_a_cpu_is_not_measured() -> None:
    finding = found(starved=True)
    assert finding.result is Result.NOT_MEASURED
    assert "busy" in finding.evidence[0]


@pytest.mark.parametrize("kind", [FaultKind.ASSERTION_ERROR, FaultKind.RUNTIME_ERROR])
def test_one_that_is_wrong_fails_also_on_a_busy_machine(kind: FaultKind) -> None:
    finding = found(kind=kind, starved=True)
    assert finding.result is Result.FAIL
    assert [problem.code for problem in finding.problems] == ["oracle fails"]
