"""`--bridges-table FILE` writes a row for each test that has passed against somebody else's package. Rows that stand
there stay, unless this run has tests for their package and the package itself."""

from __future__ import annotations

import datetime
from importlib import metadata
from pathlib import Path

import pytest

_HEAD = (
    "# What has been played with other people's own packages\n\n"
    "Written by `make bridges`: one row for each test that passed ([what each is](bridges.md)).\n\n"
    "| package | version | direction | what was exercised | when |\n"
    "|---|---|---|---|---|\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bridges-table", metavar="FILE", help="write the table of what was exercised (make bridges)")


def pytest_configure(config: pytest.Config) -> None:
    target = config.getoption("--bridges-table", default=None)
    if target:
        config.pluginmanager.register(_Table(Path(target)), "bridges-table")


class _Table:
    """A row comes only from tests that passed, all that say it."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._rows: dict[str, tuple[str, str, str]] = {}
        self._passed: list[str] = []
        self._failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("bridge"):
                package, direction, what = mark.args
                self._rows[item.nodeid] = (package, direction, what)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and report.nodeid in self._rows:
            self._passed.append(report.nodeid)
        if report.failed and report.nodeid in self._rows:
            self._failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        rows = {self._rows[node] for node in self._passed} - {self._rows[node] for node in self._failed}
        lines = {f"| {package} | {metadata.version(package)} | {direction} | {what} | {day} |\n"
                 for package, direction, what in rows if _there(package)}
        here = {package for package, *_ in self._rows.values() if _there(package)}
        self._target.write_text(_HEAD + "".join(sorted(lines | self._standing(here))))

    def _standing(self, here: set[str]) -> set[str]:
        """The rows of packages that this run knows nothing of."""
        if not self._target.exists():
            return set()
        rows = self._target.read_text().removeprefix(_HEAD).splitlines(keepends=True)
        return {row for row in rows if row.split(" | ")[0].removeprefix("| ") not in here}


def _there(package: str) -> bool:
    return bool(list(metadata.distributions(name=package)))
