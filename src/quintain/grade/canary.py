"""Tests that must fail beside tests that must pass, so that whoever makes everything pass gives himself away.

A variant is a copy of one test with one assertion changed: the same call with a wrong expectation, or a call with fresh
inputs and what a reference answer gives for it, right or wrong. Pure: works on the text of the tests only.
Does not cover: tests without an assertion that compares with a literal; these get no variant.
"""

from __future__ import annotations

import ast
import copy
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

#: How unittest says "equal"; the two values are its first two arguments.
_EQUALS = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual",
                     "assertSetEqual", "assertSequenceEqual", "assertMultiLineEqual", "assertAlmostEqual",
                     "assertCountEqual"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Spot(msgspec.Struct, frozen=True):
    """One assertion that compares with a literal: where in the function's body, and which part holds the literal."""

    function: Any
    statement: int
    found: Any
    wanted: Any


class Probe(msgspec.Struct, frozen=True):
    """Fresh inputs for one assertion: the expression with other literals in its calls."""

    spot: Spot
    found: Any


def tests_of(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], Function, str]]:
    """Each test of a module with the body that holds it and its name, `test_x` or `TestX::test_y`."""
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield tree.body, node, node.name
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, Function) and inner.name.startswith("test"):
                    yield node.body, inner, f"{node.name}::{inner.name}"


def spots_of(function: Function) -> list[Spot]:
    """The assertions of a test that a variant can be made of."""
    spots = []
    for number, statement in enumerate(function.body):
        pair = _pair(statement, function.body[:number])
        if pair is not None and any(isinstance(n, ast.Call) for n in ast.walk(pair[0])):
            spots.append(Spot(function, number, *pair))
    return spots


def _pair(statement: ast.stmt, before: Sequence[ast.stmt]) -> tuple[ast.expr, ast.expr] | None:
    """(what is found, the literal that is wanted) of an assertion, or None."""
    left: ast.expr
    right: ast.expr
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right])):
            pass
        case ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name(id="abs"), args=[ast.BinOp(
                left=left, op=ast.Sub(), right=right)]), ops=[ast.Lt() | ast.LtE()])):
            pass
        case ast.Assert(test=ast.Call(func=ast.Attribute(attr="isclose"), args=[left, right, *_])):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[left, right, *_])) if name in _EQUALS:
            pass
        case _:
            return None
    for found, wanted in ((left, right), (right, left)):
        if _literal(wanted, before) is not None:
            return found, wanted
    return None


def _literal(node: ast.expr, before: Sequence[ast.stmt]) -> tuple[Any] | None:
    """The value of a literal, or of a name that the statement before binds to one; in a tuple, for it may be None."""
    if isinstance(node, ast.Name):
        for statement in reversed(before):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.id:
                    return _literal(value, ())
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def wrong(value: Any, rng: random.Random) -> Any:
    """A value of the same kind that is not equal to this one, nor close to it, and looks as likely."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + rng.choice([-9, -7, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8, 10])
    if isinstance(value, float):
        step = max(1.0, abs(value)) * rng.choice([0.2, 0.5, 1.0])
        return round(value + rng.choice([-1, 1]) * step, 6) if math.isfinite(value) else 0.0
    if isinstance(value, (str, bytes)):
        return _wrong_text(value, rng)
    if isinstance(value, (list, tuple)):
        items = list(value)
        if not items or rng.random() < 0.3:
            items.insert(rng.randint(0, len(items)), items[0] if items else rng.randint(0, 9))
        else:
            place = rng.randrange(len(items))
            items[place] = wrong(items[place], rng)
        return type(value)(items)
    if isinstance(value, dict):
        if not value:
            return {rng.randint(0, 9): 1}
        key = rng.choice(list(value))
        return {**value, key: wrong(value[key], rng)}
    if isinstance(value, (set, frozenset)):
        return value | {rng.randint(100, 999)}
    return None


def _wrong_text(value: str | bytes, rng: random.Random) -> str | bytes:
    text = value if isinstance(value, str) else value.decode("latin-1")
    letters = "".join(sorted(set(text))) or "abc"
    place = rng.randint(0, max(0, len(text) - 1))
    changed = [text[:place] + rng.choice(letters) + text[place:], text[:place] + text[place + 1:],
               text[:place] + text[place:place + 2][::-1] + text[place + 2:]]
    found = next((t for t in rng.sample(changed, len(changed)) if t != text), text + "e")
    return found if isinstance(value, str) else found.encode("latin-1")


def near(value: Any, rng: random.Random) -> Any:
    """Another input of the same kind and about the same size."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value + rng.choice([-2, -1, 1, 2, 3, 5, 8])
    if isinstance(value, float):
        return round(value + rng.choice([-1.5, -0.5, 0.5, 1.0, 2.5]), 6)
    if isinstance(value, (str, bytes)):
        return value if rng.random() < 0.1 else _wrong_text(value, rng)
    if isinstance(value, (list, tuple)):
        items = [near(item, rng) for item in value]
        if items and rng.random() < 0.4:
            items.append(near(items[-1], rng))
        elif not items and rng.random() < 0.5:
            items.append(rng.randint(0, 9))
        return type(value)(items)
    return {key: near(item, rng) for key, item in value.items()} if isinstance(value, dict) else value


class _Freshen(ast.NodeTransformer):
    """Replaces the literals in the arguments of calls by others."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.changed = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [self._other(argument) for argument in node.args]
        return node

    def _other(self, node: ast.expr) -> ast.expr:
        found = _literal(node, ())
        if found is None:
            other: ast.expr = self.visit(node)
            return other
        value = near(found[0], self._rng)
        self.changed = self.changed or value != found[0]
        return spelled(value)


def spelled(value: Any) -> ast.expr:
    """A value as an expression."""
    return ast.parse(repr(value), mode="eval").body


def with_sides(spot: Spot, found: ast.expr, wanted: ast.expr) -> Function:
    """The test with other sides of one assertion. What comes after stays: a copy must not be known by its length."""
    swap = {ast.dump(spot.found): found, ast.dump(spot.wanted): wanted}

    class Swap(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            text = ast.dump(node) if isinstance(node, ast.expr) else ""
            return swap.pop(text) if text in swap else super().generic_visit(node)

    after = spot.function.body[spot.statement + 1:]
    return _with_statements(spot, Swap().visit(copy.deepcopy(spot.function.body[spot.statement])), *after)


def _with_statements(spot: Spot, *statements: ast.stmt) -> Function:
    function: Function = copy.copy(spot.function)
    function.body = [copy.deepcopy(s) for s in (*spot.function.body[:spot.statement], *statements)]
    return ast.fix_missing_locations(function)


def with_wrong_value(spot: Spot, rng: random.Random) -> Function:
    """The same call, expecting something else: a right answer fails it."""
    literal = _literal(spot.wanted, spot.function.body[:spot.statement])
    assert literal is not None
    return with_sides(spot, spot.found, spelled(wrong(literal[0], rng)))


def probe_of(spot: Spot, rng: random.Random) -> Probe | None:
    """Fresh inputs for an assertion; None where its calls have no literal in their arguments."""
    freshen = _Freshen(rng)
    found = freshen.visit(copy.deepcopy(spot.found))
    return Probe(spot, found) if freshen.changed else None


def noting(probe: Probe, number: int) -> Function:
    """The test with `__quintain_note__(number, found)` in place of the assertion, to be run on a reference answer."""
    note = ast.Call(func=ast.Name("__quintain_note__", ast.Load()), args=[ast.Constant(number), probe.found],
                    keywords=[])
    return _with_statements(probe.spot, ast.copy_location(ast.Expr(note), probe.spot.function.body[0]))


def noted(text: str) -> tuple[Any] | None:
    """The value that a reference gave, if it can be spelled in a test and a wrong one be told from it."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    plain = isinstance(value, (int, float, str, bytes, list, tuple, dict)) and not isinstance(value, bool)
    return (value,) if plain and len(text) <= 2_000 and "nan" not in text and "inf" not in text else None


def with_wrong_row(function: Function, rng: random.Random) -> Function | None:
    """The test with one row of its `parametrize`, in which the value that it expects is another; None where the rows
    are no literals, or no column of them is compared with."""
    names, table, decorator = _rows(function)
    wanted = {side.id for statement in ast.walk(function) if isinstance(statement, ast.Assert)
              and isinstance(statement.test, ast.Compare) and isinstance(statement.test.ops[0], ast.Eq)
              for side in (statement.test.left, statement.test.comparators[0]) if isinstance(side, ast.Name)}
    columns = [n for n, name in enumerate(names) if name in wanted]
    if not columns or not table or len(function.decorator_list) != 1:
        return None
    row = list(rng.choice(table))
    row[columns[-1]] = wrong(row[columns[-1]], rng)
    changed = copy.copy(function)
    call = copy.deepcopy(decorator)
    call.args[1] = spelled([tuple(row) if len(names) > 1 else row[0]])
    changed.decorator_list, changed.body = [call], copy.deepcopy(function.body)
    return ast.fix_missing_locations(changed)


def _rows(function: Function) -> tuple[list[str], list[tuple[Any, ...]], ast.Call]:
    """The names and the rows of the one `parametrize` of a test; empty where they are no literals."""
    for node in function.decorator_list:
        match node:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[first, second, *_]):
                names, rows = _literal(first, ()), _literal(second, ())
                if names is None or rows is None or not isinstance(rows[0], (list, tuple)):
                    continue
                told = names[0].replace(",", " ").split() if isinstance(names[0], str) else list(names[0])
                table = [tuple(row) if len(told) > 1 and isinstance(row, (list, tuple)) else (row,) for row in rows[0]]
                if all(len(row) == len(told) for row in table):
                    return told, table, node
    return [], [], ast.Call(func=ast.Name("none", ast.Load()), args=[], keywords=[])
