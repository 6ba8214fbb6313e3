"""Jest's result object (`--json`) and its verbose text (`--verbose`).

Source: jest 27 to 30, `FormattedTestResults` and the verbose reporter. A suite that could not be run has no tests
and is one error of its own.
"""

from __future__ import annotations

import re

import msgspec

from quintain.grade.reports.base import (
    MAX_REPORT_BYTES,
    Report,
    ReportedTest,
    Told,
    below,
    brief,
    closed,
    text_of,
    unreadable,
)

_STATUS = {"passed": Told.PASSED, "failed": Told.FAILED, "pending": Told.SKIPPED, "skipped": Told.SKIPPED,
           "disabled": Told.SKIPPED, "todo": Told.SKIPPED, "focused": Told.SKIPPED}


class _Location(msgspec.Struct):
    line: int


class _Assertion(msgspec.Struct, rename="camel"):
    title: str
    status: str
    failing: bool = False
    ancestor_titles: list[str] = []
    failure_messages: list[str] | None = None
    location: _Location | None = None


class _File(msgspec.Struct, rename="camel"):
    name: str
    status: str = ""
    message: str = ""
    assertion_results: list[_Assertion] = []


class _Results(msgspec.Struct, rename="camel"):
    test_results: list[_File]
    num_total_tests: int
    num_failed_tests: int = 0
    num_passed_tests: int = 0
    num_runtime_error_test_suites: int = 0
    was_interrupted: bool = False


def read_jest_json(data: bytes, root: str = "") -> Report:
    """Ids are `file::outer > inner > title`."""
    if len(data) > MAX_REPORT_BYTES:
        return unreadable("jest-json", f"expected at most {MAX_REPORT_BYTES} bytes, found {len(data)}")
    try:
        results = msgspec.json.decode(data, type=_Results)
    except msgspec.MsgspecError as error:
        return unreadable("jest-json", f"expected jest's results as JSON: {error}")
    tests: list[ReportedTest] = []
    broken: list[ReportedTest] = []
    passed = failed = 0
    for file in results.test_results:
        path = below(file.name, root)
        if not file.assertion_results and file.status == "failed":
            broken.append(ReportedTest(id=path, status=Told.ERROR, message=brief(file.message), file=path))
        for one in file.assertion_results:
            passed += one.status == "passed"
            failed += one.status == "failed"
            tests.append(ReportedTest(
                id=f"{path}::{' > '.join([*one.ancestor_titles, one.title])}",
                status=_status(one), message=brief((one.failure_messages or [""])[0]),
                file=path, line=one.location.line if one.location else None,
            ))
    return closed(
        "jest-json", [*tests, *broken], ended=not results.was_interrupted, executed=len(tests),
        collected=results.num_total_tests, claimed={
            "passed": (results.num_passed_tests, passed),
            "failed": (results.num_failed_tests, failed),
            "suites that did not run": (results.num_runtime_error_test_suites, len(broken)),
        },
    )


def _status(one: _Assertion) -> Told:
    """jest turns the result of `test.failing` round: told as passed, it failed as expected."""
    if one.failing and one.status in ("passed", "failed"):
        return Told.XFAILED if one.status == "passed" else Told.XPASSED
    return _STATUS.get(one.status, Told.ERROR)


_FILE = re.compile(r"(?:PASS|FAIL) (?P<file>\S.*?)(?: \([\d.]+ m?s\))?$")
_MARK = re.compile(r"(?P<indent> +)(?P<mark>[✓✕○✎√×]) (?P<title>.*?)(?: \([\d.]+ m?s\))?$")
_GROUP = re.compile(r"(?P<indent> +)(?P<title>\S.*)$")
_MARKS = {"✓": Told.PASSED, "√": Told.PASSED, "✕": Told.FAILED, "×": Told.FAILED, "○": Told.SKIPPED, "✎": Told.SKIPPED}
_TOTAL = re.compile(r"Tests: +(?P<counts>.*?)(?P<total>\d+) total$")


def read_jest_text(data: bytes, root: str = "") -> Report:
    """Ids are `file::outer > inner > title`, as in the JSON. A title of several lines is cut to its first: the JSON is
    the better report."""
    lines = text_of(data).split("\n")
    end = max((i for i, line in enumerate(lines) if _TOTAL.match(line)), default=None)
    tests: list[ReportedTest] = []
    file = ""
    groups: list[str] = []
    listing = False
    broken: list[ReportedTest] = []
    for line in lines[:end]:
        head = _FILE.match(line)
        if head is not None:
            file, groups, listing = below(head["file"], root), [], True
        elif line.startswith("  ● "):
            if "Test suite failed to run" in line:
                broken.append(ReportedTest(id=file, status=Told.ERROR, message=line[4:], file=file or None))
            listing = False
        elif listing and line.startswith("  ") and line.strip():
            groups = _entry(line, file, groups, tests)
    if end is None:
        return closed("jest", [*tests, *broken], ended=False, claimed={})
    total = _TOTAL.match(lines[end])
    said = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", total["counts"])} if total else {}
    passed, failed = (sum(test.status is status for test in tests) for status in (Told.PASSED, Told.FAILED))
    return closed(
        "jest", [*tests, *broken], ended=True, collected=int(total["total"]) if total else None, executed=len(tests),
        claimed={"passed": (said.get("passed", 0), passed), "failed": (said.get("failed", 0), failed)},
    )


def _entry(line: str, file: str, groups: list[str], tests: list[ReportedTest]) -> list[str]:
    """Add a line of the listing; the groups that are open after it."""
    mark = _MARK.match(line)
    if mark is None:
        group = _GROUP.match(line)
        depth = len(group["indent"]) // 2 - 1 if group else 0
        return [*groups[:depth], group["title"]] if group else groups
    depth = len(mark["indent"]) // 2 - 1
    title = re.sub(r"^(?:skipped|todo) ", "", mark["title"]) if mark["mark"] in "○✎" else mark["title"]
    inside = groups[:depth]
    tests.append(ReportedTest(id=f"{file}::{' > '.join([*inside, title])}", status=_MARKS[mark["mark"]], file=file))
    return inside
