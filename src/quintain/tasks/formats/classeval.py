"""Class tasks in the manner of ClassEval: a skeleton with documented methods, and unittest classes that judge it.

Read from a `.json` or `.json.gz` file with one list of objects: task_id, skeleton, test, solution_code,
import_statement, class_name, test_classes. Du et al. 2023, https://arxiv.org/abs/2308.01861.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.rows import unpack
from quintain.tasks.formats.testfile import collected, loaded, parsed
from quintain.tasks.names import check_id
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, TaskError

#: Packages outside the standard library that an image may lack; a task that uses one carries the tag `needs:NAME`.
_STANDARD = sys.stdlib_module_names


#: A test that uses one of these may leave files for the answer, or look for its files: tags it `shares-files`, for a
#: verifier whose two sides have no folder in common.
_FILES = frozenset({"open", "sqlite3", "zipfile", "tempfile", "shutil", "os"})


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    skeleton: str
    test: str
    solution_code: str
    class_name: str
    test_classes: list[str]
    import_statement: list[str] = []


class ClassEvalFormat:
    """One list of classes to write; read only."""

    name = "classeval"
    about = "a JSON list of objects with task_id, skeleton, test, solution_code, class_name, test_classes"
    sets = (
        PublicSet(
            name="classeval", files=("classeval/ClassEval_data.json.gz", "ClassEval_data.json.gz",
                                     "ClassEval_data.json"),
            source="data/ClassEval_data.json of https://github.com/FudanSELab/ClassEval (MIT)",
        ),
    )

    def recognises(self, path: Path) -> bool:
        if not path.is_file() or not path.name.endswith((".json", ".json.gz")):
            return False
        try:
            rows = msgspec.json.decode(_content(path), type=list[dict[str, msgspec.Raw]])
        except (OSError, TaskError, msgspec.MsgspecError):
            return False
        return bool(rows) and {"task_id", "skeleton", "solution_code", "test_classes"} <= rows[0].keys()

    def read(self, path: Path) -> Taskset:
        return Taskset(_ClassSource(path))


def _content(path: Path) -> bytes:
    return unpack(path) if path.suffix == ".gz" else path.read_bytes()


class _ClassSource:
    """The tasks of one file, which is read whole at the first question."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    @cached_property
    def _rows(self) -> dict[str, ClassRow]:
        try:
            rows = msgspec.json.decode(_content(self._path), type=list[ClassRow])
        except msgspec.MsgspecError as error:
            raise TaskError(f"the file does not fit: {error}", file=self.name) from error
        found: dict[str, ClassRow] = {}
        for row in rows:
            if check_id(row.task_id, file=self.name) in found:
                raise TaskError(f"task id {row.task_id!r} is used twice", file=self.name)
            found[row.task_id] = row
        return found

    def ids(self) -> Sequence[str]:
        return tuple(self._rows)

    def item(self, id: str) -> Item:
        try:
            return _item(self._rows[id])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TaskError(f"task {id!r} cannot be made: {error}", file=self.name) from error


def _item(row: ClassRow) -> Item:
    """Raises SyntaxError or ValueError for a row whose parts do not fit together."""
    imports = "\n".join(row.import_statement)
    answer = f"{imports}\n{row.solution_code}\n" if imports else f"{row.solution_code}\n"
    tests = f"{imports}\nfrom solution import {row.class_name}\n{row.test}\n".encode()
    required = tuple(collected("test_hidden.py", tests))
    if not required:
        raise ValueError("expected test classes with tests, found none")
    needs = sorted(_outside(parsed(answer)) | _outside(parsed(tests)) - {"solution"})
    used = loaded(parsed(tests)) | {name for name in sys.stdlib_module_names if f"import {name}\n" in row.test}
    skeleton = f"{row.skeleton.strip()}\n".encode()
    return Item.sealed(
        Exam(hidden=PythonSuite(files={"test_hidden.py": tests}, required=required),
             oracle={"solution.py": answer.encode()}, null=({"solution.py": skeleton}, {"solution.py": b""})),
        id=row.task_id, instructions=_instructions(row),
        entry=Entry(path="solution.py", name=row.class_name),
        tags=("python", "class", *(f"needs:{name}" for name in needs), *(("shares-files",) if _FILES & used else ())),
    )


def _outside(code: ast.Module) -> set[str]:
    """The top-level packages that a module imports from outside the standard library."""
    found: set[str] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - _STANDARD


def _instructions(row: ClassRow) -> str:
    return (
        f"Write the class `{row.class_name}`: complete the methods of this skeleton, so that each does what its "
        f"documentation says.\n\n```python\n{row.skeleton.strip()}\n```\n"
    )
