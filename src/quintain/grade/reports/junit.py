"""JUnit XML, as pytest, node, jest-junit, surefire and gotestsum write it.

Covers: read as a stream, without entities and without a document type (a bomb needs one: it is refused); characters
that XML forbids are read back as what they were. Where they stand in what a test printed, that is noted; anywhere else
the report is no XML, and unreadable, because nobody knows what else its writer left unescaped.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from quintain.grade.reports.base import MAX_REPORT_BYTES, Report, ReportedTest, Told, below, brief, closed, unreadable

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = re.compile(r"&#(?:x(?P<hex>[0-9a-fA-F]{1,6})|(?P<number>[0-9]{1,7}));")
_PLACE = re.compile(r"(?P<file>[^\s:]+\.\w+):(?P<line>\d{1,9})(?:: \w+)?$")
_STAND_IN = 0xF0000  # a plane for private use, where forbidden characters wait while expat reads
_PRINTED = frozenset({"system-out", "system-err"})
_BAD = frozenset({"failure", "error", "rerunFailure"})
MAX_DEPTH = 64


class _Refused(Exception):
    """The document is not one that we read."""


class _Reading:
    """The state of one document."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.tests: list[ReportedTest] = []
        self.seen_suite = False
        self.suites: list[dict[str, str]] = []
        self.levels: list[list[int]] = []  # of each open suite: tests before it, suites directly in it
        self.claims: dict[str, tuple[int, int]] = {}
        self.place: tuple[str, int] | None = None
        self.open: list[str] = []
        self.case: dict[str, str] | None = None
        self.status = Told.PASSED
        self.message = ""
        self.text: list[str] = []
        self.strange: set[str] = set()
        self.printed_strange = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.open.append(name)
        if len(self.open) > MAX_DEPTH:
            raise _Refused(f"expected at most {MAX_DEPTH} nested elements")
        given = {key: self._own(value, name) for key, value in attributes.items()}
        if name in ("testsuite", "testsuites"):
            self.seen_suite = True
            self.suites.append(given)
            self.levels.append([len(self.tests), 0])
            if len(self.levels) > 1:
                self.levels[-2][1] += 1
        elif name == "testcase":
            self.case, self.status, self.message, self.place = given, Told.PASSED, "", None
        elif self.case is not None and name in _BAD:
            self._worse(Told.FAILED if name == "failure" else Told.ERROR, given.get("message", ""))
        elif self.case is not None and name == "skipped":
            expected = "xfail" in given.get("type", "") or given.get("type") == "todo"
            self._worse(Told.XFAILED if expected else Told.SKIPPED, given.get("message", ""))
        self.text = []

    def data(self, text: str) -> None:
        here = self.open[-1] if self.open else ""
        if sum(map(len, self.text)) < 4_000:
            self.text.append(self._own(text, here))
        else:
            self._own(text, here)

    def end(self, name: str) -> None:
        self.open.pop()
        if self.case is not None and name in _BAD:
            self._detail("".join(self.text).strip())
        if name in ("testsuite", "testsuites"):
            self._close_suite()
        if name == "testcase" and self.case is not None:
            self.tests.append(self._test(self.case))
            self.case = None

    def _detail(self, text: str) -> None:
        """What the text of a failure adds: a message where the attribute has none, and the place at its end."""
        last = text.rpartition("\n")[2]
        if self.message in ("", "collection failure"):
            self.message = (last.removeprefix("E").strip() if self.message else text) or self.message
        place = _PLACE.match(last)
        if place is not None:
            self.place = (place["file"], int(place["line"]))

    def _close_suite(self) -> None:
        """Compare what a suite claims with what it holds; one with suites in it is compared if it is the outermost,
        because node counts inner suites as tests."""
        before, inner = self.levels.pop()
        given = self.suites.pop()
        if (inner and self.levels) or not given.get("tests", "").isdecimal():
            return
        held = self.tests[before:]
        total, found = int(given["tests"]), len(held)
        bad = sum(test.status in (Told.FAILED, Told.ERROR) for test in held)
        if not 0 < total - found <= bad:  # pytest counts each failed subtest and tear-down as one more
            name = given.get("name", "")[:60]
            self.claims[f"tests of suite {name!r}"] = (total, found)

    def _worse(self, status: Told, message: str) -> None:
        """A test with a failure and a skip (node's `todo`) has not passed; an error outweighs a failure."""
        order = (Told.PASSED, Told.SKIPPED, Told.FAILED, Told.ERROR, Told.XFAILED)
        if order.index(status) > order.index(self.status):
            self.status = status
            self.message = message or self.message

    def _test(self, case: dict[str, str]) -> ReportedTest:
        file, line = case.get("file"), case.get("line", "")
        place = case.get("classname", "") or (below(file, self.root) if file else "")
        name = case.get("name", "")
        return ReportedTest(
            id=f"{place}::{name}" if place and name else place or name, status=self.status, message=brief(self.message),
            file=below(file, self.root) if file else self.place[0] if self.place else None,
            line=int(line) if line.isdecimal() and int(line) else self.place[1] if self.place else None,
        )

    def _own(self, text: str, element: str) -> str:
        """A text with its forbidden characters back, each of which is remembered."""
        if not any(_STAND_IN <= ord(char) <= _STAND_IN + 0xFFFF for char in text):
            return text
        real = "".join(chr(ord(c) - _STAND_IN) if _STAND_IN <= ord(c) <= _STAND_IN + 0xFFFF else c for c in text)
        if element in _PRINTED:
            self.printed_strange = True
        else:
            self.strange |= {f"U+{ord(char):04X}" for char in _FORBIDDEN.findall(real)}
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in real)


def read_junit(data: bytes, root: str = "") -> Report:
    """Ids are `classname::name`. pytest writes an expected failure as skipped (told by its type) and a test that passed
    although it was expected to fail as passed: XML cannot tell."""
    if len(data) > MAX_REPORT_BYTES:
        return unreadable("junit", f"expected at most {MAX_REPORT_BYTES} bytes, found {len(data)}")
    reading = _Reading(root)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(_readable(data), True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        return unreadable("junit", f"expected XML, found at {where}: {expat.errors.messages[error.code]}")
    except _Refused as error:
        return unreadable("junit", str(error))
    if not reading.seen_suite:
        return unreadable("junit", "expected a testsuite or testsuites element, found none")
    if reading.strange:
        why = f"expected XML, found characters that it forbids: {', '.join(sorted(reading.strange))}"
        return Report(format="junit", tests=tuple(reading.tests), complete=False, problems=(why,), unreadable=why)
    problems = ["forbidden characters in what was printed"] if reading.printed_strange else []
    return closed("junit", reading.tests, ended=True, claimed=reading.claims, problems=problems,
                  executed=len(reading.tests))


def _refuse_doctype(*_: object) -> None:
    raise _Refused("expected a report without a document type, found one: it is not read")


def _readable(data: bytes) -> bytes:
    """The document with stand-ins for what expat would stop at. Invalid UTF-8 is read as U+FFFD."""
    text = data.decode("utf-8-sig", "replace")
    text = re.sub(r"^(<\?xml[^>]*?) encoding=(\"[^\"]*\"|'[^']*')", r"\1", text, count=1)
    text = _FORBIDDEN.sub(lambda match: chr(_STAND_IN + ord(match[0])), text)
    return _REFERENCE.sub(_refer, text).encode("utf-8", "replace")


def _refer(match: re.Match[str]) -> str:
    number = int(match["hex"], 16) if match["hex"] else int(match["number"])
    if number > 0x10FFFF:
        return match[0]
    return chr(_STAND_IN + number) if _FORBIDDEN.match(chr(number)) else match[0]
