"""The check for authors of graders accepts the house's own and says what is wrong with others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quintain.grade import Coverage, Grader, Mutation, Oracle, Performance, Security, Style, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.testing import check_grader
from quintain.types import Attempt, Entry, Program, Score
from tests.grade.ground import needs_native

CODE = b"def add(a, b):\n    return a + b\n"
TEST = b"from solution import add\ndef test():\n    assert add(1, 2) == 3\n"
ITEM = Item.sealed(
    Exam(hidden=PythonSuite(files={"test_it.py": TEST}), oracle={"solution.py": CODE}), id="add",
    instructions="Write add.", entry=Entry(name="add"))
ATTEMPTS = [Attempt(task=ITEM.task, program=Program(files={"solution.py": text}))
            for text in (CODE, CODE.replace(b"+", b"-"), b"import os\nos._exit(0)\n", b"def add(:\n")]


class _Bad:
    """A grader that breaks each rule."""

    name = ""

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        if attempt.program is None:
            return (Score(name="x", value=1.0),)
        twice = (Score(name="x", value=None), Score(name="x", value=0.0, weight=-1.0))
        return twice if b"-" in attempt.program.files["solution.py"] else twice[:1]


def test_a_grader_that_breaks_the_protocol_is_told_where():
    problems = "\n".join(asyncio.run(check_grader(_Bad(), ITEM, ATTEMPTS[:2])))
    for part in ("expected a name", "'x' 2 times", "a reason why 'x'", "weight of 0 or more", "the same names",
                 "no program: expected 'x' not to be measured"):
        assert part in problems


class _Solved:
    """A grader whose score has a name that every reward has already."""

    name = "mine"

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        return (Score(name="solved", value=None if attempt.program is None else 1.0, evidence="no program"),)


def test_a_grader_that_takes_a_part_of_the_reward_for_its_name_is_told():
    problems = "\n".join(asyncio.run(check_grader(_Solved(), ITEM, ATTEMPTS[:1])))
    assert "expected a name of its own, found 'solved'" in problems


@needs_native
def test_the_houses_own_graders_keep_to_the_protocol():
    pytest.importorskip("bandit", reason="pip install 'quintain[quality]'")

    async def go() -> dict[str, list[str]]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            oracle = Oracle(backend)
            graders: list[Grader] = [Coverage(backend, oracle=oracle), Mutation(oracle), Style(), Security(),
                                     Performance(backend, oracle=oracle)]
            return {grader.name: await check_grader(grader, ITEM, ATTEMPTS) for grader in graders}

    assert {name: found for name, found in asyncio.run(go()).items() if found} == {}
