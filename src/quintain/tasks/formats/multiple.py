"""HumanEval in other languages, in the manner of MultiPL-E: a prompt to complete, and assertions that judge it.

Read from a `.jsonl` file whose rows hold name, language (`js` or `sh`), prompt and tests. The published sets have no
reference answers, so these tasks have no oracle. Each assertion becomes a test of its own.
Cassano et al. 2023, https://arxiv.org/abs/2208.08227.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item
from quintain.tasks.foreign import JavaScriptSuite, ShellSuite
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.taskset import Taskset
from quintain.types import Entry

_LANGUAGES = {"js": "javascript", "sh": "shell"}
_ENTRY = {
    "js": re.compile(r"let candidate = ([A-Za-z_$][\w$]*);"),
    "sh": re.compile(r"candidate\(\) \{\n\s*([A-Za-z_]\w*) \"\$@\"\n\}"),
}


class MultipleRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    language: str
    prompt: str
    tests: str


class MultipleFormat:
    """Rows of prompt and tests in JavaScript or bash; read only."""

    name = "multipl-e"
    about = "JSONL rows with name, language (js, sh), prompt, tests"
    sets = tuple(
        PublicSet(
            name=f"multipl-e-{language}", files=(f"multipl_e/humaneval-{language}.jsonl",
                                                 f"humaneval-{language}.jsonl"),
            source=f"humaneval-{language} of the dataset nuprl/MultiPL-E",
        )
        for language in _LANGUAGES
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "name", "language", "prompt", "tests", "stop_tokens")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, MultipleRow, name=str(path), id_of=lambda row: row.name, build=_item))


def _item(row: MultipleRow) -> Item:
    """Raises ValueError for a row in another language, or whose tests are not as this set has them."""
    if row.language not in _LANGUAGES:
        raise ValueError(f"expected a language out of {', '.join(_LANGUAGES)}, found {row.language!r}")
    named = _ENTRY[row.language].search(row.tests)
    if named is None:
        raise ValueError("expected tests that say which function is the candidate, found none")
    path = f"solution.{row.language}"
    hidden = _javascript(row, named[1]) if row.language == "js" else _shell(row, named[1])
    close = "}\n"
    stub = f"{row.prompt.rstrip()}\n{close}".encode()
    return Item.sealed(
        Exam(hidden=hidden, null=({path: stub}, {path: b""})),
        id=row.name, instructions=_instructions(row, named[1], path),
        entry=Entry(path=path, name=named[1], language=_LANGUAGES[row.language]),
        tags=(_LANGUAGES[row.language], "function"),
    )


def _javascript(row: MultipleRow, entry: str) -> JavaScriptSuite:
    checks = _checks(row.tests, "function test() {", "assert.")
    lines = ["const assert = require('node:assert');", f"const {{ {entry} }} = require('./solution');",
             f"const candidate = {entry};"]
    names = [f"assertion {number}" for number in range(1, len(checks) + 1)]
    lines += [f"test('{name}', () => {{ {check} }});" for name, check in zip(names, checks, strict=True)]
    file = "hidden.test.js"
    return JavaScriptSuite(files={file: ("\n".join(lines) + "\n").encode()},
                           required=tuple(f"{file}::{name}" for name in names))


def _shell(row: MultipleRow, entry: str) -> ShellSuite:
    checks = _checks(row.tests, "run_test() {", "[[ ")
    names = [f"test_{number}" for number in range(1, len(checks) + 1)]
    lines = [f'candidate() {{ {entry} "$@"; }}']
    lines += [f"{name}() {{\n{check}\n}}" for name, check in zip(names, checks, strict=True)]
    file = "test_hidden.sh"
    return ShellSuite(files={file: ("\n".join(lines) + "\n").encode()}, entry="solution.sh", functions=(entry,),
                      required=tuple(f"{file}::{name}" for name in names))


def _checks(tests: str, begin: str, word: str) -> list[str]:
    """The assertions inside a function, each with the lines that it spans; a line that begins with `word` opens one."""
    head, found, body = tests.partition(begin)
    if not found:
        raise ValueError(f"expected {begin!r} in the tests, found none")
    checks: list[str] = []
    for line in body.split("\n"):
        if line.startswith("}"):
            break
        text = line.strip() if line.strip().startswith(word) else line
        if text.startswith(word):
            checks.append(text)
        elif checks:
            checks[-1] += f"\n{line}"
    checks = [check for check in checks if "candidate" in check]
    if not checks:
        raise ValueError(f"expected assertions that call the candidate, found none after {head[-60:]!r}")
    return checks


def _instructions(row: MultipleRow, entry: str, path: str) -> str:
    language = _LANGUAGES[row.language]
    return (
        f"Complete the function `{entry}`. Give the whole of `{path}`, with its head.\n\n"
        f"```{language}\n{row.prompt.strip()}\n```\n"
    )
