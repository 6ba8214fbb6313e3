"""The work of writing several processes that serve together, and are tested from outside."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from quintain.env._field import Found, plan_of, probed
from quintain.env.base import Shown
from quintain.env.judging import Judging, command_of, result
from quintain.grade import LEVEL, Oracle, Scalar, lexicographic
from quintain.sandbox import Backend, Interactive
from quintain.tasks import Item, PythonSuite
from quintain.types import (
    Evidence,
    Fault,
    FaultKind,
    Limits,
    Owner,
    Passed,
    Program,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)


class ServiceEnvironment(Judging):
    """Tasks of the kind `services`: the answer is files, the plan of the hidden suite says how they are started, and
    its tests ask them by HTTP, kill one or all of them, start them again and ask on (`_field`). Solved is who passes
    all; others are paid by the share of tests that pass, as partial credit. The visible suite is run at each turn.

    Covers: answers that know the tests (what they send is drawn anew for each verdict), that keep state only in memory,
    that outlive their killing, that change given files. Does not cover: who answers in which process; how fast, but for
    CPU and memory that are compared with the same services under less.
    """

    def __init__(self, backend: Backend, *, oracle: Oracle | None = None, scalar: Scalar = lexicographic) -> None:
        super().__init__(backend, kind="services", asked=("services",), oracle=oracle, scalar=scalar)

    def shows(self, item: Item) -> bool:
        return item.exam.visible is not None

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """The verdict of the visible tests, where there are any."""
        visible = item.exam.visible
        if not isinstance(visible, PythonSuite):
            return Shown()
        return Shown(verdict=await self._by(visible, item, self._crossed(item, program)))

    async def _judged(self, item: Item, program: Program) -> tuple[Verdict, float, str]:
        verdict = await self._by(suite_of(item), item, program)
        passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
        return verdict, passed / max(1, len(verdict.tests)), f"{passed} of {len(verdict.tests)} tests pass"

    async def _by(self, suite: PythonSuite, item: Item, program: Program) -> Verdict:
        async def lay(box: Interactive) -> None:
            await box.files.write_many({f"/work/{path}": content for path, content in program.files.items()})

        found = await probed(self._backend, suite.files, lay, image=item.task.image, limits=command_of(item),
                             seed=secrets.randbits(62))
        return verdict_of(found, suite.required, content_digest(suite))


def suite_of(item: Item) -> PythonSuite:
    """The tests and the plan. Raises TaskError for a task of another form."""
    suite = item.exam.hidden
    if not isinstance(suite, PythonSuite) or not {"field.py", "test_probe.py"} <= set(suite.files):
        raise TaskError(f"task {item.task.id}: expected Python tests with field.py, test_probe.py and plan.json for "
                        f"kind = {item.task.kind!r}")
    plan_of(suite.files)
    return suite


def verdict_of(found: Found, required: tuple[str, ...], digest: str) -> Verdict:
    """Each required test, exactly once; those that were not reached are missing."""
    def told(name: str) -> TestResult:
        why = found.tests.get(name)
        if why is None:
            fault = Fault(owner=Owner.POLICY, kind=FaultKind.MISSING_REQUIRED_TEST,
                          message=found.why)
            return TestResult(id=name, passed=Passed.MISSING, fault=fault)
        return result(name, not why, why)

    return Verdict(suite=digest, level=LEVEL, tests=tuple(map(told, required)), cpu_seconds=found.cpu_seconds,
                   wall_seconds=found.wall_seconds, evidence=_evidence(found.tests))


def _evidence(tests: Mapping[str, str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(source="probe", text=f"{name}: {why}") for name, why in list(tests.items())[:20] if why)
