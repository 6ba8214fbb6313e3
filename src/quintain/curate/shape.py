"""What a task asks its answer to define, read off the author's answer and the tests that import it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from quintain.tasks import Item, PythonSuite

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The names that the tests want: `functions`, and `classes` with their methods. Both empty: nothing is known."""

    functions: tuple[str, ...] = ()
    classes: dict[str, tuple[str, ...]] = {}


def shape_of(item: Item) -> Shape:
    """The public names of the author's entry file that the tests mention; all of them where the tests mention none."""
    tree = parsed((item.exam.oracle or {}).get(item.task.entry.path, b""))
    functions: list[str] = []
    classes: dict[str, tuple[str, ...]] = {}
    for node in tree.body if tree else []:
        if isinstance(node, _FUNCTIONS):
            functions.append(node.name)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = tuple(n.name for n in node.body if isinstance(n, _FUNCTIONS)
                                       and not n.name.startswith("__"))
    wanted = {name for content in tests_of(item).values() for name in names_in(content)}
    if item.task.entry.name:
        wanted.add(item.task.entry.name)
    seen = Shape(functions=tuple(name for name in functions if name in wanted),
                 classes={name: methods for name, methods in classes.items() if name in wanted})
    if seen.functions or seen.classes:
        return seen
    return Shape(functions=tuple(functions) or ((item.task.entry.name,) if item.task.entry.name else ()),
                 classes=classes)


def tests_of(item: Item) -> dict[str, bytes]:
    """The hidden Python test files; none of another kind of suite."""
    suite = item.exam.hidden
    return {p: c for p, c in suite.files.items() if p.endswith(".py")} if isinstance(suite, PythonSuite) else {}


def parsed(content: bytes) -> ast.Module | None:
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def names_in(content: bytes) -> Iterator[str]:
    """Every name that a Python file imports or uses."""
    tree = parsed(content)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
