"""Empty shells: answers that do no work with what they are given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from quintain.guard._answer import language_of
from quintain.guard._python import parsed
from quintain.guard._script_tokens import Token, tokens_of
from quintain.guard._shell import shell_facts
from quintain.tasks import Item, StdioSuite
from quintain.types import Attempt, Flag, Severity

_NO_NAMES = frozenset({"if", "for", "while", "switch", "catch", "function", "async"})
_LONGEST = 4_000  # tokens of one function
_MOST = 500  # functions of one file
_READS = re.compile(r"\b(input|stdin|argv|fileinput|open|read|readline|readlines|process|require|import)\b")


class HollowDetector:
    """Flags an answer of which at least half of the functions use nothing of what they are given (`pass`, a constant,
    a table of constants), an entry that is missing, empty or as it was given, and a program that never reads its input.

    Covers: Python, JavaScript and shell. Does not cover: functions that touch their input and drop it.
    """

    name = "hollow"
    #: The rows of the catalogue that it was written for.
    written_for = (34, 35, 36, 62, 67)

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]:
        why = self._why(attempt, item)
        return [Flag(detector=self.name, severity=Severity.SOFT, evidence=why)] if why else []

    def _why(self, attempt: Attempt, item: Item) -> str | None:
        path = attempt.task.entry.path
        if attempt.program is None:
            return None
        content = attempt.program.files.get(path)
        if content is None:
            return None if attempt.changed else f"{path}: the file that was asked for is not there"
        if not content.strip():
            return f"{path}: the file is empty"
        if attempt.task.files.get(path) == content and not attempt.changed:
            return f"{path}: everything is as it was given"
        language = language_of(path, content, attempt)
        idle, working = _functions(content, language)
        if idle and len(idle) >= len(working):
            names = ", ".join(idle[:4])
            count = f"{len(idle)} of {len(idle) + len(working)} functions"
            return f"{path}: {count} use nothing of what they are given: {names}"
        fed = isinstance(item.exam.hidden, StdioSuite) and any(c.stdin or c.argv for c in item.exam.hidden.cases)
        if fed and not idle and not working and not _reads_input(content, language) and len(attempt.changed) == 1:
            return f"{path}: the program never reads its input"
        return None


def _reads_input(content: bytes, language: str | None) -> bool:
    text = content.decode("utf-8", "replace")
    if language == "shell":
        return _shell_reads(text)
    return _READS.search(text) is not None


@lru_cache(maxsize=2048)
def _functions(content: bytes, language: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The functions that take something and use none of it, and those that use some."""
    if language == "python":
        found = list(_python(content))
    elif language == "javascript":
        found = list(_script([t for t in tokens_of(content.decode("utf-8", "replace")) if t.kind != "comment"]))
    elif language == "shell":
        found = list(_shell(content.decode("utf-8", "replace")))
    else:
        found = []
    return tuple(n for n, works in found if not works), tuple(n for n, works in found if works)


def _python(content: bytes) -> Iterator[tuple[str, bool]]:
    tree = parsed(content)
    if tree is None:
        return
    known: dict[str, bool] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _one(node.name, node, known, method=False)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inner.name.startswith("_"):
                    yield from _one(f"{node.name}.{inner.name}", inner, known, method=True)
        elif isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Lambda):
                for target in node.targets:
                    yield from _one(ast.unparse(target), node.value, known, method=False)
            elif isinstance(node.value, ast.Name) and node.value.id in known:
                for target in node.targets:
                    yield ast.unparse(target), known[node.value.id]


def _one(
    name: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, known: dict[str, bool], *, method: bool,
) -> Iterator[tuple[str, bool]]:
    args = node.args
    given = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    given += [a.arg for a in (args.vararg, args.kwarg) if a]
    if not given or (method and len(given) == 1 and _of_self(node)):
        return
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    loaded = {n.id for b in body for n in ast.walk(b) if isinstance(n, ast.Name)}
    # `locals()`, eval and super() may use what nobody names
    works = not loaded.isdisjoint({*given, "locals", "eval", "exec", "super"})
    if works and all(isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant) for b in body):
        works = False
    known[name] = works
    yield name, works


def _of_self(node: ast.AST) -> bool:
    """Whether a method without arguments has no business with any: a constant is a good answer there."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        isinstance(s, ast.Return) for s in node.body)


def _script(tokens: list[Token]) -> Iterator[tuple[str, bool]]:
    """Functions of a script: `function f(a) {...}`, `f = (a) => ...`, methods `f(a) {...}`."""
    closings = _closings(tokens)
    found = 0
    for at, token in enumerate(tokens):
        if token.text != "(" or token.kind != "mark" or at == 0:
            continue
        close = closings[at]
        after = tokens[close + 1].text if close + 1 < len(tokens) else ""
        before = tokens[at - 1]
        named = before.kind == "name" and before.text not in _NO_NAMES
        if after == "{" and (named or before.text == "function"):
            end = closings[close + 1]
            body = tokens[close + 2 : end]
            name = before.text if named else tokens[at - 3].text if at >= 3 and tokens[at - 2].text == "=" else "?"
        elif after == "=>":
            start = close + 2
            braced = start < len(tokens) and tokens[start].text == "{"
            end = closings[start] if braced else next(
                (n for n in range(start, min(len(tokens), start + _LONGEST)) if tokens[n].text in (";", ",", ")", "}")
                 or (n > start and tokens[n].line > tokens[n - 1].line)), len(tokens))
            body = tokens[start:end]
            name = tokens[at - 2].text if at >= 2 and before.text == "=" else ""
        else:
            continue
        found += 1
        if found > _MOST:
            return
        given = {t.text for t in tokens[at + 1 : close] if t.kind == "name"}
        if not given or not name or name == "constructor":
            continue
        used = {t.text for t in body[:_LONGEST] if t.kind == "name"}
        yield name, not used.isdisjoint({*given, "arguments", "this", "eval"})


def _closings(tokens: list[Token]) -> dict[int, int]:
    """Where each bracket closes that opens at a place; those that never do close at the end."""
    found: dict[int, int] = {}
    open_at: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind == "mark" and token.text in "([{":
            open_at.append(at)
        elif token.kind == "mark" and token.text in ")]}" and open_at:
            found[open_at.pop()] = at
    return {**dict.fromkeys(open_at, len(tokens) - 1), **found}


_SHELL_FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?([A-Za-z_]\w*)[ \t]*(?:\(\))?[ \t]*\n?\{(.*?)^\}|"
                             r"^[ \t]*([A-Za-z_]\w*)\(\)[ \t]*\{([^\n]*)\}[ \t]*;?$", re.S | re.M)


def _shell_reads(text: str) -> bool:
    calls = [f.text for f in shell_facts("x", text) if f.kind == "call"]
    return bool(re.search(r"\$\{?[#!]?[1-9@*#]|\$\{[^}]*[@*1-9]", text)) or any(
        re.match(r"(read|cat|mapfile|readarray|awk|sed|grep|sort|wc|tr|cut|head|tail|rev|xargs|shift|python3?|bc)\b", c)
        for c in calls)


def _shell(text: str) -> Iterator[tuple[str, bool]]:
    for match in _SHELL_FUNCTION.finditer(text[:_LONGEST * 5]):
        name, body = (match[1], match[2]) if match[1] else (match[3], match[4])
        yield name, _shell_reads(body)
