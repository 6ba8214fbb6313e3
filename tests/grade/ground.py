"""What the tests of grading share: suites and answers by hand, and many verdicts out of one backend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from quintain.grade import Oracle, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite, Suite
from quintain.types import HouseError, Limits, Program, Verdict

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
LIMITS = Limits(wall_seconds=20.0, cpu_seconds=10.0, memory_bytes=256 * 1024 * 1024)

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="the native backend is not available here: see `quintain doctor`"
)
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the handed cases and data are not at {SHARED}")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One answer and the suite that it is up against."""

    name: str
    suite: Suite
    program: Program
    limits: Limits = LIMITS


def tree(folder: Path, *, below: str = "") -> dict[str, bytes]:
    """The files below a folder; links are not followed."""
    return {
        below + str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()
    }


def python_case(
    name: str, solution: str | Mapping[str, str], tests: str, *, modules: Sequence[str] = ("solution",),
    limits: Limits = LIMITS,
) -> Case:
    """A case from source text."""
    files = {"solution.py": solution} if isinstance(solution, str) else solution
    suite = PythonSuite(files={"test_it.py": tests.encode()}, modules=tuple(modules))
    return Case(name=name, suite=suite, program=Program(files={p: t.encode() for p, t in files.items()}), limits=limits)


def grade_all(cases: Sequence[Case], *, confirm: bool = False, warm: bool = True) -> dict[str, Verdict | HouseError]:
    """The verdict of each, on the native backend, two at a time."""
    return asyncio.run(_grade_all(cases, confirm, warm))


async def _grade_all(cases: Sequence[Case], confirm: bool, warm: bool) -> dict[str, Verdict | HouseError]:
    verdicts: dict[str, Verdict | HouseError] = {}
    room = asyncio.Semaphore(2)
    kept = warm_oracle() if warm else None
    async with NativeBackend(warm=kept) as backend, asyncio.TaskGroup() as group:
        oracle = Oracle(backend, confirm=confirm)

        async def one(case: Case) -> None:
            async with room:
                try:
                    verdicts[case.name] = await oracle.grade(case.suite, case.program, limits=case.limits)
                except HouseError as error:
                    verdicts[case.name] = error

        for case in cases:
            group.create_task(one(case))
    return verdicts


def verdict_of(case: Case, *, confirm: bool = False) -> Verdict:
    """The verdict of one case; a fault of the house is raised."""
    verdict = grade_all([case], confirm=confirm)[case.name]
    if isinstance(verdict, HouseError):
        raise verdict
    return verdict
