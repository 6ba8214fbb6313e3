"""Test reports: what each runner says, read into one form, and never believed more than its writer."""

from __future__ import annotations

from quintain.grade.reports.base import Reader, Report, ReportedTest, Told
from quintain.grade.reports.cargo import read_cargo
from quintain.grade.reports.ctest import read_ctest
from quintain.grade.reports.gotest import read_go_json, read_go_text
from quintain.grade.reports.jest import read_jest_json, read_jest_text
from quintain.grade.reports.judged import normal_id, verdict_of
from quintain.grade.reports.junit import read_junit
from quintain.grade.reports.node_text import read_node
from quintain.grade.reports.pytest_text import read_pytest
from quintain.grade.reports.tap import read_tap
from quintain.grade.reports.unittest_text import read_unittest

__all__ = ["FORMATS", "Report", "ReportedTest", "Told", "normal_id", "read_report", "verdict_of"]

#: Every format that is read: adding one is adding a file and a row.
FORMATS: dict[str, Reader] = {
    "cargo": read_cargo, "ctest": read_ctest, "go": read_go_text, "go-json": read_go_json, "jest": read_jest_text,
    "jest-json": read_jest_json, "junit": read_junit, "node": read_node, "pytest": read_pytest, "tap": read_tap,
    "unittest": read_unittest,
}


def read_report(format: str, data: bytes, *, root: str = "") -> Report:
    """A report in one of FORMATS. Files below `root` are named relative to it. What cannot be read is said in the
    report (`unreadable`), never raised; raises ValueError for a format that the table lacks."""
    reader = FORMATS.get(format)
    if reader is None:
        raise ValueError(f"expected a format out of {', '.join(sorted(FORMATS))}; found {format!r}")
    return reader(data, root)
