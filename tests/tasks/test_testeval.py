"""Tests to be written for a given program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quintain.tasks import ScriptSuite, open_taskset
from quintain.types import TaskError

from .made import DATA, needs_data

PROGRAM = "class Solution:\n  def pick(self, n):\n    if n > 0:\n      return 'up'\n    return 'down'\n"
ROW = {"task_num": 1, "task_title": "Pick", "func_name": "pick", "description": "Picks.", "python_solution": PROGRAM,
       "target_lines": [4, 5]}


def rows(path: Path, *found: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def test_the_lines_that_are_wanted_are_told(tmp_path: Path) -> None:
    (item,) = open_taskset(str(rows(tmp_path / "set.jsonl", ROW)))
    assert item.task.id == "testeval/1"
    assert "make these lines run: 4, 5" in item.task.instructions
    assert "  5      return 'down'" in item.task.instructions
    assert isinstance(item.exam.hidden, ScriptSuite)
    assert item.exam.hidden.required == ("passes", "covers")


@pytest.mark.parametrize(("fields", "said"), [
    ({"target_lines": [9]}, "target_lines: expected lines from 1 to 5, found 9"),
    ({"target_lines": []}, "target_lines: expected at least one"),
    ({"func_name": "absent"}, "func_name: expected a function of its program, found 'absent'"),
    ({"python_solution": "def"}, "cannot be made"),
])
def test_a_row_that_does_not_fit_together_is_refused(fields: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=said):
        list(open_taskset(str(rows(tmp_path / "set.jsonl", {**ROW, **fields}))))


@needs_data
def test_all_of_the_handed_programs_are_read() -> None:
    tasks = open_taskset("testeval", data=DATA)
    assert len(tasks) == 210
    assert all("test-writing" in item.task.tags for item in tasks)
