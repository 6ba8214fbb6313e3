"""MBPP as published: a sentence, a program, and a list of asserts.

Read from `mbpp.jsonl` with rows of task_id, text, code, test_list, test_setup_code and challenge_test_list. The first
assert is shown to the policy, because the sentence alone does not say the function's name or the order of its
arguments; all asserts are hidden tests; the challenge asserts are the reserve.
Austin et al. 2021, https://arxiv.org/abs/2108.07732.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.formats.testfile import as_test_file, definitions, loaded, parsed, stored, undefined
from quintain.tasks.taskset import Taskset
from quintain.types import Entry


class MbppRow(msgspec.Struct, frozen=True, kw_only=True):
    task_id: int
    text: str
    code: str
    test_list: list[str]
    test_setup_code: str = ""
    challenge_test_list: list[str] = []


class MbppFormat:
    """Rows of text, code and asserts; read only. Ids are `mbpp/NUMBER`."""

    name = "mbpp"
    about = "JSONL rows with task_id, text, code, test_list, test_setup_code, challenge_test_list"
    sets = (
        PublicSet(
            name="mbpp", files=("mbpp/mbpp.jsonl", "mbpp.jsonl"),
            source="mbpp/mbpp.jsonl of https://github.com/google-research/google-research (CC-BY-4.0)",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "task_id", "text", "code", "test_list")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, MbppRow, name=str(path), id_of=lambda row: f"mbpp/{row.task_id}", build=_item))


def _item(row: MbppRow) -> Item:
    """Raises SyntaxError or ValueError for a row whose parts do not fit together."""
    answer = row.code.replace("\r\n", "\n").strip() + "\n"
    code = parsed(answer)
    setup = parsed(row.test_setup_code.replace("\r\n", "\n")).body
    asserts = _asserts(row.test_list)
    if not asserts:
        raise ValueError("expected at least one assert in test_list, found none")
    entry = _entry(asserts, code)
    challenge = _asserts(row.challenge_test_list)
    classes = [name for name in _from_candidate([*setup, *asserts], code) if name != entry]
    return Item.sealed(
        Exam(
            hidden=_suite("test_hidden.py", asserts, setup=setup, code=code),
            visible=_suite("test_examples.py", asserts[:1], setup=setup, code=code),
            reserve=_suite("test_reserve.py", challenge, setup=setup, code=code) if challenge else None,
            oracle={"solution.py": answer.encode()},
            null=({"solution.py": f"def {entry}(*arguments):\n    pass\n".encode()}, {"solution.py": b""}),
        ),
        id=f"mbpp/{row.task_id}", instructions=_instructions(row, entry, classes, setup, code),
        entry=Entry(path="solution.py", name=entry), tags=("python", "function"),
    )


def _asserts(lines: Sequence[str]) -> list[ast.stmt]:
    asserts = [statement for line in lines for statement in parsed(line.strip()).body]
    if not all(isinstance(statement, ast.Assert) for statement in asserts):
        raise ValueError("expected asserts only in its lists of tests")
    return asserts


def _entry(asserts: Sequence[ast.stmt], code: ast.Module) -> str:
    called = [
        node.func.id for statement in asserts for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in definitions(code)
    ]
    functions = [name for name in called if isinstance(definitions(code)[name], ast.FunctionDef)]
    if not functions:
        raise ValueError("expected asserts that call a function of its code, found none")
    return functions[0]


def _from_candidate(statements: Sequence[ast.stmt], code: ast.Module) -> list[str]:
    return sorted((loaded(statements) & definitions(code).keys()) - stored(statements))


def _prelude(statements: Sequence[ast.stmt], code: ast.Module) -> list[ast.stmt]:
    needed = loaded(statements)
    return [s for s in code.body if isinstance(s, ast.Import | ast.ImportFrom) and stored(s) & needed]


def _suite(file: str, asserts: Sequence[ast.stmt], *, setup: Sequence[ast.stmt], code: ast.Module) -> PythonSuite:
    statements = [*setup, *asserts]
    prelude = _prelude(statements, code)
    names = _from_candidate(statements, code)
    unknown = undefined(statements, {*names, *stored(prelude)})
    if unknown:
        raise ValueError(f"its tests use {', '.join(sorted(unknown))}, which nothing defines")
    tests = [[*setup, statement] for statement in asserts]
    text, functions = as_test_file(tests, imports={"solution": names}, prelude=prelude)
    return PythonSuite(files={file: text}, required=tuple(f"{file}::{function}" for function in functions))


def _instructions(
    row: MbppRow, entry: str, classes: Sequence[str], setup: Sequence[ast.stmt], code: ast.Module
) -> str:
    example = "\n".join(ast.unparse(s) for s in [*_prelude(setup, code), *setup])
    example = (example + "\n" + row.test_list[0].strip()).strip()
    quoted = ", ".join(f"`{name}`" for name in classes)
    extra = f" It must also define {quoted} as the example uses it." if classes else ""
    return (
        f"{row.text.strip()}\n\nWrite the Python module `solution.py`. It must define the function `{entry}`.{extra} "
        f"Your code should satisfy tests such as:\n\n```python\n{example}\n```\n"
    )
