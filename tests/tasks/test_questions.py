"""Questions with one answer as rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quintain.tasks import AnswerKind, AnswerSuite, open_taskset
from quintain.tasks.formats.questions import boxed
from quintain.types import TaskError

from .made import DATA, needs_data


def rows(path: Path, *found: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


@pytest.mark.parametrize(("row", "expected"), [
    ({"question": "?", "answer": "3 + 4 = <<3+4=7>>7\n#### 7"}, "7"),
    ({"question": "?", "answer": "#### 1,234"}, "1,234"),
    ({"question": "?", "answer": "#### 1\nno:\n#### 2"}, "2"),
    ({"question": "?", "answer": 42}, "42"),
    ({"problem": "?", "solution": r"So $\boxed{\frac{1}{2}}$."}, r"\frac{1}{2}"),
    ({"problem": "?", "solution": r"\boxed{1} and then \boxed{x^{2}}"}, "x^{2}"),
    ({"problem": "?", "solution": "long", "answer": "[0, 1)"}, "[0, 1)"),
])
def test_the_answer_is_found_where_each_kind_of_row_has_it(
    row: dict[str, object], expected: str, tmp_path: Path
) -> None:
    (found,) = open_taskset(str(rows(tmp_path / "set.jsonl", row)))
    assert found.exam.hidden == AnswerSuite(expected=expected, kind=AnswerKind.MATH)
    assert found.task.id == f"{'math' if 'problem' in row else 'gsm8k'}/set/1"


@pytest.mark.parametrize("row", [
    {"question": "?", "answer": "no mark\nat all"}, {"problem": "?", "solution": r"\boxed{never closed"},
    {"question": "?", "answer": "####"}, {"question": "  ", "answer": "#### 1"}, {"question": None, "answer": "#### 1"},
])
def test_a_row_without_question_or_answer_is_refused(row: dict[str, object], tmp_path: Path) -> None:
    path = rows(tmp_path / "set.jsonl", {"question": "fine", "answer": "#### 1"}, row)
    with pytest.raises(TaskError, match=r"set\.jsonl:2: .*expected a(n answer| question)"):
        list(open_taskset(f"questions:{path}"))


@pytest.mark.parametrize(("text", "found"), [
    (r"\boxed{a}", "a"), (r"\fbox{b}", "b"), (r"\boxed{{c}}", "{c}"), ("none", None), (r"\boxed{", None),
])
def test_boxes_are_read_brace_by_brace(text: str, found: str | None) -> None:
    assert boxed(text) == found


@needs_data
def test_all_of_gsm8k_is_read_and_every_answer_is_a_number() -> None:
    tasks = open_taskset("gsm8k", data=DATA)
    assert len(tasks) == 1319
    for found in tasks:
        assert isinstance(found.exam.hidden, AnswerSuite)
        float(found.exam.hidden.expected.replace(",", ""))


@needs_data
def test_the_training_half_is_a_set_of_its_own() -> None:
    tasks = open_taskset("gsm8k-train?take=3", data=DATA)
    assert tasks.ids == ("gsm8k/train/1", "gsm8k/train/2", "gsm8k/train/3")
