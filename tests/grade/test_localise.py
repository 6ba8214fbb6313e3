"""Fault localisation: suspicion by Ochiai, and claims that are worth what they find, once."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import (
    ClaimGrader,
    Span,
    claim_value,
    claims_of,
    edited_share,
    edited_spans,
    first_claims,
    gold_spans,
    ochiai,
    rank_of,
    reward_of,
)
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, Fault, FaultKind, Owner, Passed, TestResult, Turn, Verdict

A, B, C = ("s.py", 1), ("s.py", 2), ("s.py", 3)


def span(first: int, last: int | None = None, path: str = "s.py") -> Span:
    return Span(path=path, first=first, last=last or first)


def by_path(lines: dict[str, list[tuple[str, int]]]) -> dict[str, dict[str, list[int]]]:
    return {test: {path: [n for p, n in found if p == path] for path, _ in found} for test, found in lines.items()}


def test_ochiai_is_the_formula() -> None:
    found = ochiai(by_path({"t1": [A, B], "t2": [A, C], "t3": [A]}), {"t1": False, "t2": True, "t3": True})
    assert found == {A: pytest.approx(1 / math.sqrt(3)), B: 1.0, C: 0.0}
    assert rank_of(found, B) == 1.0
    assert rank_of({A: 1.0, B: 1.0, C: 0.5}, A) == 1.5
    assert rank_of(found, ("s.py", 9)) is None


def test_nothing_is_suspicious_where_nothing_failed_or_nothing_was_seen() -> None:
    assert ochiai(by_path({"t": [A]}), {"t": True}) == {}
    assert ochiai({}, {"t": False}) == {}


LINES = st.lists(st.sampled_from([A, B, C]), max_size=3)


@given(st.dictionaries(st.sampled_from("abcde"), LINES, min_size=1), st.data())
def test_suspicion_is_a_share_and_highest_for_what_only_failing_tests_run(
    lines: dict[str, list[tuple[str, int]]], data: st.DataObject
) -> None:
    passed = {name: data.draw(st.booleans()) for name in lines}
    found = ochiai(by_path(lines), passed)
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in found.values())
    for line, value in found.items():
        everywhere = all((line in lines[name]) is not passed[name] for name in lines)
        assert not everywhere or value == pytest.approx(1.0)


def test_edits_are_told_by_the_lines_of_the_tree_as_given() -> None:
    before = {"s.py": b"a\nb\nc\n", "t.py": b"x\n"}
    assert edited_spans(before, {**before, "s.py": b"a\nB\nc\n"}) == (span(2),)
    assert edited_spans(before, {**before, "s.py": b"a\nb\nnew\nc\n"}) == (span(2, 3),)
    assert edited_spans(before, {**before, "s.py": b"a\nb\n"}) == (span(3),)
    assert edited_spans(before, before) == ()
    suspicion = {A: 0.25, B: 0.75}
    assert edited_share(before, {**before, "s.py": b"a\nB\nc\n"}, suspicion) == 0.75
    assert edited_share(before, before, suspicion) == 0.0
    assert edited_share(before, {}, {}) == 0.0


@pytest.mark.parametrize(("block", "claims"), [
    ("s.py:2", (span(2),)), ("s.py:2-3\nlib/t.py:9", (span(2, 3), span(9, path="lib/t.py"))), ("", ()),
    ("s.py:1\ns.py:2\ns.py:3\ns.py:4", ()), ("s.py:1-999", ()), ("s.py:5-2", ()), ("s.py:0", ()), ("s.py", ()),
    ("line 2 of s.py", ()), ("s.py:1\nand more", ()),
])
def test_a_claim_block_is_read_strictly(block: str, claims: tuple[Span, ...]) -> None:
    assert claims_of(f"I think it is here:\n```claim\n{block}\n```\nok") == claims


def test_only_the_first_claim_counts() -> None:
    turns = [Turn(text="thinking"), Turn(text="```claim\ns.py:9\n```"), Turn(text="```claim\ns.py:2\n```")]
    assert first_claims(turns) == (span(9),)
    assert first_claims(turns[:1]) is None


def test_a_claim_is_worth_its_f1() -> None:
    gold = (span(2), span(10, 12))
    assert claim_value([span(2), span(11)], gold) == 1.0
    assert claim_value([span(2)], gold) == pytest.approx(2 / 3)
    assert claim_value([span(2), span(2)], gold) == pytest.approx(2 / 3)
    assert claim_value([span(2), span(50), span(60)], (span(2),)) == pytest.approx(0.5)
    assert claim_value([span(2, path="other.py")], gold) == claim_value([], gold) == claim_value([span(1)], ()) == 0.0


GIVEN = {"s.py": b"def f(x):\n    y = x + 1\n    return y\n"}
ORACLE = {"s.py": b"def f(x):\n    y = x - 1\n    return y\n"}
SUITE = PythonSuite(files={"test_s.py": b"from s import f\ndef test_f(): assert f(1) == 0\n"}, modules=("s",))
ITEM = Item.sealed(Exam(hidden=SUITE, oracle=ORACLE), id="t/1", instructions="fix it", files=GIVEN)


def claimed(*replies: str, item: Item = ITEM) -> float | None:
    attempt = Attempt(task=item.task, turns=tuple(Turn(text=reply) for reply in replies))
    return asyncio.run(ClaimGrader().grade(attempt, item))[0].value


def test_the_grader_compares_with_where_the_reference_differs() -> None:
    assert claimed("```claim\ns.py:2\n```") == 1.0
    assert claimed("```claim\ns.py:3\n```", "```claim\ns.py:2\n```") == 0.0
    assert claimed("no claim") is None
    bare = Item.sealed(Exam(hidden=SUITE, oracle={"other.py": b""}), id="t/2", instructions="write it", files=GIVEN)
    assert claimed("```claim\ns.py:2\n```", item=bare) is None


def test_a_right_claim_is_paid_once_and_only_where_the_task_was_not_solved() -> None:
    attempt = Attempt(task=ITEM.task, turns=(Turn(text="```claim\ns.py:2\n```"),))
    scores = asyncio.run(ClaimGrader().grade(attempt, ITEM))
    wrong = Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message="no")
    unsolved = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=Passed.FAILED, fault=wrong),))
    solved = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=Passed.PASSED),))
    paid = [reward_of(v, scores=(*scores, *scores)) for v in (unsolved, solved)]
    assert [r.total for r in paid if r] == [pytest.approx(0.10), pytest.approx(0.80)]


def test_a_docstring_or_a_comment_of_the_reference_is_no_place() -> None:
    given_files = {"s.py": b"def f(x):\n    return x\n\n\n'''About f.'''\n\n# a note\n"}
    oracle = {"s.py": b"def f(x):\n    return -x\n", "new.py": b"y = 1\n"}
    assert gold_spans(given_files, oracle) == (span(2),)
    assert gold_spans({"s.js": b"a\n\nb\n"}, {"s.js": b"a\nb\n"}) == ()
