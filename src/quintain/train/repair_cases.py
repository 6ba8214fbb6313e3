"""From tasks and verdicts to the cases that the repairing policy reads. Only what a policy may see goes in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quintain.train.repair_edits import read_code
from quintain.train.repair_features import Case, Test
from quintain.types import Fault, FaultKind, Passed, Task, Verdict

_TOLD = re.compile(
    r"^- (?P<call>.+) == (?P<expected>.+?): (?P<seen>passed|found .*|took too long|\w+ in line \d+|\w+)$")
_ASSERTED = re.compile(r"assert (?P<call>.+) == (?P<expected>.+?): found (?P<found>.*)", re.DOTALL)
#: What was found is kept in so many characters.
FOUND_CHARS = 60


def case_of(task: Task) -> Case:
    """The case of a repair task as it is asked. Raises ValueError for a task that is none: one whose instructions do
    not tell how its tests go, or whose entry file is not among its files."""
    content = task.files.get(task.entry.path)
    if content is None:
        raise ValueError(f"task {task.id}: expected {task.entry.path} among the task's files, found none")
    lines = task.instructions.splitlines()
    tests = tuple(read_told(line) for line in lines if line.startswith("- "))
    if not tests:
        raise ValueError(f"task {task.id}: expected lines `- CALL == VALUE: …` in its instructions, found none")
    about = lines[1] if len(lines) > 1 else ""
    return Case(about=about, code=read_code(content.decode()), tests=tests)


def read_told(line: str) -> Test:
    """One line of a report. Raises ValueError for a line that is none."""
    match = _TOLD.match(line)
    if match is None:
        raise ValueError(
            f"expected `- CALL == VALUE: passed | found … | took too long | ERROR in line N`, found {line!r}")
    call, expected, seen = match["call"], match["expected"], match["seen"]
    if seen == "passed":
        return Test(call=call, expected=expected)
    if seen == "took too long":
        return Test(call=call, expected=expected, outcome="late")
    if seen.startswith("found "):
        return Test(call=call, expected=expected, outcome="wrong", found=seen.removeprefix("found "))
    kind, _, place = seen.partition(" in line ")
    return Test(call=call, expected=expected, outcome=kind, line=int(place) if place else None)


def tell(test: Test) -> str:
    """What a report says of a test: the opposite of `read_told`, without the call."""
    match test.outcome:
        case "passed":
            return "passed"
        case "late":
            return "took too long"
        case "wrong":
            return f"found {test.found}"
        case _:
            return test.outcome if test.line is None else f"{test.outcome} in line {test.line}"


def tests_after(known: Sequence[Test], verdict: Verdict) -> tuple[Test, ...]:
    """How the shown tests went in a verdict of a suite that begins with them: of the others nothing is read."""
    results = {result.id: result for result in verdict.tests}
    found = []
    for number, test in enumerate(known):
        result = results.get(f"test_solution.py::test_{number}")
        fault = verdict.fault if result is None else result.fault
        passed = result is not None and result.passed is Passed.PASSED
        found.append(Test(call=test.call, expected=test.expected) if passed else _failed(test, fault))
    return tuple(found)


def _failed(test: Test, fault: Fault | None) -> Test:
    call, expected = test.call, test.expected
    if fault is None:
        return Test(call=call, expected=expected, outcome="other")
    if fault.kind in (FaultKind.TIMEOUT, FaultKind.CPU_LIMIT):
        return Test(call=call, expected=expected, outcome="late")
    match = _ASSERTED.search(fault.message)
    if match is not None:
        found = match["found"].rpartition(" == ")[0].replace("\n", " ")[:FOUND_CHARS]
        return Test(call=call, expected=expected, outcome="wrong", found=found)
    line = fault.line if fault.file == "solution.py" else None
    return Test(call=call, expected=expected, outcome=fault.exception or "other", line=line)
