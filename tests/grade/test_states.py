"""Recorded states: the variables where a visible test went wrong, bounded, whatever the answer does."""

from __future__ import annotations

import asyncio

import pytest

from quintain.env import CodeEnvironment, Feedback
from quintain.grade import FrameState, describe, record_states, solved_only
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Entry, Limits, Program
from tests.grade.ground import needs_native

pytestmark = needs_native

LIMITS = Limits(wall_seconds=4.0, cpu_seconds=4.0)
TESTS = b"""\
import unittest
from solution import mean

def test_two():
    assert mean([2, 4]) == 3

def test_none():
    assert mean([]) == 0

class TestMore(unittest.TestCase):
    def test_one(self):
        self.assertEqual(mean([5]), 5)
"""
SUITE = PythonSuite(files={"test_mean.py": TESTS})
ANSWER = "def total(xs):\n    s = 1\n    for x in xs:\n        s += x\n    return s\n\n\ndef mean(xs):\n"
WRONG = ANSWER + "    n = len(xs)\n    return total(xs) / n\n"


def seen(source: str, *tests: str, limits: Limits = LIMITS) -> tuple[FrameState, ...]:
    async def main() -> tuple[FrameState, ...]:
        program = Program(files={"solution.py": source.encode()})
        names = [f"test_mean.py::{test}" for test in tests]
        async with NativeBackend() as backend:
            return await record_states(backend, SUITE, program, names, limits=limits)

    return asyncio.run(main())


def test_an_exception_shows_the_variables_of_its_frames() -> None:
    (state,) = seen(WRONG, "test_none")
    assert (state.file, state.line, state.function, state.event) == ("solution.py", 10, "mean", "raised")
    assert state.variables == {"xs": "[]", "n": "0"}
    assert state.detail == "ZeroDivisionError: division by zero"


def test_a_failed_assertion_shows_what_returned_last() -> None:
    states = seen(WRONG, "test_two", "TestMore::test_one")
    two = [s for s in states if s.test.endswith("test_two")]
    assert [(s.function, s.event, s.detail) for s in two] == [("total", "returned", "7"), ("mean", "returned", "3.5")]
    assert two[0].variables == {"xs": "[2, 4]", "s": "7", "x": "4"}
    assert [s.detail for s in states if s.test.endswith("test_one")] == ["6", "6.0"]
    told = describe(states)
    assert "test_mean.py::test_two: solution.py:5 in total returned 7\n  with xs = [2, 4], s = 7, x = 4" in told


def test_a_loop_that_does_not_end_shows_where_it_is() -> None:
    states = seen("def mean(xs):\n    n = 0\n    while True:\n        n = 7\n", "test_two")
    assert [(s.function, s.event, s.variables["n"]) for s in states] == [("mean", "running", "7")]


@pytest.mark.parametrize("hostile", [
    "def mean(xs):\n    import os\n    os._exit(0)\n",
    "def mean(xs):\n    import sys\n    sys.exit(3)\n",
    "def mean(xs): return None\nimport os\nos.write(1, b'[' * 10**7)\nfor fd in range(3, 50):\n"
    "    try: os.write(fd, b'{\"x\": 1}')\n    except OSError: pass\n",
    "class E(Exception):\n    def __str__(self): raise E\ndef mean(xs):\n    raise E\n",
    "class R:\n    def __repr__(self): raise SystemExit(1)\ndef mean(xs):\n    r = R()\n    return r\n",
    "def mean(xs):\n    return mean(xs)\n", "def mean(xs:\n", "import nothing_like_it\n",
    "def mean(xs):\n    text = '\\x1b[2J' + 'a' * 10**6\n    return text\n",
])
def test_nothing_an_answer_does_breaks_the_recorder_or_floods_it(hostile: str) -> None:
    states = seen(hostile, "test_two", "test_none")
    assert len(states) <= 12
    for state in states:
        assert state.file == "solution.py"
        assert len(state.variables) <= 10
        assert all(len(value) <= 160 and value.isprintable() for value in (state.detail, *state.variables.values()))


def test_the_environment_tells_them_where_it_is_asked_to() -> None:
    hidden = PythonSuite(files={"test_h.py": b"from solution import mean\ndef test_h(): assert mean([1, 3]) == 2\n"})
    item = Item.sealed(Exam(hidden=hidden, visible=SUITE), id="mean", instructions="write it", entry=Entry(name="mean"))
    program = Program(files={"solution.py": WRONG.encode()})

    async def told(states: bool) -> str:
        async with NativeBackend() as backend:
            environment = CodeEnvironment(backend, states=states, scalar=solved_only)
            shown = await environment.run(item, program, episode="e", limits=LIMITS)
            return environment.say(item.task, Feedback(shown=shown)).text

    with_states, without = (asyncio.run(told(on)) for on in (True, False))
    assert "Variables: test_mean.py::test_two: solution.py:5 in total returned 7" in with_states
    assert "Variables:" not in without
    assert "\n  with" not in with_states.replace("\n      with", ""), "further lines are indented"
