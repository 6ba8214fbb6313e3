"""From a report to a verdict: every required test exactly once, and everything that is no pass has failed.

The level says who could have written the report: where the answer shared a process with the runner, the report is the
answer's word, and the caller gives the level that its sandboxes reached, never this module.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.grade.reports.base import Report, ReportedTest, Told
from quintain.types import Evidence, Fault, FaultKind, Outcome, Owner, Passed, TestResult, Verdict

LEVELS = ("L0", "L1", "L2", "L3", "L4")
_MOST_PROBLEMS = 8


def verdict_of(
    report: Report, *, required: Sequence[str], level: str, suite: str = "", outcome: Outcome | None = None,
    excused: Collection[Told] = (), raw: bytes | None = None,
) -> Verdict:
    """What a report comes to. `required` are the ids that must each be reported exactly once (empty: whatever is
    reported); `outcome` is how the runner ended as the backend measured it; `raw` is kept by digest in the evidence.

    Absence, a skip and an expected failure have failed, unless the task's own rule excuses the status: such tests are
    left out and counted in the evidence. A report that cannot be read is the house's fault, one without any test the
    task's, one that stops early the answer's. Raises ValueError for a level or an excuse that there is not.
    """
    if level not in LEVELS:
        raise ValueError(f"expected a level out of {', '.join(LEVELS)}; found {level!r}")
    if not set(excused) <= {Told.SKIPPED, Told.XFAILED, Told.XPASSED}:
        raise ValueError(f"expected only skipped, xfailed or xpassed to be excused, found {sorted(excused)}")
    names = tuple(required) or tuple(dict.fromkeys(test.id for test in report.tests))
    seen = _evidence(report, outcome, raw)
    if report.unreadable is not None:
        fault = Fault(owner=Owner.HOUSE, kind=FaultKind.VERIFIER_ERROR, message=f"report: {report.unreadable}")
        tests = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in names)
        return Verdict(suite=suite, level=level, tests=tests, fault=fault, evidence=seen, build=verifier_build())
    found = {name: _matching(name, report) for name in names}
    kept = [name for name in names if not (len(found[name]) == 1 and found[name][0].status in excused)]
    results = tuple(_result(name, found[name], report, level == LEVELS[-1]) for name in kept)
    if len(kept) < len(names):
        seen = (*seen, Evidence(source="report", text=f"{len(names) - len(kept)} tests excused by the task's rule"))
    return Verdict(suite=suite, level=level, tests=results, fault=_whole(report, results, outcome, bool(required)),
                   evidence=seen, build=verifier_build())


def normal_id(id: str) -> str:
    """One form for the ids of all formats: `tests/test_a.py::TestC::test_m[x]`, `tests.test_a.TestC::test_m[x]` and
    `tests.test_a.TestC.test_m[x]` are the same. What stands in brackets is left alone, but for characters that a
    runner escapes: control characters and those beyond ASCII."""
    path, joint, rest = id.partition("::")
    bracket = path.find("[")
    if bracket >= 0:  # the joint, if any, belongs to a parameter
        path, joint, rest = id[:bracket], "", id[bracket:]
        return _escaped(_dotted(path) + rest)
    head, opening, parameters = rest.partition("[")
    return _escaped(_dotted(path) + ("." if joint else "") + head.replace("::", ".") + opening + parameters)


def _dotted(path: str) -> str:
    return path.removeprefix("./").removesuffix(".py").replace(".py::", ".").replace("::", ".").replace("/", ".")


def _escaped(text: str) -> str:
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)


def _matching(name: str, report: Report) -> list[ReportedTest]:
    """The reported tests that a required id means: the very id, else its normal form, else the one whose end it is."""
    exact = [test for test in report.tests if test.id == name]
    if exact:
        return exact
    wanted = normal_id(name)
    same = [test for test in report.tests if normal_id(test.id) == wanted]
    if same:
        return same if len({test.id for test in same}) == 1 else []
    ends = [test for test in report.tests if test.id.endswith("::" + name)]
    return ends if len({test.id for test in ends}) == 1 else []


def _result(name: str, tests: list[ReportedTest], report: Report, trusted: bool) -> TestResult:
    if not tests:
        return TestResult(id=name, passed=Passed.MISSING, fault=_absent(name, report))
    if len(tests) > 1:
        fault = _fault(FaultKind.MISSING_REQUIRED_TEST, f"expected one report of {name}, found {len(tests)}")
        return TestResult(id=name, passed=Passed.FAILED, fault=fault)
    test = tests[0]
    if test.status is Told.PASSED:
        return TestResult(id=name, passed=Passed.PASSED)
    passed = Passed.MISSING if test.status is Told.MISSING else Passed.FAILED
    return TestResult(id=name, passed=passed, fault=_fault_of(test, trusted))


def _absent(name: str, report: Report) -> Fault:
    """Why a required test is not there: its file did not load, the run ended before it, or it does not exist."""
    file = name.partition("::")[0]
    broken = next((test for test in report.tests if test.status is Told.ERROR and test.id in (file, normal_id(file))),
                  None)
    if broken is not None:
        return _fault_of(broken)
    if not report.complete:
        why = "; ".join(report.problems[:2])
        return _fault(FaultKind.EARLY_EXIT, f"{name} was not reached: {why}")
    return _fault(FaultKind.MISSING_REQUIRED_TEST, f"{name} was not reported")


#: How a message begins, and what that means; the first that fits decides.
_MESSAGES: tuple[tuple[re.Pattern[str], FaultKind], ...] = tuple((re.compile(pattern), kind) for pattern, kind in (
    (r"(?:\w+\.)*(?:SyntaxError|IndentationError|TabError)\b", FaultKind.SYNTAX_ERROR),
    (r"(?:\w+\.)*ModuleNotFoundError\b|Cannot find module|.*ModuleNotFoundError: ", FaultKind.MISSING_DEPENDENCY),
    (r"(?:\w+\.)*(?:AssertionError|Failed)\b|assert |assertion |\[ERR_ASSERTION\]|Error: expect\(",
     FaultKind.ASSERTION_ERROR),
    (r"(?:\w+\.)*MemoryError\b", FaultKind.MEMORY_ERROR),
    (r"(?:\w+\.)*RecursionError\b|RangeError: Maximum call stack", FaultKind.RECURSION_ERROR),
    (r"(?:\w+\.)*SystemExit\b", FaultKind.EARLY_EXIT),
    (r"Timeout\b|.*exceeded timeout of", FaultKind.TIMEOUT),
    (r"(?:build failed|undefined: |cannot find package)", FaultKind.BUILD_ERROR),
))
_RAISED = re.compile(r"(?P<type>(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Warning|Interrupt|Group))\b")


def _fault_of(test: ReportedTest, trusted: bool = False) -> Fault:
    """The fault of a test that is no pass. A strict expected failure that passes is out of date, which is the task's,
    where the answer could not have written the report."""
    said = test.message or test.status.value
    if test.message.startswith("[XPASS(strict)]"):
        owner, kind = (Owner.TASK, FaultKind.TASK_INVALID) if trusted else (Owner.POLICY, FaultKind.SKIPPED_TEST)
        return Fault(owner=owner, kind=kind, message=said, file=test.file, line=test.line, exception="xpass_strict")
    if test.status in (Told.SKIPPED, Told.XFAILED, Told.XPASSED):
        return _fault(FaultKind.SKIPPED_TEST, ": ".join(dict.fromkeys((test.status.value, said))), test)
    if test.status is Told.MISSING:
        return _fault(FaultKind.EARLY_EXIT, f"{test.id} began and did not end", test)
    raised = _RAISED.match(test.message)
    other = FaultKind.RUNTIME_ERROR if raised or test.status is Told.ERROR else FaultKind.ASSERTION_ERROR
    kind = next((kind for pattern, kind in _MESSAGES if pattern.match(test.message)), other)
    return _fault(kind, said, test, raised["type"].rpartition(".")[2] if raised else None)


def _whole(report: Report, results: Sequence[TestResult], outcome: Outcome | None, named: bool) -> Fault | None:
    """The fault of the run as a whole."""
    if not results and not (named and report.tests):
        if report.complete:
            return Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="no test was reported")
        why = "; ".join(report.problems[:2]) or "no end"
        return Fault(owner=Owner.HOUSE, kind=FaultKind.VERIFIER_ERROR, message=f"no test was reported: {why}")
    if not results:
        return Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="every required test is excused")
    if not report.complete:
        return _fault(FaultKind.EARLY_EXIT, "the report is not whole: " + "; ".join(report.problems[:_MOST_PROBLEMS]))
    passed = sum(result.passed is Passed.PASSED for result in results)
    green = not any(test.status in (Told.FAILED, Told.ERROR, Told.XPASSED) for test in report.tests)
    if outcome is not None and outcome.exit_code != 0 and passed == len(results) and green:
        how = f"exit code {outcome.exit_code}" if outcome.signal is None else f"signal {outcome.signal}"
        text = f"{passed} of {len(results)} tests passed, and the runner ended with {how}"
        return _fault(FaultKind.NONZERO_EXIT, text)
    return None


def _fault(kind: FaultKind, message: str, test: ReportedTest | None = None, exception: str | None = None) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message, file=test.file if test else None,
                 line=test.line if test else None, exception=exception)


def _evidence(report: Report, outcome: Outcome | None, raw: bytes | None) -> tuple[Evidence, ...]:
    counts = ", ".join(f"{count} {status.value}" for status, count in report.counts.items() if count) or "no tests"
    whole = "whole" if report.complete else "not whole"
    digest = hashlib.sha256(raw).hexdigest() if raw is not None else None
    found = [Evidence(source="report", text=f"{report.format}: {counts}; {whole}", blob=digest)]
    found += [Evidence(source="report", text=problem[:300]) for problem in report.problems[:_MOST_PROBLEMS]]
    if report.duplicates:
        found.append(Evidence(source="report", text=f"named more than once: {', '.join(report.duplicates[:5])}"[:300]))
    return (*found, *(evidence.of_outcome("runner", outcome) if outcome is not None else ()))
