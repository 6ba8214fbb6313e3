"""Questions with one answer, in the manner of GSM8K (`#### 18` ends the solution) and MATH (`\\boxed{18}` in it).

Rows hold `question` and `answer`, or `problem` and `solution` (and `answer`, where it stands apart). They have no ids:
a task is called by the file and the number of its line. Cobbe et al. 2021, https://arxiv.org/abs/2110.14168;
Hendrycks et al. 2021, https://arxiv.org/abs/2103.03874.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Grading

_ASKED = "\n\nGive your final answer in \\boxed{}, or on a last line that begins with `####`.\n"
_MARK = "####"


class QuestionRow(msgspec.Struct, frozen=True, kw_only=True):
    question: str | None = None
    problem: str | None = None
    answer: str | int | float | None = None
    solution: str | None = None
    level: str | int | None = None
    type: str | None = None
    subject: str | None = None


class QuestionsFormat:
    """Rows of question and answer; read only. Ids are `gsm8k/FILE/LINE` or `math/FILE/LINE`."""

    name = "questions"
    about = "JSONL rows with question and answer (GSM8K), or problem and solution (MATH)"
    sets = (
        PublicSet(
            name="gsm8k", files=("gsm8k/test.jsonl", "test.jsonl"),
            source="grade_school_math/data/test.jsonl of https://github.com/openai/grade-school-math (MIT)",
        ),
        PublicSet(
            name="gsm8k-train", files=("gsm8k/train.jsonl.gz", "gsm8k/train.jsonl", "train.jsonl.gz", "train.jsonl"),
            source="grade_school_math/data/train.jsonl of https://github.com/openai/grade-school-math (MIT)",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "question", "answer") or has_keys(path, "problem", "solution")

    def read(self, path: Path) -> Taskset:
        stem = path.name.partition(".")[0]

        def id_of(row: QuestionRow, number: int) -> str:
            return f"{'math' if row.problem is not None else 'gsm8k'}/{stem}/{number}"

        return Taskset(RowSource.numbered(path, QuestionRow, name=str(path), id_of=id_of, build=_item))


def _item(row: QuestionRow, id: str) -> Item:
    """Raises ValueError for a row without a question, or whose answer cannot be told from its solution."""
    asked = row.problem if row.problem is not None else row.question
    if asked is None or not asked.strip():
        raise ValueError("expected a question (key question or problem), found none")
    said = row.solution if row.solution is not None else str(row.answer if row.answer is not None else "")
    expected = expected_answer(row)
    tags = [str(tag) for tag in ("math", row.type or row.subject, row.level) if tag is not None]
    return Item.sealed(
        Exam(
            hidden=AnswerSuite(expected=expected, kind=AnswerKind.MATH),
            oracle={"answer.txt": f"{said.strip()}\n\n{_MARK} {expected}\n".encode()}, null=({"answer.txt": b""},),
        ),
        id=id, kind="math", instructions=asked.strip() + _ASKED, entry=Entry(path="answer.txt", language="text"),
        grading=Grading.ON_SUBMIT, tags=tuple(tags),
    )


def expected_answer(row: QuestionRow) -> str:
    """What stands after `####`, in the last `\\boxed{}`, or under `answer` beside a solution. Raises ValueError."""
    text = str(row.answer) if row.answer is not None else ""
    if row.solution is None:
        found = text.rpartition(_MARK)[2].strip() if _MARK in text else boxed(text)
        if found is None and "\n" not in text.strip() and len(text) <= 200:
            found = text.strip()  # a short answer that stands alone
    else:
        found = text.strip() or boxed(row.solution)
    if not found:
        shown = (text or row.solution or "")[-80:]
        raise ValueError(f"expected an answer after {_MARK} or in \\boxed{{}}, found {shown!r}")
    return found


def boxed(text: str) -> str | None:
    """What the last `\\boxed{...}` (or `\\fbox{...}`) holds, inner braces and all; None where there is none or it is
    never closed."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    begin = text.index("{", start) + 1
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin:place].strip()
    return None
