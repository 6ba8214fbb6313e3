"""Whether two mathematical answers are the same: strictly, and however they are written.

The text is read (a number with its unit, a list, a set, an interval, an equation, a formula), and the readings are
compared; only formulas that differ in writing go to a computer algebra system, in a process with limits. Numbers are
compared exactly: there is no tolerance to abuse. The rules where a writing has two meanings:

* a comma before groups of three digits separates thousands; `3,5` is 3.5 as an answer where a number is expected;
* a unit may be left out or added, but not be another (`5 cm` is not `5 m`, `500 cm` is); `25%` is 25 and 0.25;
* lists without brackets are roots, in any order; with `( )` in order; `{ }` are sets; `[ ]` and `( )` differ;
* `x = 5` is 5; `B`, `(B)` and `B. blue` are one choice; words are compared without case;
* the variables of formulas take real values of both signs, so that √(x²) is not x.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction

import msgspec

from quintain.grade.algebra import Algebra, Decided, Stage
from quintain.grade.mathclean import cleaned
from quintain.grade.mathnumber import Kind, Read, in_base_unit
from quintain.grade.mathread import read
from quintain.grade.mathspans import merged
from quintain.types import TaskError


class Same(StrEnum):
    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"  # the algebra system came to no end, or to no answer


class Equivalence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a given answer is the expected one, and by what."""

    same: Same
    why: str

    @property
    def equal(self) -> bool:
        return self.same is Same.YES


_Ask = Callable[[str, str, bool], Equivalence]


def same_answer(given: str, expected: str, *, algebra: Algebra | None = None) -> Equivalence:
    """Whether `given` is `expected`. Both are answers, not replies (see `extract_answer`).

    `algebra` is a process to share over many calls; without one, a call that needs it starts one and ends it (about
    1 s). An answer that cannot be read, or whose evaluation exceeds the limits, is another answer. Raises TaskError
    when `expected` cannot be understood, HouseError when the algebra system cannot be asked.
    """
    try:
        wanted = read(cleaned(expected))
    except ValueError as error:
        raise TaskError(f"expected answer: {error}")
    try:
        found = read(cleaned(given))
    except ValueError as error:
        return _no(f"cannot be read: {error}")
    if not found.text and not found.items:
        return _no("there is no answer")
    if algebra is not None:
        return _compare(wanted, found, _asking(algebra))
    with Algebra() as own:
        return _compare(wanted, found, _asking(own))


def _asking(algebra: Algebra) -> _Ask:
    def ask(expected: str, given: str, equation: bool) -> Equivalence:
        decided = algebra.ask(_latex(expected), _latex(given), equation=equation)
        return _meaning(decided, expected)

    return ask


def _meaning(decided: Decided, expected: str) -> Equivalence:
    if decided.same is not None:
        return Equivalence(same=Same.YES if decided.same else Same.NO, why=decided.why)
    if decided.stage is Stage.START:
        why = decided.why or "beyond the limits"
        raise TaskError(f"expected answer {expected[:200]!r} cannot be understood: {why}")
    if decided.stage is Stage.EXPECTED:
        return _no("beyond the limits" if decided.limit else f"cannot be read: {decided.why}")
    return Equivalence(same=Same.UNDECIDED, why=decided.why or "beyond the limits")


def _compare(e: Read, g: Read, ask: _Ask) -> Equivalence:
    """`e` is expected, `g` given."""
    if _letters(e) and _letters(e) == _letters(g):
        return _yes("the same word")
    choice = _choice(e, g)
    if choice is not None:
        return choice
    if e.name and g.name and e.name != g.name:
        return _no(f"{g.name} instead of {e.name}")
    if Kind.EQUATION in (e.kind, g.kind):
        return _equations(e, g, ask)
    if e.unit and g.unit and not (e.kind is g.kind is Kind.NUMBER) and e.unit != g.unit:
        return _no(f"{g.unit} instead of {e.unit}")
    match e.kind, g.kind:
        case Kind.NUMBER, Kind.NUMBER:
            return _numbers(e, g)
        case Kind.NUMBER, Kind.BARE if re.fullmatch(r"-?\d+,\d+", g.text):
            return _numbers(e, msgspec.structs.replace(g, kind=Kind.NUMBER, value=Fraction(g.text.replace(",", "."))))
        case (Kind.NUMBER | Kind.FORMULA), (Kind.NUMBER | Kind.FORMULA):
            return _yes("the same text") if _packed(e) == _packed(g) else ask(e.text, g.text, False)
        case Kind.WORD, _:
            return _yes("the same text") if _packed(e) == _packed(g) else _no("another word")
        case _, Kind.WORD:
            return _no("a word instead of a value")
        case _:
            return _collections(e, g, ask)


def _collections(e: Read, g: Read, ask: _Ask) -> Equivalence:
    kinds = {e.kind, g.kind}
    if Kind.UNION in kinds:
        return _unions(e, g, ask)
    if len(kinds) == 1:
        if e.kind is Kind.RANGE and e.brackets != g.brackets:
            return _no("other brackets")
        if e.kind is Kind.BARE and ":" not in (e.brackets, g.brackets):
            return _matched(e.items, g.items, ask)
        if e.kind is Kind.SET:
            return _as_sets(e.items, g.items, ask)
        return _no("other separators") if e.kind is Kind.BARE and e.brackets != g.brackets else _in_order(e, g, ask)
    if kinds == {Kind.BARE, Kind.SET}:
        return _as_sets(e.items, g.items, ask)
    if Kind.BARE in kinds and (kinds & {Kind.TUPLE, Kind.RANGE}) and "[)" not in (e.brackets, g.brackets):
        return _in_order(e, g, ask)
    return _no(f"a {g.kind.value} instead of a {e.kind.value}")


def _numbers(e: Read, g: Read) -> Equivalence:
    if e.unit and g.unit and e.unit != g.unit:
        one, other = in_base_unit(e), in_base_unit(g)
        if one is None or other is None or one[0] != other[0]:
            return _no(f"{g.unit} instead of {e.unit}")
        return _yes("the same quantity") if one == other else _no("another quantity")
    values = {e.value}
    if "%" in (e.unit, g.unit) and e.unit != g.unit:
        values |= {e.value / 100} if e.unit == "%" else {e.value * 100}
    return _yes("the same number") if g.value in values else _no("another number")


def _equations(e: Read, g: Read, ask: _Ask) -> Equivalence:
    if e.name and e.name == g.name and e.items and g.items:
        return _compare(e.items[0], g.items[0], ask)
    one, other = (_as_equation(side) for side in (e, g))
    if one is not None and other is not None:
        return _yes("the same text") if one.replace(" ", "") == other.replace(" ", "") else ask(one, other, True)
    with_name, without = (e, g) if e.kind is Kind.EQUATION else (g, e)
    if with_name.name and with_name.items and with_name.items[0].kind is Kind.FORMULA:
        inner = with_name.items[0]
        return _compare(inner, without, ask) if with_name is e else _compare(without, inner, ask)
    return _no("only one of both is an equation")


def _as_equation(side: Read) -> str | None:
    if side.kind is Kind.EQUATION:
        return side.text
    return f"{side.name}={side.text}" if side.name and side.kind in (Kind.NUMBER, Kind.FORMULA) else None


def _unions(e: Read, g: Read, ask: _Ask) -> Equivalence:
    parts = [side.items if side.kind is Kind.UNION else (side,) for side in (e, g)]
    one, other = merged(parts[0]), merged(parts[1])
    if one is not None and other is not None:
        return _yes("the same numbers") if one == other else _no("other numbers")
    return _as_sets(parts[0], parts[1], ask)


def _in_order(e: Read, g: Read, ask: _Ask) -> Equivalence:
    if len(e.items) != len(g.items):
        return _no(f"{len(g.items)} parts instead of {len(e.items)}")
    return _all([_compare(a, b, ask) for a, b in zip(e.items, g.items, strict=True)])


def _matched(e: Sequence[Read], g: Sequence[Read], ask: _Ask) -> Equivalence:
    """Each of the expected with one of its own among the given, in any order."""
    if len(e) != len(g):
        return _no(f"{len(g)} parts instead of {len(e)}")
    left = list(g)
    for item in e:
        found = [_compare(item, other, ask) for other in left]
        at = next((n for n, one in enumerate(found) if one.equal), None)
        if at is None:
            return next((one for one in found if one.same is Same.UNDECIDED), _no(f"{item.text} is not among them"))
        del left[at]
    return _yes("the same parts")


def _as_sets(e: Sequence[Read], g: Sequence[Read], ask: _Ask) -> Equivalence:
    if len(g) > 2 * len(e) + 8:
        return _no(f"{len(g)} parts instead of {len(e)}")
    table = [[_compare(a, b, ask) for b in g] for a in e]
    rows = [*table, *map(list, zip(*table, strict=True))] if e and g else []
    if not rows:
        return _yes("both are empty") if not e and not g else _no("one of both is empty")
    return _all([next((x for x in row if x.equal), next((x for x in row if x.same is Same.UNDECIDED), row[0]))
                 for row in rows])


_CHOICE = re.compile(r"\(?([A-J])\)?(?:[.):]\s*(?P<rest>.*))?")


def _choice(e: Read, g: Read) -> Equivalence | None:
    """A letter of multiple choice, alone on one side and with its text on the other."""
    if not any(re.fullmatch(r"[A-J]", side.text) for side in (e, g)):
        return None
    one, other = _CHOICE.fullmatch(e.text), _CHOICE.fullmatch(g.text)
    if one is None or other is None or any(re.search(r"\b[A-J][.)]", m["rest"] or "") for m in (one, other)):
        return None
    return _yes("the same choice") if one[1] == other[1] else _no("another choice")


def _letters(side: Read) -> str:
    """A text of letters only, without case; empty for any other."""
    text = " ".join(side.text.casefold().split())
    return text if side.kind in (Kind.WORD, Kind.FORMULA) and text.replace(" ", "").isalpha() else ""


def _packed(side: Read) -> str:
    return re.sub(r"\s+", "", side.text if side.kind is not Kind.WORD else side.text.casefold())


_PLAIN = (
    (re.compile(r"\*\*"), "^"), (re.compile(r"(?<!\\)\bsqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])(sin|cos|tan|cot|sec|csc|log|ln|exp|pi)(?![A-Za-z])"), r"\\\1 "),
    (re.compile(r"(?<!\\)\*"), r"\\cdot "), (re.compile(r"\^\s*\(([^()]*)\)"), r"^{\1}"),
    (re.compile(r"\^\s*(-?\d{2,})"), r"^{\1}"),
)


def _latex(text: str) -> str:
    """A formula in plain letters as LaTeX."""
    for pattern, by in _PLAIN:
        text = pattern.sub(by, text)
    return text


def _all(parts: Sequence[Equivalence]) -> Equivalence:
    """One that differs decides, then one that is undecided."""
    for same in (Same.NO, Same.UNDECIDED):
        found = next((part for part in parts if part.same is same), None)
        if found is not None:
            return found
    return _yes("the same parts")


def _yes(why: str) -> Equivalence:
    return Equivalence(same=Same.YES, why=why)


def _no(why: str) -> Equivalence:
    return Equivalence(same=Same.NO, why=why)
