"""Programs checked by what they print: stdin, arguments and files go in, bytes come out and are compared out here.

Covers: the expected output never enters a sandbox; each case has a fresh sandbox, so that nothing is left over from one
case to the next; output, time, memory and exit code are bounded or measured from outside.
Does not cover: interactive programs, and answers of which several are right.
"""

from __future__ import annotations

import time

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.grade.doubt import is_the_houses
from quintain.grade.judge import unplaced
from quintain.program import diagnose_outcome
from quintain.sandbox import Backend
from quintain.tasks import Compare, StdioCase, StdioSuite
from quintain.types import (
    Evidence,
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Outcome,
    Owner,
    Passed,
    Program,
    Status,
    TestResult,
    Verdict,
    content_digest,
)

_SHOWN_BYTES = 200
_SLACK_BYTES = 64 * 1024
_MOST_EVIDENCE = 24
#: CPU time is limited anyway: that Python refuses to write long integers by default is no fault of an answer.
_ENVIRONMENT = {"PYTHONINTMAXSTRDIGITS": "0"}


async def check_program(
    backend: Backend, suite: StdioSuite, program: Program, *, image: str = "host", limits: Limits
) -> Verdict:
    """Run every case. A program without `argv` cannot be started: MISSING_ENTRY_POINT. Raises HouseError."""
    started = time.monotonic()
    tests: list[TestResult] = []
    cpu: list[float | None] = []
    seen: list[Evidence] = []
    for case in suite.cases:
        if not program.argv:
            fault = _fault(FaultKind.MISSING_ENTRY_POINT, "there is nothing to start: the program has no command")
            tests.append(TestResult(id=case.name, passed=Passed.FAILED, fault=fault))
            continue
        room = msgspec.structs.replace(limits, output_bytes=max(limits.output_bytes, len(case.stdout) + _SLACK_BYTES))
        async with backend.open(image, limits=room) as (sandbox,):
            try:
                await sandbox.files.write_many(case.files)
            except OSError as error:
                raise HouseError(FaultKind.VERIFIER_ERROR, f"the case's files cannot be written: {error}") from None
            try:
                await sandbox.files.write_many({p: c for p, c in program.files.items() if p not in case.files})
            except OSError as error:  # too many, too large, a name too long: the answer's doing, and judged
                if is_the_houses(error, program.files, room):
                    raise HouseError(FaultKind.SANDBOX_LOST, f"the answer cannot be written: {error}") from None
                names = [c.name for c in suite.cases]
                return unplaced(content_digest(suite), names, error, time.monotonic() - started)
            outcome = await sandbox.run(
                [*program.argv, *case.argv], stdin=case.stdin, env={**_ENVIRONMENT, **program.env})
        cpu.append(outcome.cpu_seconds)
        if len(seen) < _MOST_EVIDENCE:
            seen += evidence.of_outcome(f"case {case.name}", outcome)
        problem = check_outcome(case, outcome, program, compare=suite.compare)
        passed = Passed.PASSED if problem is None else Passed.FAILED
        tests.append(TestResult(id=case.name, passed=passed, fault=problem))
    return Verdict(
        suite=content_digest(suite), level="L4", tests=tuple(tests), fault=_whole(tests),
        wall_seconds=time.monotonic() - started, cpu_seconds=sum(c or 0.0 for c in cpu) if any(cpu) else None,
        build=verifier_build(), evidence=tuple(seen[:_MOST_EVIDENCE]),
    )


def _whole(tests: list[TestResult]) -> Fault | None:
    if not tests:
        return Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="the suite has no cases")
    return next((t.fault for t in tests if t.fault is not None and t.fault.owner is not Owner.POLICY), None)


def check_outcome(case: StdioCase, outcome: Outcome, program: Program, *, compare: Compare) -> Fault | None:
    """What is wrong with the outcome of a case, or None. How it ended comes first, then the output."""
    code = outcome.exit_code
    if code is None or (case.exit_code is not None and code != case.exit_code):
        told = diagnose_outcome(outcome, program)
        return told or _fault(FaultKind.WRONG_ANSWER, f"expected exit code {case.exit_code}, found {code}")
    if outcome.status not in (Status.OK, Status.FAILED):
        return diagnose_outcome(outcome, program)
    if outcome.stdout_truncated:
        return _fault(FaultKind.OUTPUT_LIMIT, f"wrote {outcome.stdout_bytes} bytes, more than is kept")
    if same_output(case.stdout, outcome.stdout, compare):
        return None
    return _fault(FaultKind.WRONG_ANSWER, difference(case.stdout, outcome.stdout))


def same_output(expected: bytes, found: bytes, compare: Compare) -> bool:
    """Whether an output is the expected one, in the given sense."""
    if compare is Compare.EXACT:
        return expected == found
    if compare is Compare.TOKENS:
        return expected.split() == found.split()
    return _trimmed(expected) == _trimmed(found)


def _trimmed(output: bytes) -> list[bytes]:
    lines = [line.rstrip() for line in output.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def difference(expected: bytes, found: bytes) -> str:
    """The first line that differs, in words."""
    wanted, got = expected.split(b"\n"), found.split(b"\n")
    for number in range(max(len(wanted), len(got))):
        one = wanted[number] if number < len(wanted) else None
        other = got[number] if number < len(got) else None
        if one != other:
            return f"line {number + 1}: expected {_shown(one)}, found {_shown(other)}"
    return "the same"


def _shown(line: bytes | None) -> str:
    if line is None:
        return "the end"
    return repr(line[:_SHOWN_BYTES].decode("utf-8", "replace")) + ("..." if len(line) > _SHOWN_BYTES else "")


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
