"""Exercism's JavaScript track: the tests as its own check runs them, `xtest` enabled, examples in place of stubs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from quintain.tasks.exam import Exam, Item
from quintain.tasks.foreign import JavaScriptSuite
from quintain.tasks.formats.javascript import collected_javascript
from quintain.types import Entry

_ENABLED = {b"xtest": b"test", b"xit": b"it", b"xdescribe": b"describe"}
_IMPORT = re.compile(rb"import\s*\{[^}]*\}\s*from\s*'@jest/globals';?")
#: Files of the track's own tooling, no part of an exercise.
_TOOLING = frozenset({
    "LICENSE", "babel.config.js", "eslint.config.mjs", "jest.config.js", "package.json", "pnpm-lock.yaml"})


def enabled(text: bytes) -> bytes:
    """A test file of which no test waits for the one before it: the track marks all but the first `xtest`, and its own
    check runs them all. Skips in other words (`test.skip`) stay."""
    text = _IMPORT.sub(b"", text)  # the runner's words are there without it, and it would name them twice
    return re.sub(rb"\b(xtest|xit|xdescribe)\b(?=\s*\()", lambda match: _ENABLED[match[1]], text)


def javascript_item(
    id: str, files: Mapping[str, bytes], *, solution: tuple[str, ...], test: tuple[str, ...],
    example: tuple[str, ...], editor: tuple[str, ...], pages: list[str],
) -> Item:
    """Raises ValueError for an exercise that lacks a part or whose tests start processes."""
    tests = {path: enabled(files[path]) for path in test}
    for path, content in tests.items():
        if b"child_process" in content:
            raise ValueError(f"{path} starts the answer as a process of its own (child_process), which no stand-in can")
    data = {path: content for path, content in files.items() if _is_data(path, (*solution, *test, *editor))}
    given = {path: files[path] for path in (*solution, *editor)} | data
    oracle = {path: _in_place(files[source]) for path, source in zip(solution, example, strict=True)}
    modules = tuple(path.removesuffix(".js") for path in (*solution, *editor))
    required = [collected_javascript(path, content) for path, content in tests.items()]
    ids = () if None in required else tuple(id for found in required for id in found or ())
    stub = {path: files[path] for path in solution}
    return Item.sealed(
        Exam(hidden=JavaScriptSuite(files=tests | data, modules=modules, required=ids), oracle=oracle,
             null=(stub, dict.fromkeys(stub, b""))),
        files=given, id=id, instructions=_instructions(pages, stub),
        entry=Entry(path=solution[0], language="javascript"), tags=("javascript", "project"),
    )


def _in_place(example: bytes) -> bytes:
    """An example as it stands beside the stubs: its imports are written for the folder below."""
    return re.sub(rb"(from\s+['\"]|require\(['\"])\.\./", rb"\1./", example)


def _is_data(path: str, known: tuple[str, ...]) -> bool:
    return not path.startswith(".") and path not in known and path not in _TOOLING and PurePosixPath(path).suffix != ""


def _instructions(pages: list[str], stub: Mapping[str, bytes]) -> str:
    names = ", ".join(f"`{path}`" for path in stub)
    ask = f"Give the whole of {names}. It starts as this stub, whose names the tests import:"
    shown = [f"`{path}`\n\n```javascript\n{content.decode().strip()}\n```" for path, content in stub.items()]
    return "\n\n".join([*pages, "# What to write", ask, *shown]) + "\n"
