"""pytest's own words: the lines of `-v`, the short summary of `-rA`, and the totals.

Source: pytest 8 and 9, `_pytest/terminal.py`. Only what stands after the last header of the summary counts as summary,
so that what a test printed is not taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from quintain.grade.reports.base import Report, ReportedTest, Told, brief, closed, text_of, worst

_WORDS = {
    "PASSED": Told.PASSED, "FAILED": Told.FAILED, "SKIPPED": Told.SKIPPED, "XFAIL": Told.XFAILED,
    "XPASS": Told.XPASSED, "ERROR": Told.ERROR, "SUBFAILED": Told.FAILED, "SUBSKIPPED": Told.SKIPPED,
}
_COLLECTED = re.compile(r"(?:collecting \.\.\. )?collected (?P<found>\d+) items?(?P<rest>(?: / \d+ \w+)*)")
_DESELECTED = re.compile(r"/ (\d+) deselected")
_VERBOSE = re.compile(
    r"(?P<id>\S+\.py::.+?) (?P<word>PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)(?: \(.*\))? +\[ *\d+%\]$")
_HEADER = re.compile(r"=+ short test summary info =+$")
_TOTALS = re.compile(
    r"=* ?(?P<counts>(?:\d+ [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:]+\))?(?: =+)?$")
_SUMMARY = re.compile(
    r"(?P<word>PASSED|FAILED|XFAIL|XPASS|ERROR|SUBFAILED|SUBSKIPPED)(?:\([^)]*\)|\[[^\]]*\])? (?P<rest>.+)$")
_SKIPPED = re.compile(r"SKIPPED \[(?P<count>\d+)\] (?P<file>[^:]+)(?::(?P<line>\d+))?: ?(?P<why>.*)$")
_PART = re.compile(r"_{3,} (?:(?P<error>ERROR (?:collecting|at setup of|at teardown of)) )?(?P<title>.+?) _{3,}$")
_PLACE = re.compile(r"(?P<file>[^\s:]+\.py):(?P<line>\d+): (?P<type>\w+)$")
_SECTION = re.compile(r"=+ (?:ERRORS|FAILURES|PASSES|XPASSES|XFAILURES|warnings summary) =+$")


def read_pytest(data: bytes, root: str = "") -> Report:
    """Ids are pytest's node ids, escaped as it escapes them. Of a skipped test, `-rA` names only the place: its id is
    then `file:line`."""
    lines = text_of(data).split("\n")
    collected = next((match for line in lines if (match := _COLLECTED.match(line))), None)
    seen: dict[str, list[tuple[Told, str]]] = {}
    for line in _progress(lines):
        if (match := _VERBOSE.match(line)) is not None:
            seen.setdefault(match["id"], []).append((_WORDS[match["word"]], ""))
    header = max((i for i, line in enumerate(lines) if _HEADER.match(line)), default=None)
    end = max((i for i, line in enumerate(lines) if _TOTALS.match(line)), default=None)
    places: list[tuple[ReportedTest, int]] = []
    if header is not None:
        for line in lines[header + 1:end if end is not None and end > header else None]:
            _summarised(line, seen, places)
    parts = _parts(lines[:header if header is not None else end])
    named = [_merged(id, told, parts) for id, told in seen.items()]
    skipped = sum(test.status is Told.SKIPPED for test in named)
    if skipped:  # -v has named them
        places = []
    tests = [*named, *(test for test, _ in places)]
    executed = len(named) + sum(count for _, count in places) - sum("::" not in test.id for test in named)
    claimed = _claims(lines[end], named, places) if end is not None else {}
    problems = [f"text after the end: {line[:80]!r}" for line in lines[end + 1:] if line.strip()][:3] if end else []
    return closed("pytest", tests, ended=end is not None, claimed=claimed, executed=executed, problems=problems,
                  collected=_to_run(collected))


def _progress(lines: list[str]) -> Iterator[str]:
    """The lines up to the first section that quotes output."""
    for line in lines:
        if _SECTION.match(line) or _HEADER.match(line):
            return
        yield line


def _summarised(line: str, seen: dict[str, list[tuple[Told, str]]], places: list[tuple[ReportedTest, int]]) -> None:
    skip = _SKIPPED.match(line)
    if skip is not None:
        where = f"{skip['file']}:{skip['line']}" if skip["line"] else skip["file"]
        places.append((ReportedTest(
            id=where, status=Told.SKIPPED, message=brief(skip["why"]), file=skip["file"],
            line=int(skip["line"]) if skip["line"] else None,
        ), int(skip["count"])))
        return
    match = _SUMMARY.match(line)
    if match is None:
        return
    word, rest = match["word"], match["rest"]
    id, message = (rest, "") if word == "PASSED" else _split(rest, seen)
    seen.setdefault(id, []).append((_WORDS[word], message))


def _split(rest: str, seen: dict[str, list[tuple[Told, str]]]) -> tuple[str, str]:
    """`id - message`, where the id of a parametrised test may itself hold ` - `."""
    known = [id for id in seen if rest == id or rest.startswith(id + " - ")]
    if known:
        id = max(known, key=len)
        return id, rest[len(id) + 3:]
    at = rest.find(" - ")
    while at >= 0:
        id = rest[:at]
        if "[" not in id.partition("::")[2] or id.endswith("]"):
            return id, rest[at + 3:]
        at = rest.find(" - ", at + 1)
    return rest, ""


def _parts(lines: list[str]) -> dict[str, tuple[str, str | None, int | None]]:
    """By the title of each part of ERRORS and FAILURES: its last line of `E`, and its last place."""
    found: dict[str, tuple[str, str | None, int | None]] = {}
    title: str | None = None
    message, file, number = "", None, None
    for line in [*lines, "_" * 4 + " end " + "_" * 4]:
        part = _PART.match(line)
        if part is not None or _SECTION.match(line):
            if title is not None:
                found.setdefault(title, (message, file, number))
            title = part["title"] if part is not None else None
            message, file, number = "", None, None
        elif line.startswith("E   "):
            message = line[4:].strip() if not line.startswith("E     ") else message or line[4:].strip()
        elif (place := _PLACE.match(line)) is not None:
            file, number = place["file"], int(place["line"])
    return found


def _merged(
    id: str, told: list[tuple[Told, str]], parts: dict[str, tuple[str, str | None, int | None]],
) -> ReportedTest:
    status = worst(status for status, _ in told)
    message = next((text for status, text in told if text and status is not Told.PASSED), "")
    file, joint, rest = id.partition("::")
    bracket = rest.find("[")
    title = rest if bracket < 0 else rest[:bracket].replace("::", ".") + rest[bracket:]
    key = title if bracket >= 0 else title.replace("::", ".")
    said, place, line = parts.get(key if joint else id, ("", None, None))
    if status in (Told.PASSED, Told.SKIPPED):
        said, place, line = "", None, None
    return ReportedTest(id=id, status=status, message=brief(message or said), file=place or file, line=line)


def _to_run(collected: re.Match[str] | None) -> int | None:
    if collected is None:
        return None
    gone = _DESELECTED.search(collected["rest"])
    return int(collected["found"]) - (int(gone[1]) if gone else 0)


def _claims(
    totals: str, named: list[ReportedTest], places: list[tuple[ReportedTest, int]],
) -> dict[str, tuple[int, int]]:
    """What the totals say of skipped and of expected failures beside what was named. Passes and failures cannot be
    compared: a test may count as passed and as an error, and each failed subtest counts."""
    said = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", totals)}
    told = [test.status for test in named]
    skipped = told.count(Told.SKIPPED) + sum(count for _, count in places)
    claims = {"skipped": (said.get("skipped", 0), skipped)}
    for word, status in (("xfailed", Told.XFAILED), ("xpassed", Told.XPASSED)):
        claims[word] = (said.get(word, 0), told.count(status))
    passed = told.count(Told.PASSED)
    if said.get("passed", 0) < passed:
        claims["passed"] = (said.get("passed", 0), passed)
    return claims
