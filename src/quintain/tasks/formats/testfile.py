"""Plain test files made from the statements of public test sets."""

from __future__ import annotations

import ast
import builtins
import doctest
import warnings
from collections.abc import Iterable, Mapping, Sequence

BUILTINS = frozenset(dir(builtins))


def parsed(text: str | bytes, filename: str = "<published>") -> ast.Module:
    """The module that a text says, without Python's warnings about it (published code has its '\\d's). Raises
    SyntaxError, or ValueError for NUL bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, filename=filename)


def loaded(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that are read anywhere below."""
    return _names(nodes, ast.Load)


def stored(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """The names that are bound anywhere below, by assignment, loop, import or definition."""
    bound = _names(nodes, ast.Store)
    for node in _walk(nodes):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
    return bound


def undefined(statements: Iterable[ast.AST], known: set[str]) -> set[str]:
    """The names that the statements read and that neither they, `known` nor Python define."""
    statements = list(statements)
    arguments = {node.arg for node in _walk(statements) if isinstance(node, ast.arg)}
    return loaded(statements) - stored(statements) - arguments - known - BUILTINS


def _names(nodes: ast.AST | Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in _walk(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _walk(nodes: ast.AST | Iterable[ast.AST]) -> Iterable[ast.AST]:
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        yield from ast.walk(node)


def definitions(code: ast.Module) -> dict[str, ast.stmt]:
    """The statements of a module that define a function or class, by name; the last one of a name counts."""
    return {n.name: n for n in code.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def split_asserts(body: Sequence[ast.stmt], *, candidate: set[str]) -> list[list[ast.stmt]]:
    """The statements of one check as several tests, or as one where a split could change the verdict.

    A unit is an `assert` or a `for` loop. Each becomes a test of its own, preceded by the imports and assignments that
    stood before it. That all tests pass is then the same as that the whole body passes, because it is done only when
    the shared statements neither call the candidate nor hand one object to two units (which the candidate could change
    in between). What cannot fail, such as `assert True, "message"`, is left out: it would be credit for nothing. Holds
    for candidates whose answer does not depend on how often they were called before.
    """
    body = [s for s in body if not _cannot_fail(s)]
    units = [s for s in body if isinstance(s, ast.Assert | ast.For)]
    if not units:
        raise ValueError("no statement of the check can fail: expected at least one assert")
    shared = [s for s in body if s not in units]
    if not all(_may_be_shared(s, candidate) for s in shared) or _hands_on(shared, units):
        return [list(body)]
    return [[*_needed([s for s in shared if s.lineno < unit.lineno], unit), unit] for unit in units]


def _needed(shared: Sequence[ast.stmt], unit: ast.stmt) -> list[ast.stmt]:
    needed, kept = loaded(unit), []
    for statement in reversed(shared):
        if stored(statement) & (needed | {"*"}):
            needed |= loaded(statement)
            kept.append(statement)
    return kept[::-1]


def _cannot_fail(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant | ast.Name)  # a docstring, or a forgotten `print`
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and bool(statement.test.value)
    )


def _may_be_shared(statement: ast.stmt, candidate: set[str]) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    return (
        isinstance(statement, ast.Assign)
        and all(isinstance(target, ast.Name) for target in statement.targets)
        and not loaded(statement) & candidate
    )


def _hands_on(shared: Sequence[ast.stmt], units: Sequence[ast.stmt]) -> bool:
    assigned = stored(s for s in shared if isinstance(s, ast.Assign))
    for unit in units:
        others = loaded(u for u in units if u is not unit)
        if loaded(unit) & assigned & others or stored(unit) & (others | assigned | stored(shared)):
            return True
    return False


def as_test_file(
    tests: Sequence[Sequence[ast.stmt]], *, imports: Mapping[str, Sequence[str]], prelude: Sequence[ast.stmt] = (),
) -> tuple[bytes, tuple[str, ...]]:
    """The text of a test file with one plain function for each test, and the names of the functions.

    `imports` are the names to import from each of the candidate's modules; `prelude` is put after them. A name that a
    collector would take for a test (MBPP has a `test_duplicate`) is imported inside the functions that use it.
    """
    lines = []
    inside: dict[str, ast.stmt] = {}
    for module, wanted in imports.items():
        if outside := [name for name in wanted if not name.lower().startswith("test")]:
            lines.append(f"from {module} import {', '.join(outside)}")
        inside |= {name: ast.parse(f"from {module} import {name}").body[0] for name in wanted if name not in outside}
    lines += [ast.unparse(statement) for statement in prelude]
    width = len(str(len(tests)))
    names = tuple(f"test_{number:0{width}}" for number in range(1, len(tests) + 1))
    for name, body in zip(names, tests, strict=True):
        function = ast.parse(f"def {name}():\n    pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [*(inside[used] for used in sorted(loaded(body) & inside.keys())), *body]
        lines += ["", "", ast.unparse(function)]
    return ("\n".join(lines) + "\n").encode(), names


def doctest_asserts(docstring: str, entry: str) -> list[ast.stmt]:
    """The `>>>` examples of a docstring that call `entry` on literals and show a literal, as asserts."""
    asserts: list[ast.stmt] = []
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:
        return []
    for example in examples:
        try:
            call = _expression(example.source)
            wanted = _expression(example.want)
            ast.literal_eval(wanted)
        except (SyntaxError, ValueError):
            continue
        names = loaded(call)
        if entry in names and names <= {entry} | BUILTINS:
            asserts.append(ast.Assert(test=ast.Compare(left=call, ops=[ast.Eq()], comparators=[wanted]), msg=None))
    return asserts


def _expression(text: str) -> ast.expr:
    match parsed(text.strip()).body:
        case [ast.Expr(value=value)]:
            return value
    raise ValueError(f"expected one expression, found {text!r}")


def collected(path: str, content: bytes) -> list[str]:
    """The ids of the tests that a test file defines, as pytest names them, read without running it.

    Plain `test_*` functions, and `test*` methods of classes named `Test*` or made from something named `*TestCase` or
    from a class of the same file; parametrised functions appear once, without their brackets. What is always skipped
    (`@unittest.skip`, `@pytest.mark.skip`) is no test. Raises SyntaxError.
    """
    module = parsed(content, path)
    classes = {n.name: n for n in module.body if isinstance(n, ast.ClassDef)}
    ids = [f"{path}::{name}" for name in _tests(module.body)]
    for name, node in classes.items():
        if _is_test_class(node, classes) and not _always_skipped(node.decorator_list):
            ids += [f"{path}::{name}::{method}" for method in _test_methods(node, classes)]
    return ids


def _tests(body: Sequence[ast.stmt]) -> list[str]:
    functions = [n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [n.name for n in functions if n.name.startswith("test") and not _always_skipped(n.decorator_list)]


def _always_skipped(decorators: Sequence[ast.expr]) -> bool:
    plain = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in decorators]
    return any(name == "skip" or name.endswith(".skip") for name in plain)


def _parents(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The classes of the same file that a class is made from; a class is never its own ancestor."""
    above = {name: n for name, n in classes.items() if n.lineno < node.lineno}
    return [above[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in above]


def _is_test_class(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    if node.name.startswith("Test") or any(ast.unparse(base).endswith("TestCase") for base in node.bases):
        return True
    return any(_is_test_class(parent, classes) for parent in _parents(node, classes))


def _test_methods(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[str]:
    own = _tests(node.body)
    inherited = [name for parent in _parents(node, classes) for name in _test_methods(parent, classes)]
    return list(dict.fromkeys([*inherited, *own]))
