"""Where the fault is: how suspicious each line is by the tests that ran it, and what a claim about it is worth.

Suspicion is Ochiai's, from per-test line coverage: ef / √((ef + nf)·(ef + ep)), with ef and ep the failing and passing
tests that ran the line and nf the failing ones that did not (Abreu et al. 2007; the best simple family in arXiv
2305.19834). A policy may claim up to three places, once, in a block

    ```claim
    solution.py:12
    solution.py:30-32
    ```

which is worth the F1 of the claims against the places where the reference answer differs. It is paid for attempts that
ran and failed only (`reward_of` knows the score by its name), and a second block says nothing.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from quintain.grade.scalar import LOCALISATION, measured
from quintain.tasks import Item
from quintain.types import Attempt, Score, Turn

Line = tuple[str, int]  # (path, line from 1)

MAX_CLAIMS = 3
#: A claim of more lines than this is no claim: it would be a guess.
MAX_SPAN = 5


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines `first` to `last` of a file, both included. Where a place lies between two lines, both are in it."""

    path: str
    first: int
    last: int

    def meets(self, other: Span) -> bool:
        return self.path == other.path and self.first <= other.last and other.first <= self.last


def ochiai(
    lines_by_test: Mapping[str, Mapping[str, Collection[int]]], passed: Mapping[str, bool]
) -> dict[Line, float]:
    """The suspicion of each line that any test ran, in [0, 1]. `lines_by_test` is test → path → lines
    (`Covered.lines_by_test`), `passed` says of each test whether it passed; a test that either does not know does not
    count. Empty where no test failed."""
    tests = [name for name in passed if name in lines_by_test]
    failing = sum(not passed[name] for name in tests)
    ran: dict[Line, list[int]] = {}
    for name in tests:
        for path, numbers in lines_by_test[name].items():
            for number in set(numbers):
                ran.setdefault((path, number), [0, 0])[0 if passed[name] else 1] += 1
    if not failing:
        return {}
    return {line: ef / math.sqrt(failing * (ef + ep)) for line, (ep, ef) in ran.items()}


def rank_of(suspicion: Mapping[Line, float], line: Line) -> float | None:
    """The place of a line in the order of suspicion, 1 the most; lines of the same suspicion share the mean of their
    places. None for a line that no test ran."""
    own = suspicion.get(line)
    if own is None:
        return None
    above = sum(value > own for value in suspicion.values())
    return above + (sum(value == own for value in suspicion.values()) + 1) / 2


def edited_spans(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[Span, ...]:
    """Which lines of `before` are not in `after` any more, or have something new beside them, file by file. A file
    that is only in one of both is one span of all its lines, or (0, 0)."""
    found: list[Span] = []
    for path in sorted(set(before) | set(after)):
        old, new = before.get(path, b"").splitlines(), after.get(path, b"").splitlines()
        for tag, first, last, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "insert":
                found.append(Span(path=path, first=first, last=min(first + 1, len(old))))
            elif tag != "equal":
                found.append(Span(path=path, first=first + 1, last=last))
    return tuple(found)


def gold_spans(given: Mapping[str, bytes], oracle: Mapping[str, bytes]) -> tuple[Span, ...]:
    """Where a reference answer changes the code of given files: comments, docstrings and blank lines are no places."""
    both = {path: content for path, content in oracle.items() if path in given}
    spans = edited_spans({path: given[path] for path in both}, both)
    code = {path: _code_lines(path, given[path]) for path in both}
    found = []
    for span in spans:
        numbers = [number for number in range(span.first, span.last + 1) if number in code[span.path]]
        if numbers:
            found.append(Span(path=span.path, first=numbers[0], last=numbers[-1]))
    return tuple(found)


def _code_lines(path: str, content: bytes) -> frozenset[int]:
    """The lines of statements that are no mere text, for Python that compiles; else every line that is not blank."""
    if path.endswith(".py"):
        try:
            nodes = [n for n in ast.walk(ast.parse(content)) if isinstance(n, ast.stmt)]
        except (SyntaxError, ValueError):
            nodes = []
        texts = [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
        if nodes:
            inner = {number for n in texts for number in range(n.lineno, (n.end_lineno or n.lineno) + 1)}
            return frozenset(
                number for n in nodes for number in range(n.lineno, (n.end_lineno or n.lineno) + 1)) - inner
    return frozenset(n for n, line in enumerate(content.splitlines(), start=1) if line.strip())


def edited_share(before: Mapping[str, bytes], after: Mapping[str, bytes], suspicion: Mapping[Line, float]) -> float:
    """The share of all suspicion that lies on lines which were edited, in [0, 1]; 0 where nothing is suspicious."""
    whole = math.fsum(suspicion.values())
    if whole <= 0.0:
        return 0.0
    spans = edited_spans(before, after)
    hit = math.fsum(
        value for (path, number), value in suspicion.items()
        if any(s.path == path and s.first <= number <= s.last for s in spans)
    )
    return min(1.0, hit / whole)


_CLAIM = re.compile(r"(?P<path>[^\s:]+):(?P<first>[1-9]\d{0,6})(?:-(?P<last>[1-9]\d{0,6}))?")


def claims_of(reply: str) -> tuple[Span, ...] | None:
    """The claims of a reply's first claim block; None where it has none. A block with more than MAX_CLAIMS claims, a
    claim of more than MAX_SPAN lines or a line that is no claim makes no claim: ()."""
    body = _block(reply)
    if body is None:
        return None
    lines = [line for line in body if line]
    found = [_CLAIM.fullmatch(line) for line in lines]
    spans = [
        Span(path=m["path"], first=int(m["first"]), last=int(m["last"] or m["first"])) for m in found if m is not None
    ]
    well = len(spans) == len(lines) <= MAX_CLAIMS and all(0 <= s.last - s.first < MAX_SPAN for s in spans)
    return tuple(spans) if well else ()


def _block(reply: str) -> list[str] | None:
    """The lines of the first claim block that is closed."""
    lines = [line.rstrip() for line in reply.splitlines()]
    start = lines.index("```claim") if "```claim" in lines else None
    if start is None or "```" not in lines[start + 1 :]:
        return None
    return [line.strip() for line in lines[start + 1 : lines.index("```", start + 1)]]


def first_claims(turns: Sequence[Turn]) -> tuple[Span, ...] | None:
    """The claims of the first reply that has a claim block: whatever is claimed later counts for nothing."""
    return next((claims for claims in map(claims_of, (turn.text for turn in turns)) if claims is not None), None)


def claim_value(claims: Collection[Span], gold: Collection[Span]) -> float:
    """F1 of the claims against the gold places, in [0, 1]: the share of claims that meet one, and of places that are
    met. The same claim twice is one."""
    claimed, places = set(claims), set(gold)
    if not claimed or not places:
        return 0.0
    precision = sum(any(c.meets(g) for g in places) for c in claimed) / len(claimed)
    recall = sum(any(c.meets(g) for c in claimed) for g in places) / len(places)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class ClaimGrader:
    """A Grader: the score "localisation" of the first claim of an attempt, against the places where the task's oracle
    differs from the files as given. None where the task has no oracle that changes given files, or nothing was claimed.

    Covers: more claims, wide claims and later claims pay nothing. Does not cover: a task whose instructions name the
    place; do not grade claims there.
    """

    name = LOCALISATION

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        gold = gold_spans(item.task.files, item.exam.oracle or {})
        claims = first_claims(attempt.turns)
        if not gold:
            return (measured(self.name, None, evidence="the oracle changes no given file"),)
        if claims is None:
            return (measured(self.name, None, evidence="nothing was claimed"),)
        said = ", ".join(f"{c.path}:{c.first}-{c.last}" for c in claims) or "no valid claim"
        return (measured(self.name, claim_value(claims, gold), weight=0.10, evidence=said),)
