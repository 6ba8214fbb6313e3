"""Programs with one small fault each, made from a right one.

A mutant is the source with one node replaced in its text, so that everything else stays as it was. The operators
are Offutt's sufficient ones without those that others make redundant, which only flatter a suite (Kaminski, Ammann
and Offutt, "Improving logic-based testing", 2013; Just, Kapfhammer and Schweiggert, "Do redundant mutants affect the
effectiveness and efficiency of mutation analysis?", 2012, and their tool Major): a comparison becomes the three that
no test can notice without noticing the other four too, `and` and `or` lose a clause or are decided. Numbers go up and
down by one (Cosmic Ray); the rest is mutmut's and PIT's: arithmetic, return, off-by-one, remove a statement, loop.
Docstrings, annotations, imports, format strings and `if __name__ == "__main__"` are left alone. A mutant whose
compiled code is that of the original, or of an earlier mutant, is no mutant.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from types import CodeType

import msgspec

MAX_SOURCE_BYTES = 256 * 1024


class Operator(StrEnum):
    COMPARISON = "comparison"
    ARITHMETIC = "arithmetic"
    BOOLEAN = "boolean"
    CONSTANT = "constant"
    RETURN = "return"
    OFF_BY_ONE = "off_by_one"
    REMOVE = "remove"
    LOOP = "loop"


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is the whole changed file; `line` counts from 1 and `column` (in bytes) from 0 in the original."""

    operator: Operator
    line: int
    column: int
    before: str
    after: str
    source: bytes

    def __str__(self) -> str:
        return f"line {self.line}: {self.before!r} -> {self.after!r} ({self.operator.value})"


def mutants(
    source: str | bytes, *, lines: Collection[int] | None = None, limit: int | None = None, seed: int = 0
) -> list[Mutant]:
    """Every mutant of a Python source, in the order of the text; those of `lines` only, where given; at most `limit`,
    drawn by `seed`. Raises SyntaxError, ValueError or RecursionError for what does not compile or is no UTF-8."""
    content = source.encode() if isinstance(source, str) else source
    if len(content) > MAX_SOURCE_BYTES:
        raise ValueError(f"expected at most {MAX_SOURCE_BYTES} bytes to make mutants of, found {len(content)}")
    content.decode("utf-8")  # places in the text are counted in its bytes
    tree = ast.parse(content)
    text = _Text(content)
    seen = {_essence(compile(content, "<mutant>", "exec", dont_inherit=True))}
    found: list[Mutant] = []
    for node, operator, new in _changes(tree):
        if lines is not None and node.lineno not in lines:
            continue
        changed = text.replaced(node, new)
        try:
            essence = _essence(compile(changed, "<mutant>", "exec", dont_inherit=True))
        except (SyntaxError, ValueError):  # the place does not take it: a pattern, a target
            continue
        if essence in seen:
            continue
        seen.add(essence)
        found.append(Mutant(operator=operator, line=node.lineno, column=node.col_offset,
                            before=_short(ast.unparse(node)), after=_short(new), source=changed))
    if limit is not None and len(found) > limit:
        kept = sorted(random.Random(seed).sample(range(len(found)), limit))
        found = [found[at] for at in kept]
    return found


class _Text:
    """A source by bytes, in which the text of a node can be exchanged."""

    def __init__(self, content: bytes) -> None:
        self._content = content.removeprefix(b"\xef\xbb\xbf")
        self._starts = [0]
        for line in self._content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def replaced(self, node: ast.expr | ast.stmt, new: str) -> bytes:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        return self._content[:start] + new.encode() + self._content[end:]


def _essence(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without where it stands. Constants are compared with their types: 1 is not True."""
    constants = tuple(_essence(c) if isinstance(c, CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts)
    return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."


_Change = tuple[ast.expr | ast.stmt, Operator, str]


def _changes(tree: ast.Module) -> Iterator[_Change]:
    """Each place to change: the node whose text goes, by which operator, and the text that comes."""
    found = [change for node in _walk(tree) for rule in _RULES for change in rule(node)]
    return iter(sorted(found, key=lambda change: (change[0].lineno, change[0].col_offset)))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that may be changed, or whose parts may."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.MatchValue) or _is_main_guard(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        parts = value if isinstance(value, list) else [value]
        if name == "body" and parts and isinstance(parts[0], ast.stmt) and _is_text(parts[0]):
            parts = parts[1:]
        for part in parts:
            if isinstance(part, ast.AST):
                yield from _walk(part)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.NotEq), ast.LtE: (ast.Lt, ast.Eq), ast.Gt: (ast.GtE, ast.NotEq), ast.GtE: (ast.Gt, ast.Eq),
    ast.Eq: (ast.LtE, ast.GtE), ast.NotEq: (ast.Lt, ast.Gt), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}
#: What a comparison becomes besides: the third of those that make all others redundant.
_DECIDED: dict[type[ast.cmpop], str] = {
    ast.Lt: "False", ast.LtE: "True", ast.Gt: "False", ast.GtE: "True", ast.Eq: "False", ast.NotEq: "True",
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}


def _comparison(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for other in _COMPARISONS[type(op)]:
                new = copy.copy(node)
                new.ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                yield node, Operator.COMPARISON, _written(new)
        decided = _DECIDED.get(type(node.ops[0]))
        if len(node.ops) == 1 and decided is not None:
            yield node, Operator.COMPARISON, decided


def _arithmetic(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        new = copy.copy(node)
        new.op = _ARITHMETIC.get(type(node.op), ast.Mult)()
        yield node, Operator.ARITHMETIC, _written(new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node, Operator.ARITHMETIC, _written(node.operand)


def _boolean(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            new = rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
            yield node, Operator.BOOLEAN, _written(new)
        yield node, Operator.BOOLEAN, "False" if isinstance(node.op, ast.And) else "True"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, Operator.BOOLEAN, _written(node.operand)
    elif isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield node.test, Operator.BOOLEAN, _written(ast.UnaryOp(op=ast.Not(), operand=node.test))


def _constant(node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield node, Operator.CONSTANT, repr(not value)
    elif isinstance(value, int | float):
        for other in (value + 1, value - 1):
            yield node, Operator.CONSTANT, repr(other) if other >= 0 else f"({other!r})"
    elif isinstance(value, str):
        yield node, Operator.CONSTANT, repr("" if value else "?")
    elif isinstance(value, bytes):
        yield node, Operator.CONSTANT, repr(b"" if value else b"?")


def _return(node: ast.AST) -> Iterator[_Change]:
    """Nothing instead of a value; a truth value is turned by the operators of what it is made of."""
    if isinstance(node, ast.Return) and node.value is not None and not _is_truth(node.value):
        nothing = isinstance(node.value, ast.Constant) and node.value.value is None
        yield node, Operator.RETURN, "return 0" if nothing else "return None"


def _is_truth(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    return isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and isinstance(node.value, bool)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _off_by_one(node: ast.AST) -> Iterator[_Change]:
    """The bound of a range, the border of a slice, an index; constants have their own operator."""
    spots: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        spots += node.args[:2]
    elif isinstance(node, ast.Slice):
        spots += [part for part in (node.lower, node.upper) if part is not None]
    for spot in spots:
        if not isinstance(spot, ast.Constant | ast.Starred):
            yield spot, Operator.OFF_BY_ONE, _written(ast.BinOp(left=spot, op=ast.Sub(), right=ast.Constant(1)))


def _remove(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.AugAssign | ast.Raise | ast.Delete) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom | ast.Await)
    ):
        yield node, Operator.REMOVE, "pass"


def _loop(node: ast.AST) -> Iterator[_Change]:
    """A loop that never begins, or is left too early or too late."""
    if isinstance(node, ast.Break):
        yield node, Operator.LOOP, "continue"
    elif isinstance(node, ast.Continue):
        yield node, Operator.LOOP, "break"
    elif isinstance(node, ast.While):
        yield node.test, Operator.LOOP, "False"
    elif isinstance(node, ast.For):
        yield node.iter, Operator.LOOP, "()"


def _written(node: ast.AST) -> str:
    """The text of a node, in parentheses where it is an expression: it may come to stand in another one."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return f"({text})" if isinstance(node, ast.expr) else text


_RULES: tuple[Callable[[ast.AST], Iterator[_Change]], ...] = (
    _comparison, _arithmetic, _boolean, _constant, _return, _off_by_one, _remove, _loop,
)


def mutants_of(
    files: Mapping[str, bytes], *, limit: int | None = None, seed: int = 0
) -> list[tuple[str, Mutant]]:
    """The mutants of several files, each with the path of the file that it replaces; files that are not Python, or do
    not compile, have none."""
    found: list[tuple[str, Mutant]] = []
    for path, content in sorted(files.items()):
        if path.endswith(".py"):
            try:
                found += [(path, mutant) for mutant in mutants(content)]
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    if limit is not None and len(found) > limit:
        found = [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), limit))]
    return found
