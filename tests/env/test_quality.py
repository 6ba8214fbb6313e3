"""Graders of quality move the reward of solved answers, and of no others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quintain.env import CodeEnvironment, Work
from quintain.grade import Quality, Security, Style, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Entry, Program, Reward
from tests.grade.ground import needs_native

pytestmark = needs_native
pytest.importorskip("bandit", reason="pip install 'quintain[quality]'")

TEST = b"from solution import add\ndef test():\n    assert add(1, 2) == 3\n"
ITEM = Item.sealed(
    Exam(hidden=PythonSuite(files={"test_it.py": TEST})), id="add", instructions="Write add.", entry=Entry(name="add"))
TIDY = "def add(a, b):\n    return a + b\n"
UNTIDY = "import os\nimport sys\n\n\ndef add(a, b):\n    c = 1\n    return eval('a + b')\n"


def rewards(*answers: str, quality: bool = True) -> Sequence[Reward]:
    async def go() -> list[Reward]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            environment = CodeEnvironment(backend, quality=Quality(Style(), Security()) if quality else None)
            works = [Work(program=Program(files={"solution.py": text.encode()})) for text in answers]
            return [(await environment.grade(ITEM, work, episode="e", seed=1))[1] for work in works]

    return asyncio.run(go())


def test_a_solved_answer_with_new_findings_is_paid_less_and_still_more_than_any_unsolved_one():
    tidy, untidy, wrong = rewards(TIDY, UNTIDY, TIDY.replace("+", "-"))
    assert tidy.total > untidy.total >= 0.58 > wrong.total
    assert {"style", "security"} <= {score.name for score in untidy.scores}
    assert not {"style", "security"} & {score.name for score in wrong.scores}


def test_without_graders_of_quality_untidy_code_is_paid_in_full():
    tidy, untidy = rewards(TIDY, UNTIDY, quality=False)
    assert tidy.total == untidy.total
