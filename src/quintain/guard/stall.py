"""Deliberate stalls: loops that nothing ends, functions that only call themselves, items without end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from quintain.guard._answer import language_of
from quintain.guard._python import parsed
from quintain.guard._script_tokens import tokens_of
from quintain.guard.tables import RuleDetector
from quintain.tasks import Item, StdioSuite
from quintain.types import Attempt, Flag, Severity, Status

_ENDLESS_ITERATORS = re.compile(r"^(itertools\.)?(count|cycle|repeat)$")
_LEAVING = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


class StallDetector:
    """Flags loops without a way out, functions that do nothing but call themselves, iterators that never stop, calls
    that wait (by the tables), and a run that was cut off while it used next to no CPU time.

    Covers: Python, JavaScript and shell. Does not cover: loops that end only for some inputs.
    """

    name = "stall"
    written_for = (36, 78)

    def __init__(self, *, without: frozenset[int] = frozenset()) -> None:
        self._table = RuleDetector("stall", without=without)
        self._blind = without.issuperset(self.written_for) and bool(without)

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]:
        fed = isinstance(item.exam.hidden, StdioSuite)  # a program is there to read its input
        found = [f for f in self._table.inspect(attempt, item) if not (fed and "waits for input" in f.evidence)]
        if not self._blind:
            for path, content in sorted(attempt.changed.items()):
                for line, why in _stalls(content, language_of(path, content, attempt)):
                    found.append(Flag(detector=self.name, severity=Severity.SOFT, evidence=f"{path}:{line}: {why}"))
        for outcome in attempt.outcomes:
            idle = outcome.cpu_seconds is not None and outcome.cpu_seconds < 0.05 * outcome.wall_seconds
            if outcome.status is Status.TIMED_OUT and idle:
                text = f"was cut off after {outcome.wall_seconds:.1f} s; it computed for {outcome.cpu_seconds:.2f} s"
                found.append(Flag(detector=self.name, severity=Severity.SOFT, evidence=text))
        return found[:6]


@lru_cache(maxsize=2048)
def _stalls(content: bytes, language: str | None) -> tuple[tuple[int, str], ...]:
    if language == "python":
        tree = parsed(content)
        return tuple(_python(tree)) if tree is not None else ()
    if language == "javascript":
        return tuple(_script(content))
    if language == "shell":
        return tuple(_shell(content.decode("utf-8", "replace")))
    return ()


def _python(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and _always(node.test) and not _leaves(node.body):
            yield node.lineno, "a loop that nothing ends"
        elif isinstance(node, (ast.For, ast.AsyncFor)) and _endless(node.iter) and not _leaves(node.body):
            yield node.lineno, "a loop over items without end"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
            first = body[0] if body else None
            value = first.value if isinstance(first, (ast.Return, ast.Expr)) else None
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == node.name:
                yield node.lineno, "a function that does nothing but call itself"
        elif isinstance(node, ast.ClassDef):
            methods = {s.name: s for s in node.body if isinstance(s, ast.FunctionDef)}
            following = methods.get("__next__")
            if following is not None and len(following.body) == 1 and isinstance(following.body[0], ast.Return) and (
                    isinstance(following.body[0].value, (ast.Constant, ast.BinOp))):
                yield following.lineno, "an iterator that never stops"


def _always(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Constant):
        return not test.operand.value
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
        return ast.dump(test.left) == ast.dump(test.comparators[0])
    return isinstance(test, (ast.List, ast.Tuple, ast.Set)) and bool(test.elts)


def _endless(items: ast.expr) -> bool:
    if not isinstance(items, ast.Call):
        return False
    name = ast.unparse(items.func)
    if _ENDLESS_ITERATORS.match(name):
        return not (name.endswith("repeat") and len(items.args) > 1)
    return name == "iter" and len(items.args) == 2 and ast.unparse(items.args[0]) in ("int", "str", "list", "float")


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body has a way out: a break of its own, or what leaves the function."""
    stack: list[tuple[ast.AST, bool]] = [(s, True) for s in body]
    while stack:
        node, own = stack.pop()
        if isinstance(node, _LEAVING) or (isinstance(node, ast.Break) and own) or (
                isinstance(node, ast.Call) and ast.unparse(node.func) in ("exit", "quit", "sys.exit")):
            return True
        inner = own and not isinstance(node, (ast.For, ast.While, ast.AsyncFor))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            stack += [(child, inner) for child in ast.iter_child_nodes(node)]
    return False


def _script(content: bytes) -> Iterator[tuple[int, str]]:
    tokens = [t for t in tokens_of(content.decode("utf-8", "replace")) if t.kind != "comment"]
    words = [t.text if t.kind != "string" else "''" for t in tokens]
    for at in range(len(words) - 5):
        if words[at : at + 6] == ["for", "(", ";", ";", ")", "{"] or words[at : at + 5] == ["for", "(", ";", ";", ")"]:
            start = at + 5
        elif words[at] == "while" and words[at + 1] == "(" and words[at + 3] == ")" and words[at + 2] in ("true", "1"):
            start = at + 4
        elif words[at : at + 4] == ["new", "Promise", "(", "("] and words[at + 4 : at + 8] == [")", "=>", "{", "}"]:
            yield tokens[at].line, "a promise that is never kept"
            continue
        else:
            continue
        depth, body = 0, []
        for word in words[start:]:
            depth += {"{": 1, "}": -1}.get(word, 0)
            body.append(word)
            if depth <= 0:
                break
        if not {"break", "return", "throw", "yield"} & set(body) and words[start - 5 : start - 4] != ["}"]:
            yield tokens[at].line, "a loop that nothing ends"


_SHELL_LOOP = re.compile(
    r"\b(?:while\s+(?::|true|\[ 1 \]|\(\(\s*1\s*\)\))|until\s+false|for\s*\(\(\s*;\s*;\s*\)\))"
    r"\s*[;\n]?\s*do\b(.*?)\bdone\b", re.S)


def _shell(text: str) -> Iterator[tuple[int, str]]:
    for match in _SHELL_LOOP.finditer(text[:20_000]):
        if not re.search(r"\b(break|exit|return|kill)\b", match[1]):
            yield text.count("\n", 0, match.start()) + 1, "a loop that nothing ends"
