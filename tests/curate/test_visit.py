"""Answers that share a visit are judged as they would be alone, and none decides about another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quintain.curate import Site
from quintain.curate.visit import keeps_to_itself, visited
from quintain.grade import warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite
from quintain.types import Passed, Verdict
from tests.curate.ground import CLAMP, clamp_task, needs_native


def seen(item: Item, copies: Sequence[bytes], *, only_first: bool = False) -> list[Verdict | None]:
    suite = item.exam.hidden
    assert isinstance(suite, PythonSuite)

    async def work() -> list[Verdict | None]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            return await visited(Site(backend, at_once=2), item, suite, [{"solution.py": text} for text in copies],
                                 seconds=0.1, only_first=only_first)

    return asyncio.run(work())


def results(verdict: Verdict | None) -> list[Passed] | None:
    return [test.passed for test in verdict.tests] if verdict is not None else None


RIGHT = CLAMP.replace(b"x < low", b"low > x")
WRONG = CLAMP.replace(b"return high", b"return low")  # only the third test notices
LOOPS = CLAMP.replace(b"return low", b"while True:\n            low += 1", 1)  # the second and the last
STUCK = CLAMP.replace(b"return low", b"return sum(range(10 ** 12))", 1)  # one operation, which no timer ends
EXITS = b"import os\n\n\n" + CLAMP.replace(b"return low", b"os._exit(0)", 1)


@needs_native
def test_a_copy_that_loops_or_never_comes_back_decides_about_itself_only() -> None:
    passed, failed = Passed.PASSED, Passed.FAILED
    right, wrong = [passed] * 6, [passed, passed, failed, passed, passed, passed]
    found = seen(clamp_task(), [RIGHT, LOOPS, WRONG, STUCK, EXITS, RIGHT, WRONG])
    assert [results(one) for one in found] == [
        right, [passed, failed, failed, failed, failed, failed], wrong, None, None, right, wrong]
    assert found[0] is not None and found[0].solved
    assert [test.id for test in found[0].tests] == [f"test_it.py::test_{n}" for n in range(6)]


@needs_native
def test_after_its_first_failure_a_copy_is_asked_no_more_where_that_is_enough() -> None:
    found = seen(clamp_task(), [WRONG, RIGHT], only_first=True)
    assert [sum(test.passed is Passed.PASSED for test in one.tests) for one in found if one] == [2, 6]


@needs_native
def test_nothing_is_decided_where_the_authors_answer_does_not_pass() -> None:
    assert seen(clamp_task(oracle=WRONG), [RIGHT, WRONG]) == [None, None]


@pytest.mark.parametrize("tests", [
    "import os\nfrom solution import clamp\n\ndef test_a():\n    assert clamp(1, 0, 2) == 1\n",
    "import unittest\nfrom solution import clamp\n\nclass TestA(unittest.TestCase):\n    def test_a(self): pass\n",
    "from solution import clamp\n\ndef test_a(n=1):\n    assert clamp(n, 0, 2) == 1\n"])
def test_tests_that_reach_beyond_themselves_are_not_shared(tests: str) -> None:
    assert seen(clamp_task(tests), [RIGHT, WRONG]) == [None, None]


@pytest.mark.parametrize(("source", "keeps"), [
    ("import math\nfrom typing import List\n\ndef f(xs: List[int]):\n    return math.floor(sum(xs))\n", True),
    ("def f(s):\n    return sorted(s.split(), key=lambda w: (len(w), w))\n", True),
    ("import sys\n\ndef f():\n    return 1\n", False),
    ("from math import *\n\ndef f():\n    return 1\n", False),
    ("def f():\n    return open('x')\n", False),
    ("def f(x):\n    return x.__class__\n", False),
    ("import math\nmath.pi = 3\n", False),
    ("class A:\n    pass\n", False),
    ("def f():\n    try:\n        while True: pass\n    except: pass\n", False),
    ("def f(:\n", False)])
def test_what_keeps_to_itself_is_known_by_its_text(source: str, keeps: bool) -> None:
    assert keeps_to_itself(source.encode()) is keeps
