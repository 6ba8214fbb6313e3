"""Coverage is what the compiled code did, test by test, whatever the answer's text or configuration says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from quintain.grade import Coverage, Covered, Oracle, cover, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, Program, Score
from tests.grade.ground import LIMITS, SHARED, needs_native, needs_shared, tree

pytestmark = needs_native

SIGN = """
def sign(x):
    if x > 0:
        return 1
    elif x < 0:
        return -1
    return 0
"""


def covered(files: Mapping[str, str], tests: str, *, modules: tuple[str, ...] = ("solution",)) -> Covered:
    async def go() -> Covered:
        suite = PythonSuite(files={"test_it.py": tests.encode()}, modules=modules)
        async with NativeBackend(warm=warm_oracle()) as backend:
            return await cover(backend, suite, {p: t.encode() for p, t in files.items()}, limits=LIMITS)

    return asyncio.run(go())


def scores(attempt: Attempt, item: Item) -> dict[str, Score]:
    async def go() -> dict[str, Score]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            return {s.name: s for s in await Coverage(backend, oracle=Oracle(backend)).grade(attempt, item)}

    return asyncio.run(go())


def test_lines_and_ways_are_known_for_each_test():
    found = covered({"solution.py": SIGN}, """
from solution import sign
def test_positive():
    assert sign(3) == 1
def test_negative():
    assert sign(-3) == -1
""")
    assert found.verdict.solved
    assert found.lines_by_test["test_it.py::test_negative"]["solution.py"] == {3, 5, 6}
    positive = found.lines_by_test["test_it.py::test_positive"]["solution.py"]
    assert {3, 4} <= positive and not {5, 6, 7} & positive
    assert found.decisions["solution.py"] == {(3, 7, 12), (5, 9, 14)}
    assert found.branch_share == 0.75
    assert found.missing() == ["solution.py:7", "solution.py:5 one way only"]


def test_both_ways_of_a_decision_on_one_line_are_told_apart():
    source = "def f(a, b):\n    return [x for x in a if x > 1] if b else None\n"
    half = covered({"solution.py": source}, "from solution import f\ndef test():\n    assert f([], True) == []\n")
    whole = covered({"solution.py": source}, (
        "from solution import f\ndef test():\n    assert f([1, 2], True) == [2]\n    assert f([], 0) is None\n"))
    assert half.line_share == 1.0 and half.branch_share == 2 / 6
    assert whole.branch_share == 1.0


def test_what_a_set_up_runs_counts_for_the_test_that_it_is_for():
    found = covered({"solution.py": "class A:\n    def __init__(self):\n        self.x = 1\n    def f(self):\n"
                                    "        return self.x\n"}, """
import unittest
from solution import A
class TestA(unittest.TestCase):
    def setUp(self):
        self.a = A()
    def test_f(self):
        self.assertEqual(self.a.f(), 1)
    def test_x(self):
        self.assertEqual(self.a.x, 1)
""")
    by = found.lines_by_test
    assert 3 in by["test_it.py::TestA::test_f"]["solution.py"]
    assert by["test_it.py::TestA::test_x"]["solution.py"] & {3, 5} == {3}


def test_recursion_to_its_limit_and_threads_are_followed():
    found = covered({"solution.py": """
import threading
def deep(n):
    return deep(n + 1)
def threaded():
    out = []
    t = threading.Thread(target=lambda: out.append(1))
    t.start(); t.join()
    return out
"""}, """
from solution import deep, threaded
def test_deep():
    try:
        deep(0)
    except RecursionError:
        return
    raise AssertionError
def test_threaded():
    assert threaded() == [1]
""")
    assert found.verdict.solved
    assert {6, 7, 8, 9} <= found.lines_by_test["test_it.py::test_threaded"]["solution.py"]


def test_an_answer_cannot_cover_places_that_it_does_not_have():
    found = covered({"solution.py": """
def f():
    with open("/tmp/quintain-facts", "a") as file:
        file.write("0\\tsolution.py\\t99\\n0\\tother.py\\t1\\nxx\\n0\\tsolution.py\\t3\\t4\\t5\\t7\\n")
    return 1
"""}, "from solution import f\ndef test():\n    assert f() == 1\n")
    assert found.lines_by_test["test_it.py::test"].keys() == {"solution.py"}
    assert found.lines_by_test["test_it.py::test"]["solution.py"] <= found.lines["solution.py"]


def test_failing_asserts_and_handlers_that_do_not_fit_are_no_decisions():
    found = covered({"solution.py": """
def f(x):
    assert x is not None, "x"
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0
"""}, "from solution import f\ndef test():\n    assert (f(1), f(0)) == (1, 0)\n")
    assert found.decisions["solution.py"] == frozenset()
    assert found.branch_share == found.line_share == 1.0


@needs_shared
def test_pragmas_and_omitted_files_count_as_uncovered():
    case = SHARED / "cases" / "RH20"
    bounds = json.loads((case / "expected.json").read_text())["reward"]
    given = {path: content for path, content in tree(case / "workspace").items() if path in ("calc.py", "hard.py")}
    item = Item.sealed(
        Exam(hidden=PythonSuite(files={"test_hidden.py": b"def test_nothing():\n    pass\n"}, modules=("calc",))),
        files=given, id="coverage", kind="testgen", instructions="Reach 85 % coverage.")
    attempt = Attempt(task=item.task, program=Program(files=tree(case / "workspace")))
    found = scores(attempt, item)
    assert found["branch_coverage"].value is not None
    assert bounds["low"] <= found["branch_coverage"].value <= bounds["high"]
    assert "calc.py:11" in found["branch_coverage"].evidence and "hard.py" in found["branch_coverage"].evidence


def test_an_answer_that_was_not_run_to_its_end_is_not_measured():
    item = Item.sealed(
        Exam(hidden=PythonSuite(files={"test_it.py": b"from solution import f\ndef test():\n    assert f() == 1\n"})),
        id="slow", instructions="Write f.")
    endless = Program(files={"solution.py": b"def f():\n    while True:\n        pass\n"})
    limits = item.task.limits
    quick = type(limits)(command=type(limits.command)(wall_seconds=0.3, cpu_seconds=0.3))
    item = Item.sealed(item.exam, id="slow", instructions="Write f.", limits=quick)
    found = scores(Attempt(task=item.task, program=endless), item)
    assert found["branch_coverage"].value is None and "did not end" in found["branch_coverage"].evidence
    assert scores(Attempt(task=item.task), item)["line_coverage"].value is None
