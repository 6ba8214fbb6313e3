"""The programs that run inside the two sandboxes, each joined into one piece and compiled beforehand.

A program travels on the standard input of `python3 -c BOOT`: compiled code for an interpreter with the house's own
bytecode, and the source for any other. Once it is read, standard input is at its end, as a program that is given none
expects.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from quintain.grade.inside.rehearsal import TESTS

#: Reads the program and its settings from standard input and starts it.
BOOT = """
import sys, marshal, _frozen_importlib_external as f
m, c, s, a = marshal.loads(sys.stdin.buffer.read())
g = {"__name__": "__quintain__"}
exec(marshal.loads(c) if m == f.MAGIC_NUMBER else s, g)
g[a[0]](*a[1:])
"""

#: The same where a warm interpreter has loaded both sides already (see `prelude`).
BOOT_WARM = """
import sys, marshal, quintain_warm
d, a = marshal.loads(sys.stdin.buffer.read())
quintain_warm.SIDES[d][a[0]](*a[1:])
"""

#: What to start the interpreter with: no site, nothing of the working directory, no bytecode files, no user's packages.
FLAGS = ("-s", "-P", "-S", "-B")

_SHARED = ("wire", "values", "standin", "peer", "candidate")
_PARTS = {"candidate": _SHARED, "verifier": (*_SHARED, "verifier", "watch", "runner"), "sealed": ("sealed",),
          "rehearsal": ("rehearsal",)}


@cache
def _code(side: str) -> bytes:
    """One side compiled. Its text is not made for that: it takes ten times as long, at each start of a run."""
    return marshal.dumps(compile(_tree(_PARTS[side]), f"<quintain {side}>", "exec", dont_inherit=True, optimize=2))


@cache
def _program(side: str) -> tuple[bytes, str]:
    """Compiled code and source of one side."""
    return _code(side), joined(_PARTS[side])


@cache
def joined(parts: tuple[str, ...]) -> str:
    """The source of one program out of parts of `inside`, in an order in which each needs only earlier ones."""
    return ast.unparse(_tree(parts))


def _tree(parts: tuple[str, ...]) -> ast.Module:
    body: list[ast.stmt] = [ast.ImportFrom(
        module="__future__", names=[ast.alias(name="annotations", lineno=1, col_offset=0)], level=0, lineno=1,
        col_offset=0)]
    for part in parts:
        text = resources.files("quintain.grade.inside").joinpath(f"{part}.py").read_text("utf-8")
        body += [s for s in ast.parse(text).body if not _is_inner_import(s) and not _is_text(s)]
    return ast.Module(body=body, type_ignores=[])


def _is_inner_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or (statement.module or "").startswith("quintain.")
    )


def _is_text(statement: ast.stmt) -> bool:
    """The docstring of a module is no statement of the joined program."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def stdin_for(side: str, *call: Any) -> bytes:
    """The standard input that makes `python3 -c BOOT` run one side: the function's name, then plain arguments."""
    code, source = _program(side)
    return marshal.dumps((importlib.util.MAGIC_NUMBER, code, source, call))


def warm_stdin_for(side: str, *call: Any) -> bytes:
    """The standard input that makes BOOT_WARM run one side."""
    return marshal.dumps((side, call))


def prelude(sides: Sequence[str] = ("candidate", "verifier")) -> str:
    """What a warm interpreter runs beforehand: these sides loaded, as `quintain_warm.SIDES`, and the two of the oracle
    rehearsed. It holds no secret; a candidate that looks at it sees what anybody can read in this package."""
    codes = {side: _code(side) for side in sides}
    text = (
        "import marshal\nSIDES = {}\n"
        f"for side, code in {codes!r}.items():\n"
        "    SIDES[side] = {'__name__': '__quintain__'}\n"
        "    exec(marshal.loads(code), SIDES[side])\n"
    )
    if {"candidate", "verifier"} <= set(sides):
        tests = compiled_test("test_rehearsed.py", TESTS)
        text += (
            f"play = {{}}\nexec(marshal.loads({_code('rehearsal')!r}), play)\n"
            f"play['rehearse'](SIDES['verifier'], SIDES['candidate'], {tests!r})\ndel play\n"
        )
    return text


#: Under which folder the compiled tests say that they lie.
PLACE = "<tests>"


@lru_cache(maxsize=512)
def compiled_test(path: str, content: bytes) -> bytes | None:
    """A trusted test file as compiled code whose failed comparisons tell both values; None if it does not compile."""
    try:
        tree = ast.parse(content, filename=f"{PLACE}/{path}")
        tree = _TellValues(content).visit(tree)
        return marshal.dumps(compile(tree, f"{PLACE}/{path}", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return None


_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}


class _TellValues(ast.NodeTransformer):
    """`assert a == b` → the same, with a message that holds both values; each side is evaluated once, in order."""

    def __init__(self, content: bytes) -> None:
        self._lines = content.splitlines()

    def _said(self, node: ast.Assert) -> str:
        """The assertion as it stands in the file, on one line, cut at 300 characters."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset
        lines = self._lines[node.lineno - 1 : end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][node.col_offset :]
        return " ".join(line.decode("utf-8", "replace").strip() for line in lines)[:300]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = node.test
        if node.msg is not None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return node
        # each new node is given its place here: to look for those without one costs more than all the rest
        at: dict[str, Any] = {"lineno": node.lineno, "col_offset": node.col_offset, "end_lineno": node.end_lineno,
              "end_col_offset": node.end_col_offset}
        names = ("__quintain_left__", "__quintain_right__")
        left, right = (ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store(), **at), value=value, **at)
                       for name, value in zip(names, (test.left, test.comparators[0]), strict=True))
        shown = ast.Call(
            func=ast.Name(id="__quintain_show__", ctx=ast.Load(), **at), keywords=[], **at,
            args=[ast.Constant(value=self._said(node), **at), ast.Name(id=names[0], ctx=ast.Load(), **at),
                  ast.Constant(value=_OPERATORS[type(test.ops[0])], **at), ast.Name(id=names[1], ctx=ast.Load(), **at)],
        )
        return ast.Assert(test=ast.Compare(left=left, ops=test.ops, comparators=[right], **at), msg=shown, **at)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # a walrus in a class body or a comprehension of one is no error, but would leave names in the class
        node.body = [s if isinstance(s, ast.Assert) else self.visit(s) for s in node.body]
        return node


def imports_pytest(content: bytes) -> bool:
    """Whether a test file needs pytest to run."""
    if b"pytest" not in content:
        return False
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(a.name.split(".")[0] == "pytest" for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pytest":
            return True
    return False


def expected_tests(path: str, content: bytes) -> list[str]:
    """The ids that a test file defines by its text: plain test functions, and test methods of its classes."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in tree.body:
        if isinstance(node, functions) and node.name.startswith("test"):
            found.append(f"{path}::{node.name}")
        elif isinstance(node, ast.ClassDef):
            found += [f"{path}::{node.name}::{inner.name}" for inner in node.body
                      if isinstance(inner, functions) and inner.name.startswith("test")]
    return found


def files_with_tests(files: Mapping[str, bytes], required: Sequence[str]) -> list[str]:
    """Which files of a suite hold tests: those that the required ids name, else those that are named like tests and
    define some."""
    if required:
        named = {name.partition("::")[0] for name in required}
        return [path for path in files if path in named]
    return [path for path, content in files.items() if _named_like_tests(path) and expected_tests(path, content)]


def _named_like_tests(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (name.startswith("test") and name.endswith(".py")) or name.endswith("_test.py")
