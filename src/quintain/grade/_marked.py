"""A suite whose tests say which of them begins, to whoever follows the candidate on its own side."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import msgspec

from quintain.tasks import PythonSuite

#: The module of the candidate's side that is told.
TRACER = "quintain_tracer"
_SET_UP = frozenset({"setUp", "setUpClass", "setUpModule", "asyncSetUp", "setup_method", "setup_class", "setup_module",
                     "setup_function", "setup"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def marked(suite: PythonSuite) -> tuple[PythonSuite, tuple[str, ...]]:
    """The suite with a call at the start of each test, and the ids of the tests by the number that is told.

    The cases of a parametrised test are one test here. What a set-up or a fixture does counts for the test after it.
    A file that does not compile stays as it is.
    """
    names: list[str] = []
    files = {
        path: _marked_file(path, content, names) if path.endswith(".py") else content
        for path, content in suite.files.items()
    }
    return msgspec.structs.replace(suite, files=files, modules=(*suite.modules, TRACER)), tuple(names)


def _marked_file(path: str, content: bytes, names: list[str]) -> bytes:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return content
    for scope, function in _functions(tree):
        if function.name.startswith("test"):
            names.append("::".join([path, *scope, function.name]))
            _insert(function, f"{TRACER}.mark({len(names) - 1})")
        elif function.name in _SET_UP or _is_fixture(function):
            _insert(function, f"{TRACER}.mark(None)")
    begin = ast.parse(f"import {TRACER}\n{TRACER}.begin()").body
    at = _after_prologue(tree.body)
    tree.body[at:at] = begin
    return ast.unparse(ast.fix_missing_locations(tree)).encode()


def _functions(tree: ast.Module) -> Iterable[tuple[list[str], _Function]]:
    for node in tree.body:
        if isinstance(node, _Function):
            yield [], node
        elif isinstance(node, ast.ClassDef):
            yield from (([node.name], inner) for inner in node.body if isinstance(inner, _Function))


def _insert(function: _Function, call: str) -> None:
    statement = ast.parse(f"import {TRACER}\n{call}").body
    at = 1 if ast.get_docstring(function, clean=False) is not None else 0
    function.body[at:at] = statement


def _after_prologue(body: list[ast.stmt]) -> int:
    for at, node in enumerate(body):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return at
    return len(body)


def _is_fixture(function: _Function) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)
