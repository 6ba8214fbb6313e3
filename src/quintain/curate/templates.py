"""Templates of hacks: marks in a hack's files that become the names and bodies which a task asks for.

`@@stub@@`, alone on a line, defines everything that the task asks for, and wrongly. `@@define@@` ... `@@end@@` defines
it with the lines between as every body; `@@name@@` in there is what is being defined. `@@names@@` and `@@ids@@` are
the task's names and test ids as JSON lists, `@@class@@` its class (or first name), `@@test_file@@` its test file.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence

import msgspec

from quintain.types import TaskError

_WORDS = ("stub", "define", "end", "name", "names", "ids", "test_file", "class")
_MARK = re.compile(r"@@(\w+)@@")


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a task asks for. `kind`: functions, class or program."""

    language: str
    kind: str
    names: tuple[str, ...]
    class_name: str = ""
    ids: tuple[str, ...] = ()
    test_file: str = ""


def check_template(file: str, content: bytes) -> None:
    """Raises TaskError, naming file and line, for a mark that is none, or a body that has no end."""
    inside = False
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        for mark in _MARK.findall(line):
            if mark not in _WORDS:
                raise TaskError(f"expected one of {', '.join(f'@@{w}@@' for w in _WORDS)}, found @@{mark}@@",
                                file=file, line=number)
            if (mark == "end") is not inside and mark in ("end", "define"):
                raise TaskError(f"expected @@define@@ and @@end@@ in turn, found @@{mark}@@", file=file, line=number)
            inside = inside if mark not in ("end", "define") else mark == "define"
    if inside:
        raise TaskError("expected @@end@@ after @@define@@, found the end", file=file)


def fill_template(content: bytes, words: Words) -> bytes:
    """The file for one task. Content without marks comes back as it is, whatever its encoding."""
    if not _MARK.search(content.decode("utf-8", "replace")):
        return content
    out: list[str] = []
    body: list[str] | None = None
    for line in content.decode("utf-8").split("\n"):
        mark = line.strip()
        if mark == "@@define@@":
            body = []
        elif mark == "@@end@@" and body is not None:
            out += _define(body, words)
            body = None
        elif mark == "@@stub@@":
            out += _define([_STUB[words.language]], words)
        elif body is not None:
            body.append(line)
        else:
            out.append(line)
    text = "\n".join(out)
    values = {
        "names": json.dumps(list(words.names)), "ids": json.dumps(list(words.ids)), "test_file": words.test_file,
        "class": words.class_name or (words.names[0] if words.names else "main"),
    }
    return _MARK.sub(lambda m: values.get(m[1], m[0]), text).encode()


_STUB = {"python": "return 13", "javascript": "return 13;", "shell": "echo 13"}


def _define(body: Sequence[str], words: Words) -> list[str]:
    """The definitions of everything that is asked for, each with this body."""
    make = {"python": _python, "javascript": _javascript, "shell": _shell}[words.language]
    return make(body, words)


def _named(body: Sequence[str], name: str, indent: str) -> list[str]:
    return [(indent + line if line.strip() else "").replace("@@name@@", name) for line in body]


def _python(body: Sequence[str], words: Words) -> list[str]:
    out: list[str] = []
    if words.kind == "class":
        out += [f"class {words.class_name}:", "    def __init__(self, *args, **kwargs):", "        pass", ""]
        for name in words.names:
            out += [f"    def {name}(self, *args, **kwargs):", *_named(body, name, "        "), ""]
        return out
    for name in words.names or ("main",):
        out += [f"def {name}(*args, **kwargs):", *_named(body, name, "    "), "", ""]
    if words.kind == "program":
        out += ['if __name__ == "__main__":', f"    print({(words.names or ('main',))[0]}())", ""]
    return out


def _javascript(body: Sequence[str], words: Words) -> list[str]:
    out: list[str] = []
    if words.kind == "class":
        out.append(f"class {words.class_name} {{")
        for name in words.names:
            out += [f"  {name}(...args) {{", *_named(body, name, "    "), "  }"]
        return [*out, "}", f"module.exports.{words.class_name} = {words.class_name};"]
    for name in words.names or ("main",):
        out += [f"function {name}(...args) {{", *_named(body, name, "  "), "}"]
    if words.kind == "program":
        return [*out, f"console.log({(words.names or ('main',))[0]}());"]
    return [*out, *(f"module.exports.{name} = {name};" for name in words.names)]


def _shell(body: Sequence[str], words: Words) -> list[str]:
    out: list[str] = []
    for name in words.names or ("main",):
        out += [f"{name}() {{", *_named(body, name, "  "), "}"]
    if words.kind == "program":
        out.append(f'{(words.names or ("main",))[0]} "$@"')
    return out


def test_ids(suite: Mapping[str, bytes]) -> list[str]:
    """The ids of the tests that Python test files define, pytest's way: functions, and methods of classes."""
    found: list[str] = []
    for path, content in suite.items():
        if not path.rpartition("/")[2].startswith("test"):
            continue
        for node in ast.parse(content).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                found.append(f"{path}::{node.name}")
            elif isinstance(node, ast.ClassDef):
                found += [f"{path}::{node.name}::{inner.name}" for inner in node.body
                          if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")]
    return found
