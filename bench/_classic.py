"""The mutants by which the field's figure for HumanEval can be had again: 1,768, of which its tests notice 88.3 %.

Whoever measured it (20 of 164 suites notice fewer than 80 %, 44 fewer than 90 %, the worst 41 %) named no operators.
Of the textbook's, 29,120 choices make from 1,763 to 1,773 mutants; these were picked because they come near: 1,768
mutants, 20 suites, 41 % (48 suites under 90 %), so that they agree is no evidence of anything. Mutants that nobody
could tell from the original count as alive, as they did there. Which 20 it were is not known: 8 suites are weak by
every one of those choices.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from quintain.curate.site import command_limits, program_of
from quintain.grade import Mutant, Operator, kill_rate
from quintain.grade.oracle import Oracle
from quintain.sandbox import Backend
from quintain.tasks import Item, Taskset

#: Weak by every choice of operators that makes about as many mutants.
ALWAYS_WEAK = tuple(f"HumanEval/{number}" for number in (35, 50, 59, 99, 116, 124, 127, 154))
WEAK = 0.8

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}
_BORDER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}


def classic(source: str) -> Iterator[tuple[int, str, str]]:
    """Each mutant of a source: line, what was changed, the whole changed source."""
    tree = ast.parse(source)
    skipped = set(_skipped(tree))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        for name, new in _changes(node):
            known: dict[int, ast.AST] = {}
            whole = copy.deepcopy(tree, known)
            changed = ast.fix_missing_locations(_Put(known[id(node)], new).visit(whole))
            yield getattr(node, "lineno", 0), name, ast.unparse(changed)


def _skipped(tree: ast.AST) -> Iterator[int]:
    """Documentation, annotations, the texts of format strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Module) and node.body and isinstance(node.body[0], ast.Expr):
            yield id(node.body[0].value)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            yield from (id(inner) for inner in ast.walk(part)) if part is not None else ()
        if isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in node.values if isinstance(part, ast.Constant))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            for at, op in enumerate(node.ops):
                for name, table in (("negated", _NEGATED), ("border", _BORDER)):
                    if type(op) in table:
                        ops = [*node.ops[:at], table[type(op)](), *node.ops[at + 1 :]]
                        yield name, ast.Compare(left=node.left, ops=ops, comparators=node.comparators)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield "arithmetic", ast.BinOp(left=node.left, op=_ARITHMETIC[type(node.op)](), right=node.right)
        case ast.BoolOp():
            yield "and/or", ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=node.values)
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int() as number):
            yield "one less", ast.Constant(number - 1)
        case ast.Constant(value=float() as number):
            yield "one more", ast.Constant(number + 1)
        case ast.Constant(value=str() as text):
            yield "longer", ast.Constant(text + "x")
        case ast.If():
            yield "condition", ast.If(test=_not(node.test), body=node.body, orelse=node.orelse)
        case ast.IfExp():
            yield "condition", ast.IfExp(test=_not(node.test), body=node.body, orelse=node.orelse)
        case ast.Break():
            yield "loop", ast.Continue()
        case ast.Continue():
            yield "loop", ast.Break()
        case ast.Expr() if not isinstance(node.value, ast.Constant):
            yield "removed", ast.Pass()


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=test)


class _Put(ast.NodeTransformer):
    """Puts a node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


async def classic_shares(backend: Backend, tasks: Taskset, *, at_once: int) -> dict[str, tuple[int, int]]:
    """For each task how many of its mutants are noticed, and how many there are. Raises HouseError."""
    oracle = Oracle(backend, confirm=False)
    found: dict[str, tuple[int, int]] = {}
    for id in tasks.ids:
        changed = mutants_of_item(tasks[id])
        if changed:
            item = tasks[id]
            kills = await kill_rate(
                oracle, item.exam.hidden, program_of(item, item.exam.oracle or {}), image=item.task.image,
                limits=command_limits(item), changed=changed, at_once=at_once)
            found[id] = (kills.killed, len(kills.mutants))
    return found


def mutants_of_item(item: Item) -> list[tuple[str, Mutant]]:
    path = item.task.entry.path
    return [(path, Mutant(operator=Operator.REMOVE, line=line, column=0, before=name, after="", source=source.encode()))
            for line, name, source in classic((item.exam.oracle or {})[path].decode())]
