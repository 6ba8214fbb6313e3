"""Other texts of a right answer that do the same: what tests must accept as well. Pure.

Each rewrite changes how a program is written and not what it does: comments and layout gone, locals renamed, conditions
and comparisons turned round, results put into a variable first.
Does not cover: programs that look at themselves (`inspect`, `locals()`, `eval`); there locals keep their names.
Rewrites are no other algorithm: a suite that refuses every other way to do it is not found by these alone.
"""

from __future__ import annotations

import ast
import copy
import symtable

_SELVES = frozenset({"eval", "exec", "locals", "globals", "vars", "dir", "inspect", "__name__", "__qualname__",
                     "getframe", "_getframe", "__code__", "getsource", "super", "__class__"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def rewrites(source: bytes) -> dict[str, bytes]:
    """The rewrites of a Python source by what they changed; those that change nothing are left out. None for a source
    that does not compile or looks at itself."""
    try:
        tree = ast.parse(source)
        text = source.decode()
    except (SyntaxError, ValueError, RecursionError):
        return {}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    used |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    used |= {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    found = {"layout": ast.unparse(tree)}
    if not used & (_SELVES - {"super", "__class__"}):
        found["locals renamed"] = ast.unparse(_renamed(copy.deepcopy(tree), text))
    for name, change in _CHANGES.items():
        new = ast.fix_missing_locations(change.visit(copy.deepcopy(tree)))
        found[name] = ast.unparse(new)
    first = found["layout"]
    return {name: new.encode() + b"\n" for name, new in found.items()
            if (name == "layout" or new != first) and _compiles(new)}


def _compiles(text: str) -> bool:
    try:
        compile(text, "<rewrite>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}


class _Turned(ast.NodeTransformer):
    """`if a: x else: y` → `if not a: y else: x`; `a if c else b` → `b if not c else a`."""

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            node.test, node.body, node.orelse = ast.UnaryOp(op=ast.Not(), operand=node.test), node.orelse, node.body
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return ast.IfExp(test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=node.orelse, orelse=node.body)


class _Named(ast.NodeTransformer):
    """`return x` → `answer_ = x` and `return answer_`."""

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.AST]:
        if node.value is None or isinstance(node.value, ast.Constant | ast.Name):
            return node
        put = ast.Assign(targets=[ast.Name(id="answer_", ctx=ast.Store())], value=node.value)
        return [put, ast.Return(value=ast.Name(id="answer_", ctx=ast.Load()))]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


class _Mirrored(ast.NodeTransformer):
    """`a < b` of two constants or names → `b > a`; what may have effects keeps its order."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        right = node.comparators[0]
        other = _MIRRORED.get(type(node.ops[0]))
        plain = all(isinstance(side, ast.Name | ast.Constant) for side in (node.left, right))
        if len(node.ops) != 1 or other is None or not plain:
            return node
        return ast.Compare(left=right, ops=[other()], comparators=[node.left])


_CHANGES: dict[str, ast.NodeTransformer] = {
    "conditions turned round": _Turned(), "results named": _Named(), "comparisons turned round": _Mirrored(),
}


def _renamed(tree: ast.Module, text: str) -> ast.Module:
    """Plain local variables of functions without inner scopes get other names; parameters keep theirs."""
    tables = _tables(symtable.symtable(text, "<rewrite>", "exec"))
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS) and not _has_scopes(node):
            table = tables.get((node.name, node.lineno))
            if table is not None:
                names = {s.get_name() for s in table.get_symbols()
                         if s.is_local() and not s.is_parameter() and not s.is_imported() and not s.is_global()}
                _Renaming({name: f"{name}_" for name in names if not name.startswith("__")}).generic_visit(node)
    return tree


def _tables(table: symtable.SymbolTable) -> dict[tuple[str, int], symtable.SymbolTable]:
    found = {(table.get_name(), table.get_lineno()): table} if table.get_type() == "function" else {}
    for child in table.get_children():
        found |= _tables(child)
    return found


def _has_scopes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    inner = (*_FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
             ast.Match, ast.Nonlocal, ast.Global, ast.ExceptHandler)
    return bool(function.decorator_list) or any(
        isinstance(node, inner) for statement in function.body for node in ast.walk(statement))


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node
