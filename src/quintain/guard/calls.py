"""The calls that a suite makes of one function, with plain values: what goes in and what is expected. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from quintain.tasks import PythonSuite, Suite


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`arguments` is the source of a tuple of literals, such as "([1, 2], 3)"; `expected` that of the literal that the
    suite compares with, `None` where it compares in another way."""

    arguments: str
    expected: str | None = None


def calls_of(suite: Suite, name: str) -> tuple[Call, ...]:
    """The calls of `name` (or of what it is bound to, such as `candidate`) whose arguments are literals, each once, in
    the order of the text. None of a suite that is no Python."""
    if not isinstance(suite, PythonSuite):
        return ()
    found: dict[str, Call] = {}
    for path in sorted(suite.files):
        if path.endswith(".py"):
            for call in _in_file(suite.files[path], name):
                known = found.get(call.arguments)
                if known is None or known.expected is None:
                    found[call.arguments] = call
    return tuple(found.values())


def _in_file(content: bytes, name: str) -> Iterator[Call]:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    names = {name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name:
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    expected = {
        id(node.left): _literal(node.comparators[0]) for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            arguments = _arguments(node)
            if arguments is not None:
                yield Call(arguments=arguments, expected=expected.get(id(node)))


def _arguments(node: ast.Call) -> str | None:
    if node.keywords:
        return None
    whole = ast.Tuple(elts=node.args, ctx=ast.Load())
    return _literal(whole)


def _literal(node: ast.expr) -> str | None:
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
