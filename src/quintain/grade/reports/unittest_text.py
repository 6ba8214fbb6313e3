"""unittest's own words, with -v: one line for each test, then what broke, then how many ran.

Source: CPython 3.11–3.14, `unittest/runner.py`. A test whose docstring or output stands between its name and its result
is read all the same; a result that what a test printed has pushed off its line counts for the test that was begun.
"""

from __future__ import annotations

import re

from quintain.grade.reports.base import Report, ReportedTest, Told, brief, closed, text_of

_BEGUN = re.compile(r"(?P<name>\w+) \((?P<place>[\w.<>]+)\)(?: (?P<sub>[(\[].*[)\]]))?(?: \.\.\. ?(?P<rest>.*))?$")
_RESULT = re.compile(r"(?P<word>ok|FAIL|ERROR|skipped|expected failure|unexpected success)(?: (?P<why>['\"].*['\"]))?$")
_WORDS = {
    "ok": Told.PASSED, "FAIL": Told.FAILED, "ERROR": Told.ERROR, "skipped": Told.SKIPPED,
    "expected failure": Told.XFAILED, "unexpected success": Told.XPASSED,
}
_RAN = re.compile(r"Ran (?P<count>\d+) tests? in [\d.]+s$")
_VERDICT = re.compile(r"(?P<word>OK|FAILED|NO TESTS RAN)(?: \((?P<counts>.*)\))?$")
_BROKE = re.compile(r"(?:ERROR|FAIL): (?P<name>\w+) \((?P<place>[\w.<>]+)\)")
_LINE = "=" * 70
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)')


def read_unittest(data: bytes, root: str = "") -> Report:
    """Ids are dotted: `module.Class.method`. A set-up of a class or module that broke is a test of its own, named
    `setUpClass` or the module that could not be loaded."""
    lines = text_of(data).split("\n")
    ran_at = max((i for i, line in enumerate(lines) if _RAN.match(line)), default=None)
    body = lines[:ran_at] if ran_at is not None else lines
    first_break = next((i for i, line in enumerate(body) if line == _LINE), len(body))
    tests = _listed(body[:first_break])
    details = _details(body[first_break:], root)
    told = [_with_detail(test, details) for test in tests]
    if ran_at is None:
        return closed("unittest", told, ended=False, claimed={})
    ran = _RAN.match(lines[ran_at])
    verdict = next((match for line in lines[ran_at + 1:] if (match := _VERDICT.match(line))), None)
    counted = [test for test in told if not test.id.endswith((".setUpClass", ".setUpModule", ".tearDownClass",
                                                              ".tearDownModule"))]
    claimed = {"ran": (int(ran["count"]) if ran else 0, len(counted))}
    if verdict is not None and verdict["word"] == "OK":
        bad = sum(test.status in (Told.FAILED, Told.ERROR, Told.XPASSED) for test in told)
        claimed["failed"] = (0, bad)
    return closed("unittest", told, ended=verdict is not None, claimed=claimed, executed=len(counted))


def _listed(lines: list[str]) -> list[ReportedTest]:
    """The tests in the order in which they began. Subtests are folded into their test."""
    order: list[str] = []
    found: dict[str, list[tuple[Told, str]]] = {}
    repeated: list[str] = []
    begun: str | None = None
    for line in lines:
        start = _BEGUN.match(line.strip() if line.startswith("  ") else line)
        if start is not None:
            id = _id(start["name"], start["place"])
            if begun is not None and begun != id and not found[begun]:  # printed by the test that runs
                before, result = begun, _RESULT.match(start["rest"] or "")
                if result is not None and start["sub"] is None:
                    continue
                begun = before
            if start["sub"] is None:
                if found.get(id):
                    repeated.append(id)
                if id not in found:
                    order.append(id)
                    found[id] = []
                begun = id
            result = _RESULT.match((start["rest"] or "").rpartition(" ... ")[2])
            if result is not None and id in found:
                found[id].append((_WORDS[result["word"]], result["why"] or ""))
            continue
        result = _RESULT.match(line.rpartition(" ... ")[2])
        if result is not None and begun is not None and not found[begun]:
            found[begun].append((_WORDS[result["word"]], result["why"] or ""))
    tests = [_test(id, found[id]) for id in order]
    return tests + [_test(id, found[id]) for id in repeated]


def _id(name: str, place: str) -> str:
    """3.11 and later write the whole path into the parentheses, earlier ones the class only."""
    if place.endswith("." + name) or place == name:
        return place
    if name in ("setUpClass", "setUpModule", "tearDownClass", "tearDownModule"):
        return f"{place}.{name}"
    return f"{place}.{name}"


def _test(id: str, told: list[tuple[Told, str]]) -> ReportedTest:
    rank = (Told.ERROR, Told.FAILED, Told.XFAILED, Told.SKIPPED, Told.XPASSED, Told.PASSED)
    if not told:
        return ReportedTest(id=id, status=Told.MISSING)
    status, why = min(told, key=lambda pair: rank.index(pair[0]))
    return ReportedTest(id=id, status=status, message=why.strip("'\""))


def _details(lines: list[str], root: str) -> dict[str, tuple[str, str | None, int | None]]:
    """The last line of each traceback and its deepest place, by test."""
    found: dict[str, tuple[str, str | None, int | None]] = {}
    for at, line in enumerate(lines):
        broke = _BROKE.match(line)
        if broke is None or at == 0 or lines[at - 1] != _LINE:
            continue
        until = next((i for i in range(at + 1, len(lines)) if lines[i] == _LINE), len(lines))
        block = [text for text in lines[at + 1:until] if text.strip() and set(text) != {"-"}]
        places = [match for text in block if (match := _FRAME.match(text))]
        prefix = root.rstrip("/") + "/" if root else ""
        file = places[-1]["file"].removeprefix(prefix) if places else None
        number = int(places[-1]["line"]) if places else None
        found.setdefault(_id(broke["name"], broke["place"]), (block[-1] if block else "", file, number))
    return found


def _with_detail(test: ReportedTest, details: dict[str, tuple[str, str | None, int | None]]) -> ReportedTest:
    message, file, line = details.get(test.id, (test.message, None, None))
    return ReportedTest(id=test.id, status=test.status, message=brief(message or test.message), file=file, line=line)
