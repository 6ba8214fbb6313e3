"""What a check found of a task: the problem, the evidence, and what its author should do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Result(StrEnum):
    """PASS: nothing wrong was found. FAIL: the task must not be paid for as it is. WARN: it works, and somebody should
    look. NOT_MEASURED: it could not be tried, which is neither."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_MEASURED = "not_measured"


class Problem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is wrong. `code` names its kind in one or two words, the same wherever it occurs; `file` and
    `line` (from 1, 0: none) say where, `tests` which tests it is about. `fails` tells a FAIL from a WARN."""

    code: str
    text: str
    file: str = ""
    line: int = 0
    tests: tuple[str, ...] = ()
    fails: bool = True

    def __str__(self) -> str:
        place = f"{self.file}{f':{self.line}' if self.line else ''}: " if self.file else ""
        return f"{place}{self.text}"


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one check said of one task. `evidence` are lines that hold whatever the result; `remedy` is for the author.
    `figures` are what was measured, with their units in their names."""

    check: str
    result: Result
    problems: tuple[Problem, ...] = ()
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    figures: dict[str, float] = {}
    seconds: float = 0.0


class Ruling(StrEnum):
    """ADMITTED: it may be trained on. AUGMENT: sound, but its tests notice too little. REJECTED: a check failed.
    UNPROVEN: nothing failed, and nothing shows that it can be solved, or a check that decides was not measured."""

    ADMITTED = "admitted"
    AUGMENT = "augment"
    REJECTED = "rejected"
    UNPROVEN = "unproven"


class Admission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known of one task: what every check found, and what follows. `version` is the task's own ('' where it
    could not be read)."""

    task: str
    version: str
    ruling: Ruling
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, in the order of the checks."""
        return tuple(problem for finding in self.findings for problem in finding.problems)

    def finding(self, check: str) -> Finding | None:
        return next((finding for finding in self.findings if finding.check == check), None)


#: The one problem that asks for more tests instead of a refusal.
AUGMENT_CODE = "few kills"
#: Without these nothing shows that a task can be solved, or that a wrong answer is told from a right one.
DECISIVE = frozenset({"oracle", "null"})


def found(
    check: str, problems: Sequence[Problem] = (), *, evidence: Sequence[str] = (), remedy: str = "",
    figures: dict[str, float] | None = None,
) -> Finding:
    """The finding that follows from problems: FAIL where one fails, WARN where there are others, else PASS."""
    result = Result.PASS
    if problems:
        result = Result.FAIL if any(problem.fails for problem in problems) else Result.WARN
    return Finding(check=check, result=result, problems=tuple(problems), evidence=tuple(evidence),
                   remedy=remedy if problems else "", figures=figures or {})


def unmeasured(check: str, why: str, *, remedy: str = "") -> Finding:
    return Finding(check=check, result=Result.NOT_MEASURED, evidence=(why,), remedy=remedy)


def ruling_of(findings: Sequence[Finding]) -> Ruling:
    """What follows from all findings. Pure."""
    failing = [problem for finding in findings if finding.result is Result.FAIL
               for problem in finding.problems if problem.fails]
    if any(problem.code != AUGMENT_CODE for problem in failing):
        return Ruling.REJECTED
    if failing:
        return Ruling.AUGMENT
    measured = {finding.check for finding in findings if finding.result is not Result.NOT_MEASURED}
    return Ruling.ADMITTED if measured >= DECISIVE else Ruling.UNPROVEN
