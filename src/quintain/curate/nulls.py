"""Answers that must not be paid: nothing, what was given, empty shells, constants, sources deleted. Pure.

Covers: Python functions and classes by the author's own signatures, programs that print, scripts that do nothing, and
single values. For other languages only files as given, empty and missing.
Does not cover: answers that are wrong in an interesting way; those are the mutants' (`checks.strength`).
"""

from __future__ import annotations

import ast
from collections import Counter

import msgspec

from quintain.curate.shape import parsed
from quintain.guard import calls_of
from quintain.tasks import IN_A_SHELL, AnswerSuite, Item, ScriptSuite, StdioSuite

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: One constant for each type that functions return.
_CONSTANTS = ("None", "0", "True", "False", "''", "[]")
_FREQUENT = 2  # of the values that the tests expect, so many are tried as constants too


class Null(msgspec.Struct, frozen=True, kw_only=True):
    """`empty`: it defines nothing at all, so that a test which passes on it tests nothing. `shell`: it defines
    everything and does nothing; a test that passes on all such shells tests nothing either."""

    name: str
    files: dict[str, bytes]
    empty: bool = False
    shell: bool = False


def nulls_of(item: Item) -> list[Null]:
    """Each with another content, the task's own last."""
    entry, hidden = item.task.entry, item.exam.hidden
    found: list[Null] = []
    if isinstance(hidden, AnswerSuite):
        found += [Null(name=f"the answer {text!r}", files={entry.path: text.encode()})
                  for text in ("", "Answer: 0", "Answer: 1", "Answer: none")]
    elif isinstance(hidden, ScriptSuite) and item.task.kind in IN_A_SHELL:
        found += [
            Null(name="a script that does nothing", files={entry.path: b"#!/bin/sh\n"}),
            Null(name="a script that deletes the work folder",
                 files={entry.path: b"#!/bin/sh\nfind . -mindepth 1 -delete 2>/dev/null\nexit 0\n"}),
        ]
    else:
        found += [Null(name="the files as given", files={}, empty=entry.path not in item.task.files),
                  Null(name="an empty file", files={entry.path: b""}, empty=True),
                  Null(name="every given file emptied", files={**dict.fromkeys(item.task.files, b""), entry.path: b""},
                       empty=True)]
        found += _printing(item, hidden) if isinstance(hidden, StdioSuite) else _shells(item)
    found += [Null(name=f"the task's null answer {n}", files=dict(files)) for n, files in enumerate(item.exam.null, 1)]
    kept: dict[tuple[tuple[str, bytes], ...], Null] = {}
    for null in found:
        whole = {**item.task.files, **null.files}
        kept.setdefault(tuple(sorted(whole.items())), null)
    return list(kept.values())


_PRINT = {
    "python": "import sys\nsys.stdout.buffer.write({text!r}.encode('latin-1'))\n",
    "javascript": "process.stdout.write(Buffer.from({text!r}, 'latin1'));\n",
}


def _printing(item: Item, suite: StdioSuite) -> list[Null]:
    """Programs that print what is most often expected, whatever they read."""
    template = _PRINT.get(item.task.entry.language)
    often = Counter(case.stdout for case in suite.cases).most_common(1)
    if template is None or not often:
        return []
    text = often[0][0].decode("latin-1")
    return [Null(name="the output that is most often expected",
                 files={item.task.entry.path: template.format(text=text).encode()})]


def _shells(item: Item) -> list[Null]:
    """The author's definitions with other bodies."""
    source = (item.exam.oracle or {}).get(item.task.entry.path, b"")
    if item.task.entry.language != "python" or parsed(source) is None:
        return []
    values = list(_CONSTANTS)
    if item.task.entry.name is not None:
        calls = calls_of(item.exam.hidden, item.task.entry.name)
        said = Counter(call.expected for call in calls if call.expected is not None)
        values += [value for value, times in said.most_common(_FREQUENT) if value not in values and times < len(calls)]
    found = [Null(name=f"every function returns {value}", files={item.task.entry.path: hollow(source, value)})
             for value in values]
    found = [msgspec.structs.replace(null, shell=null.name.endswith("returns None")) for null in found]
    argument = hollow(source, None)
    raising = hollow(source, RAISE)
    found.append(Null(name="every function raises", files={item.task.entry.path: raising}, shell=True))
    return [*found, Null(name="every function returns its first argument", files={item.task.entry.path: argument})]


#: Stands for a body that raises.
RAISE = "raise NotImplementedError"


def hollow(source: bytes, value: str | None) -> bytes:
    """The source with every function's body replaced by `return VALUE` (None: its first argument; RAISE: it raises).
    What is not in a function stays, but for code that runs: constants, imports and classes."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            if value == RAISE:
                node.body = list(ast.parse(RAISE).body)
                continue
            said = value if value is not None else names[0] if names else "None"
            node.body = [ast.Return(value=ast.parse(said, mode="eval").body)]
            if node.name == "__init__":
                node.body = [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"
