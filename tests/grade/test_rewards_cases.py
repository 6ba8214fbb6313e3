"""The handed cases of values, long integers and checkers: each is judged as it says."""

from __future__ import annotations

import asyncio
import json

import pytest

from quintain.grade import check_output
from quintain.grade.stdio import check_program
from quintain.sandbox import NativeBackend
from quintain.tasks import StdioCase, StdioSuite
from quintain.types import Fault, Program, TaskError
from tests.grade.ground import LIMITS, SHARED, needs_native, needs_shared, python_case, verdict_of

pytestmark = [needs_native, needs_shared, pytest.mark.shared]


def rc07() -> list[dict[str, object]]:
    path = SHARED / "cases" / "RC07" / "pairs.json"
    return list(json.loads(path.read_text())) if path.is_file() else []


@pytest.mark.parametrize("row", [r for r in rc07() if isinstance(r["equal"], bool)], ids=lambda r: f"{r['got']}")
def test_rc07_a_returned_value_is_compared_by_its_own_type(row: dict[str, object]) -> None:
    got, want = row["got"], row["want"]
    tests = (
        f"from solution import f\n\ndef test_f():\n    want = {want}\n"
        "    assert type(f()) is type(want) and f() == want\n"
    )
    verdict = verdict_of(python_case("RC07", f"def f():\n    return {got}\n", tests))
    assert verdict.solved is row["equal"]


def test_rc07_an_object_that_says_it_equals_everything_is_not_equal() -> None:
    answer = "class A:\n    def __eq__(self, other): return True\n    __hash__ = None\n\ndef f(): return A()\n"
    tests = "from solution import f\n\ndef test_f():\n    assert f() == 1\n"
    assert not verdict_of(python_case("RC07", answer, tests)).solved


def test_rc07_a_tolerance_reaches_into_lists_and_not_to_nan() -> None:
    tests = (
        "import math\nfrom solution import f\n\ndef test_f():\n"
        "    assert all(math.isclose(a, b) for a, b in zip(f(), [0.3], strict=True))\n"
    )
    verdicts = [verdict_of(python_case("RC07", f"def f(): return [{value}]\n", tests)).solved
                for value in ("0.30000000000000004", "float('nan')", "0.31")]
    assert verdicts == [True, False, False]


def test_rc08_an_integer_of_5001_digits_is_judged_and_not_a_fault_of_the_answer() -> None:
    folder = SHARED / "cases" / "RC08"
    source = (folder / "solution.py").read_bytes()
    (row,) = json.loads((folder / "cases.json").read_text())
    case = StdioCase(name="c", stdin=row["stdin"].encode(), stdout=row["stdout"].encode())
    program = Program(files={"solution.py": source}, argv=("python3", "solution.py"))

    async def judged() -> bool:
        async with NativeBackend() as backend:
            return (await check_program(backend, StdioSuite(cases=(case,)), program, limits=LIMITS)).solved

    assert asyncio.run(judged())


def test_rc08_a_function_may_write_long_integers_too() -> None:
    source = "def f(): return 10**5000\ndef g(): return str(10**5000)\n"
    tests = ("from solution import f, g\n\ndef test_f():\n    assert f() == 10**5000\n\n"
             "def test_g():\n    assert len(g()) == 5001\n")
    assert verdict_of(python_case("RC08", source, tests)).solved


def checked(checker: bytes, stdin: bytes, output: bytes) -> Fault | None:
    async def main() -> Fault | None:
        async with NativeBackend() as backend:
            return await check_output(backend, checker, stdin=stdin, output=output, limits=LIMITS)

    return asyncio.run(main())


def test_rc09_any_right_answer_is_accepted_and_a_crashed_checker_blames_the_task() -> None:
    folder = SHARED / "cases" / "RC09"
    checker = (folder / "check.py").read_bytes()
    (case,) = json.loads((folder / "cases.json").read_text())
    found = {out: "ok" if checked(checker, case["stdin"].encode(), out.encode()) is None else "wrong"
             for out in case["outputs"]}
    assert found == case["outputs"]
    for broken in (b"raise SystemExit(3)\n", b"1 / 0\n", b"import os, signal\nos.kill(os.getpid(), 9)\n", b"x = (\n"):
        with pytest.raises(TaskError, match="exit code 0 or 1"):
            checked(broken, b"12\n", b"5")
