"""CTest's list of results.

Source: CMake 3.20 to 4.0, `ctest` alone. Only the list counts; output of tests (with `-V`) has a number and
a colon before it.
"""

from __future__ import annotations

import re

from quintain.grade.reports.base import Report, ReportedTest, Told, closed, text_of

_RESULT = re.compile(r" *\d+/(?P<total>\d+) +Test +#(?P<number>\d+): (?P<name>.+?) \.+ *(?P<word>Passed|\*\*\*.*?) +"
                     r"[\d.]+ sec$")
_END = re.compile(r"(?P<share>\d+)% tests passed, (?P<failed>\d+) tests? failed out of (?P<total>\d+)$")


def read_ctest(data: bytes, root: str = "") -> Report:
    """Ids are the tests' names. Skipped and disabled tests are skipped; what could not be started is an error."""
    lines = text_of(data).split("\n")
    tests: list[ReportedTest] = []
    total: int | None = None
    end: re.Match[str] | None = None
    for line in lines:
        match = _RESULT.match(line)
        if match is not None:
            total = int(match["total"])
            word = match["word"].strip().removeprefix("***")
            tests.append(ReportedTest(id=match["name"], status=_status(word), message="" if word == "Passed" else word))
        end = _END.match(line) or end
    bad = sum(test.status in (Told.FAILED, Told.ERROR) for test in tests)
    claimed = {"failed": (int(end["failed"]), bad)} if end is not None else {}
    last = "Errors while running CTest" if bad else "Total Test time"
    ended = end is not None and any(line.startswith(last) for line in lines)
    return closed("ctest", tests, ended=ended, claimed=claimed, collected=total)


def _status(word: str) -> Told:
    if word == "Passed":
        return Told.PASSED
    if word.startswith(("Skipped", "Not Run (Disabled)")):
        return Told.SKIPPED
    return Told.ERROR if word.startswith("Not Run") else Told.FAILED
