"""The Test Anything Protocol, versions 12 to 14, with subtests and the diagnostics that node's runner adds.

Source: testanything.org, versions 13 and 14. A subtest is indented by four spaces and comes before its parent's line.
Escapes of version 14 (`\\#`, `\\\\`) are undone; a directive is `# SKIP` or `# TODO` after a space.
"""

from __future__ import annotations

import re

from quintain.grade.reports.base import (
    FILE_TITLE,
    Report,
    ReportedTest,
    Told,
    below,
    brief,
    closed,
    text_of,
    unreadable,
)

_POINT = re.compile(r"(?P<indent> *)(?P<not>not )?ok\b(?: (?P<number>\d+))?(?: ?- ?| )?(?P<rest>.*)$")
_PLAN = re.compile(r"(?P<indent> *)(?P<first>\d+)\.\.(?P<last>\d+)(?:\s*#\s*(?P<why>.*))?$")
_VERSION = re.compile(r"TAP version 1[234]$")
_BAIL = re.compile(r" *Bail out!(?P<why>.*)$")
_DIRECTIVE = re.compile(r"(?<!\\)\s#\s*(?P<word>skip|todo)\S*(?:\s+(?P<why>.*))?$", re.IGNORECASE)
_COUNT = re.compile(r"# (?P<what>tests|pass|fail|cancelled|skipped|todo) (?P<count>\d+)$")
_KEY = re.compile(r" *(?P<key>\w+): (?P<value>.+)$")


class _Point:
    """One line of result and what stands under it."""

    def __init__(self, match: re.Match[str]) -> None:
        self.depth = len(match["indent"]) // 4
        directive = _DIRECTIVE.search(" " + match["rest"])
        text = match["rest"] if directive is None else (" " + match["rest"])[:directive.start()].strip()
        self.title = re.sub(r"\\([#\\])", r"\1", text.strip()) or match["number"] or "?"
        self.number = int(match["number"]) if match["number"] else None
        self.ok = match["not"] is None
        self.directive = directive["word"].lower() if directive else ""
        self.why = (directive["why"] or "") if directive else ""
        self.facts: dict[str, str] = {}
        self.children: list[_Point] = []

    @property
    def status(self) -> Told:
        if self.directive == "skip":
            return Told.SKIPPED
        if self.directive == "todo":
            return Told.XPASSED if self.ok else Told.XFAILED
        return Told.PASSED if self.ok else Told.FAILED


def read_tap(data: bytes, root: str = "") -> Report:
    """Ids are titles, those of subtests joined to their parents' with ` > `. Suites of node (`type: 'suite'`) are no
    tests; a test with subtests is one beside them."""
    lines = text_of(data).split("\n")
    top: list[_Point] = []
    waiting: dict[int, list[_Point]] = {}
    plans: dict[int, tuple[int, str]] = {}
    short: list[str] = []
    said: dict[str, int] = {}
    bailed: str | None = None
    seen = any(_VERSION.match(line) for line in lines)
    last: _Point | None = None
    block: str | None = None  # the indentation of the open block of diagnostics
    for line in lines:
        if block is not None:
            block = _in_block(line, block, last)
            continue
        if last is not None and line.strip() == "---" and line.startswith(" "):
            block = line[:len(line) - len(line.lstrip())]
        elif (point := _POINT.match(line)) is not None:
            seen, last = True, _Point(point)
            last.children = waiting.pop(last.depth + 1, [])
            short += _short(last.depth + 1, last.children, plans, last.title)
            (waiting.setdefault(last.depth, []) if last.depth else top).append(last)
        elif (plan := _PLAN.match(line)) is not None:
            plans[len(plan["indent"]) // 4] = (int(plan["last"]) - int(plan["first"]) + 1, plan["why"] or "")
            seen = True
        elif (count := _COUNT.match(line)) is not None:
            said[count["what"]] = int(count["count"])
        elif (bail := _BAIL.match(line)) is not None:
            bailed = bail["why"].strip() or "no reason"
    if not seen:
        return unreadable("tap", "expected a plan or a line of result, found neither")
    return _report(top, waiting, plans, short, said, bailed, root)


def _report(
    top: list[_Point], waiting: dict[int, list[_Point]], plans: dict[int, tuple[int, str]], short: list[str],
    said: dict[str, int], bailed: str | None, root: str,
) -> Report:
    tests = [test for point in top for test in _tests(point, "", root)]
    problems = [f"bailed out: {bailed}"] if bailed is not None else []
    orphans = [point for points in waiting.values() for point in points]
    tests += [test for point in orphans for test in _tests(point, "? > ", root)]
    if orphans:
        problems.append(f"{len(orphans)} subtests without the line of their parent")
    plan = plans.get(0)
    numbers = [point.number for point in top if point.number is not None]
    if len(set(numbers)) != len(numbers):
        problems.append("a number was given twice")
    claimed = {"planned": (plan[0], len(top))} if plan is not None else {}
    if "tests" in said:
        claimed["tests"] = (said["tests"], len(tests))
    whole = plan is not None and bailed is None and not orphans and not short and len(set(numbers)) == len(numbers)
    return closed("tap", tests, ended=whole, claimed=claimed, problems=[*problems, *short])


def _in_block(line: str, block: str, last: _Point | None) -> str | None:
    """Read a line of diagnostics; `None` when it was the last of its block."""
    if line.rstrip() == block + "...":
        return None
    fact = _KEY.match(line)
    if fact is not None and last is not None and line.startswith(block) and not line[len(block):].startswith(" "):
        last.facts.setdefault(fact["key"], fact["value"].strip("'\""))
    return block


def _short(depth: int, children: list[_Point], plans: dict[int, tuple[int, str]], title: str) -> list[str]:
    plan = plans.pop(depth, None)
    if plan is None or plan[0] == len(children):
        return []
    return [f"{title}: planned {plan[0]} subtests, found {len(children)}"]


def _tests(point: _Point, before: str, root: str) -> list[ReportedTest]:
    title = below(point.title, root)
    inner = [test for child in point.children for test in _tests(child, f"{before}{title} > ", root)]
    if point.facts.get("type") == "suite" and point.children:
        return inner
    status = point.status
    if FILE_TITLE.search(title) and not point.children and status is Told.PASSED:  # it ended before any test reported
        status = Told.MISSING
    file, line = _place(point.facts.get("location", ""), root)
    message = point.facts.get("error") or point.facts.get("message") or point.why
    return [*inner, ReportedTest(id=before + title, status=status, message=brief(message), file=file, line=line)]


def _place(location: str, root: str) -> tuple[str | None, int | None]:
    match = re.match(r"(?P<file>.+?):(?P<line>\d+):\d+$", location)
    return (below(match["file"], root), int(match["line"])) if match else (None, None)
