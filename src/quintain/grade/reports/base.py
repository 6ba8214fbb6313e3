"""What a test runner says of its tests, whatever it is called: ids, statuses, and whether the report is whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

#: What is read of a report at most; a longer one is unreadable.
MAX_REPORT_BYTES = 64 * 1024 * 1024
MAX_MESSAGE_CHARS = 1_000


class Told(StrEnum):
    """What a runner says of one test. Only PASSED is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    XFAILED = "xfailed"  # expected to fail, and did
    XPASSED = "xpassed"  # expected to fail, and passed
    ERROR = "error"  # set-up, tear-down or loading broke
    MISSING = "missing"  # it began and never ended


class ReportedTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test as its runner names it. `line` counts from 1."""

    id: str
    status: Told
    message: str = ""
    file: str | None = None
    line: int | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a runner said. `tests` are in the order in which it named them, the same id twice where it named it twice;
    `collected` is how many it found before it began, where it says so; `complete`, whether it came to its own end and
    its counts agree with its lines; `problems` say what does not fit; `unreadable`, that it is no report at all.

    Where the answer ran in the same process, it may have written every byte: a report is structure, not truth.
    """

    format: str
    tests: tuple[ReportedTest, ...] = ()
    collected: int | None = None
    complete: bool = True
    problems: tuple[str, ...] = ()
    unreadable: str | None = None

    @property
    def counts(self) -> dict[Told, int]:
        """How many tests have each status, zeros included."""
        seen = Counter(test.status for test in self.tests)
        return {status: seen[status] for status in Told}

    @property
    def duplicates(self) -> tuple[str, ...]:
        """The ids that were named more than once, in their order."""
        seen = Counter(test.id for test in self.tests)
        return tuple(id for id, count in seen.items() if count > 1)


#: Reads one format: the bytes of a report and the folder below which its files lie ("" keeps paths as they are).
Reader = Callable[[bytes, str], Report]

#: A test whose title is a source file: what node reports where the file ended without reporting a test.
FILE_TITLE = re.compile(r"\S\.[cm]?[jt]sx?$")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RANK = {Told.ERROR: 0, Told.FAILED: 1, Told.MISSING: 2, Told.XFAILED: 3, Told.SKIPPED: 4, Told.XPASSED: 5,
         Told.PASSED: 6}


def unreadable(format: str, why: str) -> Report:
    return Report(format=format, complete=False, problems=(why,), unreadable=why)


def text_of(data: bytes) -> str:
    """A runner's output as text: undecodable bytes become U+FFFD, colours go, line ends become newlines."""
    text = data.decode("utf-8", "replace")
    return _ANSI.sub("", text).replace("\r\n", "\n")


def worst(statuses: Iterable[Told]) -> Told:
    """The status of a test that was named several times in one go: its body, then its tear-down."""
    return min(statuses, key=_RANK.__getitem__)


def below(path: str, root: str) -> str:
    """A path relative to the root, where it lies below it."""
    prefix = root.rstrip("/") + "/"
    return path.removeprefix(prefix) if root else path


def brief(text: str) -> str:
    return text.strip()[:MAX_MESSAGE_CHARS]


def closed(
    format: str, tests: Iterable[ReportedTest], *, ended: bool, claimed: Mapping[str, tuple[int, int]],
    collected: int | None = None, executed: int | None = None, problems: Iterable[str] = (),
) -> Report:
    """The report of these tests, and whether it is whole: it came to its end, each pair of `claimed` (what the runner's
    last lines say, what its lines come to) agrees, and what was collected was executed (the tests, if not given)."""
    found = tuple(tests)
    wrong = list(problems)
    if not ended:
        wrong.append("the report has no end")
    agree = True
    for name, (said, counted) in claimed.items():
        if said != counted:
            agree = False
            wrong.append(f"{name}: the end says {said}, the lines come to {counted}")
    ran = len(found) if executed is None else executed
    if collected is not None and collected != ran:
        agree = False
        wrong.append(f"expected {collected} collected tests to be executed, found {ran}")
    hanging = [test.id for test in found if test.status is Told.MISSING]
    wrong += [f"{id} began and did not end" for id in hanging[:20]]
    return Report(format=format, tests=found, collected=collected, complete=ended and agree and not hanging,
                  problems=tuple(wrong))
