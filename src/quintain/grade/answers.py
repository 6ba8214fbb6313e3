"""Answers that are one value, judged: the last answer of a reply against the expected one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from quintain.grade.algebra import Algebra
from quintain.grade.math import Equivalence, Same, same_answer
from quintain.grade.mathclean import extract_answer
from quintain.grade.scalar import measured
from quintain.tasks import AnswerKind, AnswerSuite, Item
from quintain.types import (
    Attempt,
    Evidence,
    Fault,
    FaultKind,
    Owner,
    Passed,
    Score,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

#: The one test of an answer, and the isolation: no program of the policy's runs at all.
TEST, LEVEL = "answer", "L4"


def check_answer(suite: AnswerSuite, reply: str, *, algebra: Algebra | None = None) -> Verdict:
    """The verdict of a reply. Blocks for up to a few seconds. Raises TaskError for a suite whose expected answer cannot
    be understood or whose kind is not judged here, HouseError when formulas cannot be compared."""
    started = time.monotonic()
    given = extract_answer(reply)
    if given is None:
        said = "no answer is given: expected \\boxed{...}, or a last line `#### ...` or `Answer: ...`"
        return _verdict(suite, started, Fault(owner=Owner.POLICY, kind=FaultKind.NO_ANSWER, message=said))
    found = _compared(suite, given, algebra)
    shown = given if len(given) <= 200 else given[:200] + "..."
    evidence = (Evidence(source="answer", text=f"{shown!r}: {found.why}"),)
    if found.equal:
        return _verdict(suite, started, None, evidence)
    if found.same is Same.UNDECIDED:
        told = f"whether {shown!r} is the answer could not be decided: {found.why}"
        undecided = Fault(owner=Owner.HOUSE, kind=FaultKind.JUDGES_DISAGREE, message=told)
        return _verdict(suite, started, undecided, evidence)
    wrong = Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message=f"{shown!r} is not the answer")
    return _verdict(suite, started, wrong, evidence)


def _compared(suite: AnswerSuite, given: str, algebra: Algebra | None) -> Equivalence:
    if suite.kind is AnswerKind.MATH:
        return same_answer(given, suite.expected, algebra=algebra)
    if suite.kind is AnswerKind.TEXT:
        same = given.casefold().split() == suite.expected.casefold().split()
        return Equivalence(same=Same.YES if same else Same.NO, why="the same text" if same else "another text")
    raise TaskError(f"expected an answer of kind math or text, found {suite.kind.value!r}")


def _verdict(
    suite: AnswerSuite, started: float, fault: Fault | None, evidence: tuple[Evidence, ...] = ()
) -> Verdict:
    passed = Passed.PASSED if fault is None else Passed.FAILED
    whole = fault if fault is not None and fault.owner is not Owner.POLICY else None
    return Verdict(
        suite=content_digest(suite), level=LEVEL, tests=(TestResult(id=TEST, passed=passed, fault=fault),), fault=whole,
        wall_seconds=time.monotonic() - started, evidence=evidence,
    )


class AnswerGrader:
    """A Grader: 1 where the last reply of an attempt gives the expected answer, 0 where it gives another, None where
    that is undecided, or the task expects no single answer. Give it an `Algebra` to share; it closes none."""

    name = "answer"

    def __init__(self, algebra: Algebra | None = None) -> None:
        self._algebra = algebra

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        suite = item.exam.hidden
        if not isinstance(suite, AnswerSuite):
            return (measured(self.name, None, evidence="the task expects no single answer"),)
        reply = attempt.turns[-1].text if attempt.turns else ""
        verdict = await asyncio.to_thread(check_answer, suite, reply, algebra=self._algebra)
        seen = "; ".join(e.text for e in verdict.evidence)
        if verdict.fault is not None:
            return (measured(self.name, None, evidence=verdict.fault.message),)
        return (measured(self.name, verdict.share, evidence=seen),)
