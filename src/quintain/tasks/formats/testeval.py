"""TestEval: tests to be written for a given program, judged by the lines that they make run.

Rows hold task_num, func_name, description, python_solution and target_lines. The answer is `test_solution.py` with
functions `test_*`; each must pass on the given program, and together they must run every target line. Evaluation only:
the programs are LeetCode's. Wang et al. 2024, https://arxiv.org/abs/2406.04531.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.script import ScriptSuite
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Grading

_REWARD = "/tmp/verifier/reward.json"
_FOLDER = "/tmp/tests"
ANSWER = "test_solution.py"


class TestEvalRow(msgspec.Struct, frozen=True, kw_only=True):
    __test__ = False

    task_num: int
    task_title: str
    func_name: str
    description: str
    python_solution: str
    target_lines: list[int] = []
    difficulty: int = 0


class TestEvalFormat:
    """Rows of a program and its target lines; read only. Ids are `testeval/NUMBER`."""

    __test__ = False

    name = "testeval"
    about = "JSONL rows with task_num, func_name, python_solution, target_lines"
    sets = (
        PublicSet(
            name="testeval", files=("testeval/leetcode-py.jsonl.gz", "leetcode-py.jsonl.gz", "leetcode-py.jsonl"),
            source="data/leetcode-py.jsonl of https://github.com/LLM4SoftwareTesting/TestEval (MIT; texts LeetCode's)",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "task_num", "func_name", "python_solution", "target_lines")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(
            path, TestEvalRow, name=str(path), id_of=lambda row: f"testeval/{row.task_num}", build=_item))


def _item(row: TestEvalRow) -> Item:
    """Raises SyntaxError or ValueError for a program that is none, and for target lines that are not in it."""
    lines = row.python_solution.splitlines()
    methods = {node.name for node in ast.walk(ast.parse(row.python_solution)) if isinstance(node, ast.FunctionDef)}
    if row.func_name not in methods:
        raise ValueError(f"func_name: expected a function of its program, found {row.func_name!r}")
    if wrong := [line for line in row.target_lines if not 1 <= line <= len(lines)]:
        raise ValueError(f"target_lines: expected lines from 1 to {len(lines)}, found {wrong[0]}")
    if not row.target_lines:
        raise ValueError("target_lines: expected at least one, found none")
    told = {"target_lines": sorted(set(row.target_lines)), "answer": ANSWER, "reward_file": _REWARD}
    suite = ScriptSuite(
        files={"run.py": Path(__file__).with_name("testeval_runner.py").read_bytes(),
               "suite.json": json.dumps(told).encode(), "solution.py": row.python_solution.encode()},
        argv=("python3", "-B", f"{_FOLDER}/run.py"), folder=_FOLDER, root="/work", workdir="/work",
        artifacts=(f"/work/{ANSWER}",), reward_files=(_REWARD,), required=("passes", "covers"), wall_seconds=60.0,
    )
    return Item.sealed(
        Exam(hidden=suite, null=({ANSWER: b""}, {ANSWER: b"def test_nothing():\n    pass\n"})),
        files={"solution.py": row.python_solution.encode()}, id=f"testeval/{row.task_num}",
        instructions=_instructions(row, lines), entry=Entry(path=ANSWER), grading=Grading.ON_SUBMIT,
        tags=("python", "test-writing", f"difficulty-{row.difficulty}"),
    )


def _instructions(row: TestEvalRow, lines: list[str]) -> str:
    wanted = ", ".join(map(str, sorted(set(row.target_lines))))
    numbered = "\n".join(f"{number:3}  {line}" for number, line in enumerate(lines, start=1))
    return (
        f"Write tests for `Solution.{row.func_name}` of `solution.py` as plain functions `test_*` in `{ANSWER}` "
        f"(`from solution import Solution`). Each must pass on the program as it is, and together they must make these "
        f"lines run: {wanted}.\n\nWhat the program does:\n\n{row.description.strip()}\n\n```\n{numbered}\n```\n"
    )
