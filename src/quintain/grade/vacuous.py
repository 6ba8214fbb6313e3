"""Tests that test nothing, seen in their text: they pass whatever the answer does.

Covers: Python test files; a definition that a later one of the same name replaces, a value that is returned instead of
asserted, an assertion on a tuple or on a constant, and a test that neither asserts nor calls anything that could.
Does not cover: assertions that hold for every answer by their meaning; only a wrong answer that must fail shows those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from quintain.types import Fault, FaultKind, Owner

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def vacuous_tests(path: str, content: bytes) -> tuple[Fault, ...]:
    """The task's faults in one test file, in the order of its lines; none for a file that does not compile."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = [*_shadowed(path, tree.body)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found += _shadowed(path, node.body, f"{node.name}.")
        if isinstance(node, _FUNCTIONS) and node.name.startswith("test"):
            found += _empty(path, node)
    return tuple(sorted(found, key=lambda fault: fault.line or 0))


def _shadowed(path: str, body: list[ast.stmt], owner: str = "") -> Iterator[Fault]:
    last: dict[str, int] = {}
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and node.name.lower().startswith("test"):
            if node.name in last:
                yield _fault(path, last[node.name], f"shadowed: {owner}{node.name} is defined again on line "
                                                    f"{node.lineno}, so that this one never runs")
            last[node.name] = node.lineno


def _empty(path: str, test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Fault]:
    inner = [node for statement in test.body for node in _own_nodes(statement)]
    for node in inner:
        if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield _fault(path, node.lineno, f"vacuous: {test.name} returns a value instead of asserting it")
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
            yield _fault(path, node.lineno, f"vacuous: {test.name} asserts a tuple, which is always true")
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant) and node.test.value:
            yield _fault(path, node.lineno, f"vacuous: {test.name} asserts a constant")
    if not any(isinstance(node, ast.Assert | ast.Call | ast.Raise | ast.With | ast.AsyncWith) for node in inner):
        yield _fault(path, test.lineno, f"vacuous: {test.name} asserts nothing and calls nothing")


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of functions defined in it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))


def _fault(path: str, line: int, message: str) -> Fault:
    return Fault(owner=Owner.TASK, kind=FaultKind.TASK_INVALID, message=message, file=path, line=line)
