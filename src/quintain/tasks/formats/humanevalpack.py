"""Repair tasks in the manner of HumanEvalPack: a program with one bug, examples to see, and a hidden test.

Read from a `.jsonl` or `.jsonl.gz` file whose rows hold task_id (`Python/0`, `JavaScript/0`), prompt, declaration,
canonical_solution, buggy_solution, test, example_test and entry_point. Rows in Go, C++, Rust and Java are refused:
their tests are compiled into one program with the answer, and an answer that shares a process with its tests decides
them.
Muennighoff et al. 2023, https://arxiv.org/abs/2308.07124.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.foreign import JavaScriptSuite
from quintain.tasks.formats.humaneval import check_suite
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.taskset import Taskset
from quintain.types import Entry

#: Modules that node itself has, of those that answers use; another one is a package, and gives the tag `needs:NAME`.
_NODE_MODULES = frozenset({"assert", "buffer", "crypto", "events", "fs", "os", "path", "util", "url"})


class PackRow(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    prompt: str
    declaration: str
    canonical_solution: str
    buggy_solution: str
    test: str
    example_test: str
    entry_point: str
    bug_type: str = ""


def _set(language: str, file: str) -> PublicSet:
    return PublicSet(
        name=f"humanevalpack-{language}", files=(f"humanevalpack/{file}", file.replace(".jsonl.gz", "-pack.jsonl.gz")),
        source=f"evaluation/create/humaneval-x/data/{file.split('.')[0]}/data/humanevalpack.jsonl of "
        "https://github.com/bigcode-project/octopack (MIT), or the dataset bigcode/humanevalpack",
    )


class HumanEvalPackFormat:
    """Rows of a buggy program, its repair and its tests; read only."""

    name = "humanevalpack"
    about = "JSONL rows with task_id, prompt, declaration, canonical_solution, buggy_solution, test, example_test"
    sets = (_set("python", "python.jsonl.gz"), _set("javascript", "js.jsonl.gz"))

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "task_id", "declaration", "canonical_solution", "buggy_solution", "example_test")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, PackRow, name=str(path), id_of=lambda row: row.task_id, build=_item))


def _item(row: PackRow) -> Item:
    """Raises SyntaxError or ValueError for a row whose parts do not fit together, or in a language not judged here."""
    language = row.task_id.partition("/")[0]
    if language == "Python":
        return _python(row)
    if language == "JavaScript":
        return _javascript(row)
    raise ValueError(
        f"expected a task in Python or JavaScript, found {language}: its tests are compiled into one program with the "
        "answer, and an answer that shares a process with its tests decides them")


def _python(row: PackRow) -> Item:
    whole, buggy = row.prompt + row.canonical_solution, row.prompt + row.buggy_solution
    hidden = check_suite(row.prompt, whole, row.test, row.entry_point, file="test_hidden.py")
    visible: PythonSuite | None
    try:
        visible = check_suite(row.prompt, whole, row.example_test, row.entry_point, file="test_examples.py")
    except (SyntaxError, ValueError):  # a few have no example that can fail, or a broken one
        visible = None
    return _sealed(row, "python", "solution.py", hidden, visible, whole.encode(), buggy.encode())


def _javascript(row: PackRow) -> Item:
    path = "solution.js"
    declared = re.findall(r"\b(?:const|function)\s+([A-Za-z_$][\w$]*)", row.declaration)
    if not declared:
        raise ValueError(f"expected a declaration of {row.entry_point}, found {row.declaration!r}")
    row = msgspec.structs.replace(row, entry_point=declared[-1])  # one row's entry_point is spelt differently
    whole, buggy = (f"{row.prompt}{body}".encode() for body in (row.canonical_solution, row.buggy_solution))
    hidden = _script(row, row.test, "test_hidden.js")
    visible = _script(row, row.example_test, "test_examples.js") if "console.assert" in row.example_test else None
    return _sealed(row, "javascript", path, hidden, visible, whole, buggy)


def _script(row: PackRow, test: str, file: str) -> JavaScriptSuite:
    """The test as a script. Functions that stand whole before the one to repair are the tests' own copies, so that the
    candidate cannot change them."""
    if "console.assert" not in test:
        raise ValueError("expected a test with console.assert, found none")
    given = row.prompt[: row.prompt.rfind("/*")]
    own = given if re.search(r"\b(?:const|function)\b[^;]*\{.*\}", given, re.DOTALL) else ""
    wanted = f"const {{ {row.entry_point} }} = require('./solution');\n"
    return JavaScriptSuite(files={file: f"{wanted}{own}\n{test.strip()}\n".encode()}, required=(f"{file}::script",))


def _sealed(
    row: PackRow, language: str, path: str, hidden: PythonSuite | JavaScriptSuite,
    visible: PythonSuite | JavaScriptSuite | None, whole: bytes, buggy: bytes,
) -> Item:
    ask = (
        f"The function `{row.entry_point}` in `{path}` has a bug. Repair it, so that it does what its documentation "
        f"says. Give the whole corrected `{path}`.\n\n```{language}\n{buggy.decode().strip()}\n```\n"
    )
    needs = [f"needs:{name}" for name in re.findall(r"\brequire\('([^./'][^']*)'\)", whole.decode())
             if language == "javascript" and name.removeprefix("node:") not in _NODE_MODULES]
    bug = (row.bug_type.replace(" ", "-"),) if row.bug_type else ()
    return Item.sealed(
        Exam(hidden=hidden, visible=visible, oracle={path: whole}, null=({path: buggy}, {path: b""})),
        files={path: buggy}, id=row.task_id, instructions=ask,
        entry=Entry(path=path, name=row.entry_point, language=language), tags=(language, "repair", *bug, *needs),
    )
