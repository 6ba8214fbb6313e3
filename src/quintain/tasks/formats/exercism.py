"""Exercism's Python and JavaScript tracks: small projects with a stub, a test file and an example solution.

Read from a packed JSONL file whose rows are {task_id, language, files}, `files` being the tree of one exercise (path →
text, or {"b64": ...} for bytes) as in `exercises/practice` of https://github.com/exercism/python and
https://github.com/exercism/javascript (both MIT).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.exercism_javascript import javascript_item
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.formats.testfile import collected
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    b64: str


class ExerciseRow(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    language: str
    files: dict[str, str | Packed]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    solution: tuple[str, ...]
    test: tuple[str, ...]
    example: tuple[str, ...]
    editor: tuple[str, ...] = ()


class ExerciseConfig(msgspec.Struct, frozen=True, kw_only=True):
    files: Parts


#: The pages that make the instructions, in their order.
PAGES = (".docs/introduction.md", ".docs/instructions.md", ".docs/instructions.append.md")
#: Example solutions that take seconds of CPU (3.4 to 4.2, all subsets of 22 numbers) or that many calls (paasio's tests
#: talk to it byte by byte, 3.5 s): late under the usual limits wherever anything else runs.
_SLOW_ONES = frozenset({"killer-sudoku-helper", "paasio"})
_SLOW = Scopes(command=Limits(wall_seconds=60.0, cpu_seconds=15.0))


class ExercismFormat:
    """Rows of whole exercises; read only. Ids are those of the rows (`exercism/python/accumulate`)."""

    name = "exercism"
    about = "JSONL rows with task_id, language, files (one packed exercise in Python or JavaScript each)"
    sets = (
        PublicSet(
            name="exercism-python",
            files=("exercism/python_practice.jsonl.gz", "python_practice.jsonl.gz", "python_practice.jsonl"),
            source="exercises/practice of https://github.com/exercism/python (MIT), one {task_id, language, files} row "
            "for each exercise",
        ),
        PublicSet(
            name="exercism-javascript",
            files=(
                "exercism/javascript_practice.jsonl.gz", "javascript_practice.jsonl.gz", "javascript_practice.jsonl",
            ),
            source="exercises/practice of https://github.com/exercism/javascript (MIT), one {task_id, language, files} "
            "row for each exercise",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "task_id", "language", "files")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, ExerciseRow, name=str(path), id_of=lambda row: row.task_id, build=_item))


def _item(row: ExerciseRow) -> Item:
    """Raises ValueError for an exercise in another language, or one that lacks a part."""
    if row.language not in ("python", "javascript"):
        raise ValueError(f"expected language 'python' or 'javascript', found {row.language!r}")
    files = {path: _bytes(content) for path, content in row.files.items()}
    config = ".meta/config.json"
    parts = msgspec.json.decode(_part(files, config), type=ExerciseConfig).files
    if not (parts.solution and parts.test and len(parts.solution) == len(parts.example)):
        raise ValueError(f"expected test files and as many example as solution files in {config}, found {parts}")
    if row.language == "javascript":
        for path in (*parts.solution, *parts.test, *parts.example, *parts.editor):
            _part(files, path)
        return javascript_item(row.task_id, files, solution=parts.solution, test=parts.test, example=parts.example,
                               editor=parts.editor, pages=_pages(files))
    stub = {path: _part(files, path) for path in parts.solution}
    tests = {path: _part(files, path) for path in parts.test}
    # Whatever else lies beside them (test_utils.py) is there for the tests.
    tests |= {p: c for p, c in files.items() if not p.startswith(".") and p not in stub and p not in parts.editor}
    oracle = {path: _part(files, example) for path, example in zip(parts.solution, parts.example, strict=True)}
    entry = parts.solution[0]
    modules = tuple(path.removesuffix(".py").replace("/", ".") for path in parts.solution)
    return Item.sealed(
        Exam(
            hidden=PythonSuite(files=tests, modules=modules, required=_required(tests)),
            oracle=oracle, null=(stub, dict.fromkeys(stub, b"")),
        ),
        files=stub, id=row.task_id, instructions=_instructions(files, stub),
        entry=Entry(path=entry), tags=("python", "project"),
        limits=_SLOW if row.task_id.rpartition("/")[2] in _SLOW_ONES else Scopes(),
    )


def _bytes(content: str | Packed) -> bytes:
    return content.encode() if isinstance(content, str) else base64.b64decode(content.b64, validate=True)


def _part(files: Mapping[str, bytes], path: str) -> bytes:
    if path not in files:
        raise ValueError(f"expected a file {path}, found {len(files)} others")
    return files[path]


def _required(tests: Mapping[str, bytes]) -> tuple[str, ...]:
    ids = [id for p, c in tests.items() if PurePosixPath(p).name.endswith("_test.py") for id in collected(p, c)]
    if not ids:
        raise ValueError(f"expected a test file named *_test.py with a test in it, found {sorted(tests)}")
    return tuple(ids)


def _pages(files: Mapping[str, bytes]) -> list[str]:
    return [files[page].decode().strip() for page in PAGES if page in files]


def _instructions(files: Mapping[str, bytes], stub: Mapping[str, bytes]) -> str:
    shown = [_shown(path, content) for path, content in stub.items()]
    return "\n\n".join([*_pages(files), "# What to write", _ask(list(stub)), *shown]) + "\n"


def _ask(paths: Sequence[str]) -> str:
    names = ", ".join(f"`{path}`" for path in paths)
    return f"Give the whole of {names}. It starts as this stub, whose names the tests import:"


def _shown(path: str, content: bytes) -> str:
    return f"`{path}`\n\n```python\n{content.decode().strip()}\n```"
