"""`cargo test`: one run for each target, each with its own count and its own result.

Source: rust's libtest, stable text output, 1.60 to 1.94. Doc tests are a target of their own.
"""

from __future__ import annotations

import re

from quintain.grade.reports.base import Report, ReportedTest, Told, brief, closed, text_of

_TARGET = re.compile(r" +(?:Running (?:unittests )?(?P<file>\S+) \(.*\)|Doc-tests (?P<doc>\S+))$")
_RUNNING = re.compile(r"running (?P<count>\d+) tests?$")
_TEST = re.compile(r"test (?P<name>.+?)(?P<panic> - should panic)? \.\.\. (?P<word>ok|FAILED|ignored|bench:.*)"
                   r"(?:, (?P<why>.*))?$")
_RESULT = re.compile(r"test result: (?P<word>ok|FAILED)\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; "
                     r"(?P<ignored>\d+) ignored;")
_SECTION = re.compile(r"---- (?P<name>.+) stdout ----$")
_PANIC = re.compile(r"thread '.*'(?: \(\d+\))? panicked at (?P<file>[^:]+):(?P<line>\d+):\d+:$")
_WORDS = {"ok": Told.PASSED, "FAILED": Told.FAILED, "ignored": Told.SKIPPED}


class _Target:
    def __init__(self, name: str) -> None:
        self.name = name
        self.expected: int | None = None
        self.tests: list[ReportedTest] = []
        self.result: re.Match[str] | None = None

    def problem(self) -> str | None:
        if self.expected is None:
            return None
        if self.result is None:
            return f"{self.name}: {self.expected} tests began and no result came"
        if self.expected != len(self.tests):
            return f"{self.name}: expected {self.expected} tests, found {len(self.tests)}"
        told = [test.status for test in self.tests]
        for word, status in (("passed", Told.PASSED), ("failed", Told.FAILED), ("ignored", Told.SKIPPED)):
            if int(self.result[word]) != told.count(status):
                return f"{self.name}: the result says {self.result[word]} {word}, the lines {told.count(status)}"
        return None


def read_cargo(data: bytes, root: str = "") -> Report:
    """Ids are `target::path::of::test`, where the target is its source file (`src/lib.rs`) or `doc NAME`."""
    lines = text_of(data).split("\n")
    targets: list[_Target] = []
    failures: dict[tuple[str, str], tuple[str, str | None, int | None]] = {}
    current = _Target("")
    in_list = False
    for at, line in enumerate(lines):
        target = _TARGET.match(line)
        if target is not None:
            current = _Target(target["file"] or f"doc {target['doc']}")
            targets.append(current)
            in_list = False
        elif (running := _RUNNING.match(line)) is not None and current.expected is None:
            current.expected, in_list = int(running["count"]), True
            if not targets:
                targets.append(current)
        elif line == "failures:":
            in_list = False
        elif (result := _RESULT.match(line)) is not None:
            current.result, in_list = result, False
        elif in_list and (test := _TEST.match(line)) is not None:
            id = f"{current.name}::{test['name']}" if current.name else test["name"]
            status = _WORDS.get(test["word"], Told.PASSED)
            current.tests.append(ReportedTest(id=id, status=status, message=test["why"] or ""))
        elif (section := _SECTION.match(line)) is not None:
            failures[current.name, section["name"]] = _detail(lines[at + 1:at + 60])
    problems = [problem for target in targets if (problem := target.problem()) is not None]
    tests = [_told(test, target.name, failures) for target in targets for test in target.tests]
    if not targets:
        build = next((line for line in lines if line.startswith("error")), None)
        problems += [f"nothing ran: {build}"] if build else []
    expected = sum(target.expected or 0 for target in targets)
    return closed("cargo", tests, ended=bool(targets) and not problems, claimed={}, problems=problems,
                  collected=expected if targets else None)


def _detail(lines: list[str]) -> tuple[str, str | None, int | None]:
    """The message of the panic in a section of failures, and its place."""
    for at, line in enumerate(lines):
        if _SECTION.match(line) or line == "failures:":
            break
        panic = _PANIC.match(line)
        if panic is not None:
            text: list[str] = []
            for more in lines[at + 1:at + 12]:
                if not more.strip() or more.startswith(("stack backtrace:", "note: ")):
                    break
                text.append(more)
            return "\n".join(text), panic["file"], int(panic["line"])
    note = next((line for line in lines[:12] if line.startswith("note: ")), "")
    return note, None, None


def _told(
    test: ReportedTest, target: str, failures: dict[tuple[str, str], tuple[str, str | None, int | None]],
) -> ReportedTest:
    name = test.id.removeprefix(f"{target}::")
    if test.status is not Told.FAILED or (target, name) not in failures:
        return test
    message, file, line = failures[target, name]
    return ReportedTest(id=test.id, status=test.status, message=brief(message), file=file, line=line)
