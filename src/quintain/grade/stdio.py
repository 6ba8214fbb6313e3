"""Programs checked by what they print: stdin, arguments and files go in, bytes come out and are compared out here.

Covers: the expected output never enters a sandbox; each case has a fresh sandbox, so that nothing is left over from one
case to the next; output, time, memory and exit code are bounded or measured from outside.
Does not cover: interactive programs, and answers of which several are right.
"""

from __future__ import annotations

import time

import msgspec

from quintain.sandbox import Backend
from quintain.tasks import Compare, StdioCase, StdioSuite
from quintain.types import (
    Fault,
    FaultKind,
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


async def check_program(
    backend: Backend, suite: StdioSuite, program: Program, *, image: str = "host", limits: Limits
) -> Verdict:
    """Run every case. A program without `argv` cannot be started: MISSING_ENTRY_POINT. Raises HouseError."""
    started = time.monotonic()
    tests: list[TestResult] = []
    cpu: list[float | None] = []
    for case in suite.cases:
        if not program.argv:
            fault = _fault(FaultKind.MISSING_ENTRY_POINT, "there is nothing to start: the program has no command")
            tests.append(TestResult(id=case.name, passed=Passed.FAILED, fault=fault))
            continue
        room = msgspec.structs.replace(limits, output_bytes=max(limits.output_bytes, len(case.stdout) + _SLACK_BYTES))
        async with backend.open(image, limits=room) as (sandbox,):
            await sandbox.files.write_many({**program.files, **case.files})
            outcome = await sandbox.run([*program.argv, *case.argv], stdin=case.stdin, env=program.env)
        cpu.append(outcome.cpu_seconds)
        problem = check_outcome(case, outcome, compare=suite.compare, command=program.argv[0])
        passed = Passed.PASSED if problem is None else Passed.FAILED
        tests.append(TestResult(id=case.name, passed=passed, fault=problem))
    return Verdict(
        suite=content_digest(suite), level="L4", tests=tuple(tests), fault=_whole(tests),
        wall_seconds=time.monotonic() - started, cpu_seconds=sum(c or 0.0 for c in cpu) if any(cpu) else None,
    )


def _whole(tests: list[TestResult]) -> Fault | None:
    if not tests:
        return Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="the suite has no cases")
    return next((t.fault for t in tests if t.fault is not None and t.fault.owner is Owner.TASK), None)


def check_outcome(case: StdioCase, outcome: Outcome, *, compare: Compare, command: str) -> Fault | None:
    """What is wrong with the outcome of a case, or None. Limits come first, then the exit code, then the output."""
    limit = _limit(outcome, command)
    if limit is not None:
        return limit
    code = outcome.exit_code
    if code is None:
        return _fault(FaultKind.CRASH_SIGNAL, f"ended by signal {outcome.signal}{_said(outcome)}")
    if case.exit_code is not None and code != case.exit_code:
        return _fault(_kind_of_exit(outcome), f"expected exit code {case.exit_code}, found {code}{_said(outcome)}")
    if outcome.stdout_truncated:
        return _fault(FaultKind.OUTPUT_LIMIT, f"wrote {outcome.stdout_bytes} bytes, more than is kept")
    if same_output(case.stdout, outcome.stdout, compare):
        return None
    return _fault(FaultKind.WRONG_ANSWER, difference(case.stdout, outcome.stdout))


def _limit(outcome: Outcome, command: str) -> Fault | None:
    kinds = {Status.TIMED_OUT: FaultKind.TIMEOUT, Status.CPU_LIMIT: FaultKind.CPU_LIMIT,
             Status.OUT_OF_MEMORY: FaultKind.OOM_KILL, Status.OUTPUT_LIMIT: FaultKind.OUTPUT_LIMIT}
    if outcome.status in kinds:
        return _fault(kinds[outcome.status], f"{outcome.status.value} after {outcome.wall_seconds:.2f} s")
    if outcome.status is not Status.NOT_STARTED:
        return None
    text = f"{command} could not be started: {outcome.error_text[-_SHOWN_BYTES:].strip()}"
    if "/" in command:  # a file of the program's own
        return _fault(FaultKind.MISSING_ENTRY_POINT, text)
    return Fault(owner=Owner.TASK, kind=FaultKind.TASK_ENVIRONMENT, message=text)


#: The last line of a Python traceback, where it tells more than an exit code does.
_TOLD: dict[bytes, FaultKind] = {
    b"SyntaxError": FaultKind.SYNTAX_ERROR, b"IndentationError": FaultKind.SYNTAX_ERROR,
    b"ModuleNotFoundError": FaultKind.MISSING_DEPENDENCY, b"MemoryError": FaultKind.MEMORY_ERROR,
    b"RecursionError": FaultKind.RECURSION_ERROR, b"EOFError": FaultKind.READS_STDIN,
}


def _kind_of_exit(outcome: Outcome) -> FaultKind:
    """The kind of a wrong exit code. The program's own words can only choose between faults that are all its own."""
    lines = outcome.stderr.strip().splitlines()
    last = lines[-1] if lines else b""
    name = last.split(b":", 1)[0].strip()
    if name in _TOLD:
        return _TOLD[name]
    if outcome.stderr.find(b"Traceback (most recent call last):") >= 0:
        return FaultKind.RUNTIME_ERROR
    return FaultKind.NONZERO_EXIT if outcome.exit_code else FaultKind.WRONG_ANSWER


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


def _said(outcome: Outcome) -> str:
    lines = outcome.error_text.strip().splitlines()
    return f": {lines[-1][:_SHOWN_BYTES]}" if lines else ""


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
