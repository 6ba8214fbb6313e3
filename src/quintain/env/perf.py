"""The work of making a program faster without changing what it does."""

from __future__ import annotations

import ast
import math
import secrets

import msgspec

from quintain.env._race import Speedup, race
from quintain.env.judging import Judging, command_of, raise_what_is_not_the_policys, result
from quintain.grade import LEVEL, Oracle, Scalar, lexicographic
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import Evidence, Passed, Program, TaskError, TestResult, Verdict

#: What is asked beside the tests, as a test of the verdict.
FASTER = "faster"


class PerfEnvironment(Judging):
    """Tasks of the kind `perf`: a function that is given and slow, an exam whose hidden suite compares an answer with
    it on inputs from a seed (`tasks.formats.perf` says which files it has). Each answer gets its own seed, then both
    run by turns (`_race`). Solved is who is the same on all inputs, the timed ones too, and at least as many times as
    fast as the task asks at the lower end of the interval. Who is right and not fast enough is paid by the share of the
    way, log(low) / log(asked), as partial credit; who is wrong anywhere gets none.

    Covers: answers that write down what is shown, that keep results between runs, that are quick or right only where
    they are timed or only where they are not, that work at import, in threads or children, that patch their own clock,
    that leave early (see `_race` and `grade.Oracle`). Does not cover: a difference on inputs so rare that none of some
    60 drawn ones shows it; memory.
    """

    def __init__(self, backend: Backend, *, oracle: Oracle | None = None, scalar: Scalar = lexicographic) -> None:
        super().__init__(backend, kind="perf", asked=(FASTER,), oracle=oracle, scalar=scalar)

    async def _judged(self, item: Item, program: Program) -> tuple[Verdict, float, str]:
        suite, times = asked_of(item)
        drawn = msgspec.structs.replace(
            suite, files={**suite.files, "asked.py": _seeded(suite.files["asked.py"], secrets.randbits(64))})
        limits = command_of(item)
        verdict = await self._oracle.grade(
            drawn, program, image=item.task.image, limits=limits, seed=secrets.randbits(31))
        raise_what_is_not_the_policys(verdict)
        if not verdict.solved:
            missing = TestResult(id=FASTER, passed=Passed.MISSING)
            return msgspec.structs.replace(verdict, tests=(*verdict.tests, missing)), 0.0, "it does something else"
        speedup = await race(
            self._oracle, suite, item.task.entry.name or "", dict(item.task.files), dict(program.files),
            image=item.task.image, limits=limits, seed=secrets.randbits(62))
        good = speedup.low >= times
        told = f"{speedup}; at least {times:g} at its lower end was asked for"
        found = result(FASTER, good, told)
        whole = msgspec.structs.replace(
            verdict, tests=(*verdict.tests, found), level=LEVEL,
            evidence=(*verdict.evidence, Evidence(source="speedup", text=str(speedup))))
        return whole, worth_of(speedup, times), told


def worth_of(speedup: Speedup, times: float) -> float:
    """The share of the way to `times`, in [0, 1], by the lower end of the interval; 0 where a timed run was wrong."""
    if speedup.wrong:
        return 0.0
    return min(1.0, max(0.0, math.log(speedup.low) / math.log(times)))


def asked_of(item: Item) -> tuple[PythonSuite, float]:
    """The hidden suite of a task, and how many times as fast an answer has to be. Raises TaskError for another one."""
    suite = item.exam.hidden
    needed = ("asked.py", "original.py", "same.py", "workload.py")
    if not isinstance(suite, PythonSuite) or not set(needed) <= set(suite.files) or item.task.entry.name is None:
        raise TaskError(f"task {item.task.id}: expected Python tests with {', '.join(needed)}, and a function's name, "
                        "for kind = 'perf'")
    for node in ast.parse(suite.files["asked.py"]).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TIMES")], value=ast.Constant(value=float() | int() as times)):
                if times > 1:
                    return suite, float(times)
    raise TaskError(f"task {item.task.id}: expected TIMES greater than 1 in asked.py")


def _seeded(asked: bytes, seed: int) -> bytes:
    """The file with another seed; the last assignment is the one that counts."""
    return asked + b"SEED = %d\n" % seed
