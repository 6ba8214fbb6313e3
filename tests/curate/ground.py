"""What the tests of admission share: small tasks by hand, and one admission out of a backend."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from quintain.curate import Admission, Check, Kept, Site, admit_one, standard_checks
from quintain.grade import World, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, ScriptSuite
from quintain.types import Entry, Grading

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="the native backend is not available here: see `quintain doctor`")

CLAMP = (b"def clamp(x, low, high):\n    if x < low:\n        return low\n    if x > high:\n        return high\n"
         b"    return x\n")
TESTS = "from solution import clamp\n\n" + "".join(
    f"\ndef test_{n}():\n    assert clamp({given}) == {wanted}\n\n" for n, (given, wanted) in enumerate(
        (("5, 0, 9", 5), ("-3, 0, 9", 0), ("12, 0, 9", 9), ("0, 0, 9", 0), ("9, 0, 9", 9), ("-7, -5, -1", -5))))


def clamp_task(
    tests: str = TESTS, *, oracle: bytes = CLAMP, files: dict[str, bytes] | None = None, asked: str = "",
    id: str = "clamp",
) -> Item:
    return Item.sealed(
        Exam(hidden=PythonSuite(files={"test_it.py": tests.encode()}), oracle={"solution.py": oracle}), id=id,
        instructions=asked or "Write `clamp(x, low, high)`: x, but at least low and at most high.", files=files,
        entry=Entry(name="clamp"))


def script_task(test: str, *, solve: str = "echo 42 > answer.txt\n", files: dict[str, bytes] | None = None) -> Item:
    return Item.sealed(
        Exam(hidden=ScriptSuite(files={"test.sh": test.encode()}),
             oracle={"solve.sh": b"#!/bin/bash\n" + solve.encode()}),
        id="script", kind="shell", instructions="Write 42 to answer.txt.", files=files, image="host+rw",
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT)


def admitted(
    items: Sequence[Item], *, checks: Sequence[Check] | None = None, kept: Kept | None = None,
) -> list[Admission]:
    """Each task through the quick gate, or through these checks."""

    async def work() -> list[Admission]:
        with tempfile.TemporaryDirectory() as cache:
            async with NativeBackend(warm=warm_oracle()) as backend, NativeBackend() as images:
                site = Site(backend, at_once=4, world=World(images, cache=Path(cache), bases={"*": "host"}))
                chosen = checks or standard_checks(quick=True, kept=kept)
                return [await admit_one(item, site, chosen, kept=kept) for item in items]

    return asyncio.run(work())


def codes(admission: Admission) -> set[str]:
    """What is wrong and fails."""
    return {problem.code for problem in admission.problems if problem.fails}
