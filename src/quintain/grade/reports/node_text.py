"""The `spec` reporter of node's own test runner: marks, titles, and the counts at the end.

Source: node 20 to 24, `lib/internal/test_runner/reporter/spec.js`. The failing tests are repeated at its end. What
tests print stands among the lines, so only the counts tell a printed mark from a true one.
"""

from __future__ import annotations

import re

from quintain.grade.reports.base import FILE_TITLE, Report, ReportedTest, Told, below, closed, text_of

_LINE = re.compile(r"(?P<indent> *)(?P<mark>[✔✖﹣▶]) (?P<title>.*?)(?: \([\d.]+ms\)(?: # (?P<why>.*))?)?$")
_COUNT = re.compile(r"ℹ (?P<what>tests|suites|pass|fail|cancelled|skipped|todo) (?P<count>\d+)$")
_MARKS = {"✔": Told.PASSED, "✖": Told.FAILED, "﹣": Told.SKIPPED}


def read_node(data: bytes, root: str = "") -> Report:
    """Ids are titles, those of subtests joined to their suites' with ` > `. A line that ends a suite counts as no test
    where the counts say so (`suites`)."""
    lines = text_of(data).split("\n")
    said: dict[str, int] = {}
    tests: list[ReportedTest] = []
    parents: list[str] = []
    groups: list[ReportedTest] = []
    for line in lines:
        count = _COUNT.match(line)
        if count is not None:
            said[count["what"]] = int(count["count"])
            continue
        match = _LINE.match(line)
        if match is None or said:
            continue
        depth, title = len(match["indent"]) // 2, below(match["title"], root)
        if match["mark"] == "▶":
            parents = [*parents[:depth], title]
            continue
        ends_group = len(parents) > depth and parents[depth] == title
        status = _MARKS[match["mark"]]
        why = match["why"] or ""
        if status is not Told.SKIPPED and match["why"] is not None:
            status = Told.XPASSED if status is Told.PASSED else Told.XFAILED
        if FILE_TITLE.search(title) and not ends_group:  # a file that ended before any test reported
            status = Told.MISSING
        test = ReportedTest(id=" > ".join([*parents[:depth], title]), status=status, message=why)
        parents = parents[:depth]
        (groups if ends_group else tests).append(test)
    if groups and said.get("suites", 0) < len(groups):  # a test with subtests is a test
        tests += groups if not said.get("suites") else groups[said["suites"]:]
    claimed = {"tests": (said["tests"], len(tests))} if "tests" in said else {}
    if "pass" in said:
        claimed["pass"] = (said["pass"], sum(test.status is Told.PASSED for test in tests))
    return closed("node", tests, ended="tests" in said, claimed=claimed)
