"""`go test -json` (test2json) and `go test -v`.

Source: `go doc test2json`, go 1.20 to 1.27. Subtests are tests of their own, named `Parent/child`; a parent fails with
its children. A package that did not build, or that ended early, says so in its last line.
"""

from __future__ import annotations

import re

import msgspec

from quintain.grade.reports.base import Report, ReportedTest, Told, brief, closed, text_of, unreadable

_ACTIONS = {"pass": Told.PASSED, "fail": Told.FAILED, "skip": Told.SKIPPED}
_PLACE = re.compile(r"\s*(?P<file>[\w./-]+\.go):(?P<line>\d+): (?P<text>.*)$")


class _Event(msgspec.Struct, rename={"action": "Action", "package": "Package", "test": "Test", "output": "Output",
                                     "path": "ImportPath", "broken": "FailedBuild"}):
    action: str
    package: str = ""
    test: str | None = None
    output: str = ""
    path: str = ""
    broken: str = ""


def read_go_json(data: bytes, root: str = "") -> Report:
    """Ids are `package::TestName/subtest`; a package that did not build is one error, named by itself."""
    tests: dict[tuple[str, str], Told] = {}
    output: dict[tuple[str, str], list[str]] = {}
    packages: dict[str, str | None] = {}
    builds: dict[str, list[str]] = {}
    tests_of_builds: list[ReportedTest] = []
    twice: list[tuple[str, str]] = []
    problems: list[str] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.startswith(b"{"):
            problems += [f"line {number} is no event: {line[:80]!r}"] if line.strip() else []
            continue
        try:
            event = msgspec.json.decode(line, type=_Event)
        except msgspec.MsgspecError as error:
            problems.append(f"line {number} is no event: {error}")
            continue
        if event.action == "build-output":
            builds.setdefault(event.path, []).append(event.output)
        elif event.test is None:
            packages.setdefault(event.package, None) if event.package else None
            if event.action in _ACTIONS:
                packages[event.package] = event.action
                if event.broken:
                    text = "".join(builds.get(event.broken, []))
                    tests_of_builds.append(_unbuilt(event.package, text))
        else:
            _of_test(event, tests, output, twice)
    if not packages:
        return unreadable("go-json", "expected events of test2json, found none")
    found = [_test(package, name, status, output.get((package, name), [])) for (package, name), status in tests.items()]
    found += [_test(*key, tests[key], output.get(key, [])) for key in twice]
    open_packages = [package for package, action in packages.items() if action is None]
    problems += [f"{package} has no end" for package in open_packages]
    crashed = _crashed(output, packages)
    problems += [f"{package} ended early" for package in crashed]
    broken = any(problem.startswith("line") for problem in problems)
    return closed("go-json", [*found, *tests_of_builds], ended=not open_packages and not crashed and not broken,
                  claimed={}, problems=problems)


def _of_test(
    event: _Event, tests: dict[tuple[str, str], Told], output: dict[tuple[str, str], list[str]],
    twice: list[tuple[str, str]],
) -> None:
    key = (event.package, event.test or "")
    if event.action == "run" and key not in tests:
        tests[key] = Told.MISSING
    elif event.action in _ACTIONS:
        if tests.get(key, Told.MISSING) is not Told.MISSING:
            twice.append(key)
        tests[key] = _ACTIONS[event.action]
    elif event.action == "output":
        output.setdefault(key, []).append(event.output)


def _crashed(output: dict[tuple[str, str], list[str]], packages: dict[str, str | None]) -> list[str]:
    """Failed packages in which a panic ended the process: tests after it were never begun."""
    found = {package for (package, _), lines in output.items()
             if any(line.startswith(("panic: ", "fatal error: ")) for line in lines)}
    return [package for package, action in packages.items() if package in found and action == "fail"]


def _test(package: str, name: str, status: Told, lines: list[str]) -> ReportedTest:
    said = [line for line in lines if not line.startswith(("=== ", "--- ")) and line.strip()]
    return _placed(f"{package}::{name}" if package else name, status, said)


def _placed(id: str, status: Told, said: list[str]) -> ReportedTest:
    place = next((match for line in said if (match := _PLACE.match(line.rstrip("\n")))), None)
    if status is Told.PASSED:
        return ReportedTest(id=id, status=status)
    text = place["text"] if place else "".join(said)
    return ReportedTest(id=id, status=status, message=brief(text), file=place["file"] if place else None,
                        line=int(place["line"]) if place else None)


def _unbuilt(package: str, text: str) -> ReportedTest:
    match = re.search(r"^(?P<file>[\w./-]+\.go):(?P<line>\d+):(?:\d+:)? (?P<text>.*)$", text, re.MULTILINE)
    return ReportedTest(
        id=package, status=Told.ERROR, message=brief(match["text"] if match else text or "build failed"),
        file=match["file"] if match else None, line=int(match["line"]) if match else None,
    )


_RUN = re.compile(r"=== RUN +(?P<name>\S.*)$")
_RESULT = re.compile(r"--- (?P<word>PASS|FAIL|SKIP|BENCH): (?P<name>\S.*) \([\d.]+s\)$")
_PACKAGE = re.compile(r"(?P<word>ok|FAIL|\?) *\t(?P<package>\S+)(?:[\t ](?P<rest>.*))?$")
_WORDS = {"PASS": Told.PASSED, "FAIL": Told.FAILED, "SKIP": Told.SKIPPED, "BENCH": Told.PASSED}


def read_go_text(data: bytes, root: str = "") -> Report:
    """The same ids. A result counts only for a test that was begun (`=== RUN`), and once: a printed `--- PASS:` of
    another name is no test. A result in the middle of a line, after what the test printed, is found."""
    lines = text_of(data).split("\n")
    tests: list[ReportedTest] = []
    packages = 0
    problems: list[str] = []
    begun: dict[str, Told] = {}
    said: dict[str, list[str]] = {}
    running = ""
    crashed = False
    for line in lines:
        run = _RUN.match(line)
        result = _RESULT.search(line)
        package = _PACKAGE.match(line)
        if run is not None:
            running = run["name"]
            if running in begun:
                problems.append(f"{running} began twice")
            begun.setdefault(running, Told.MISSING)
        elif result is not None and result["name"] in begun:
            if begun[result["name"]] is Told.MISSING:
                begun[result["name"]] = _WORDS[result["word"]]
            else:
                problems.append(f"{result['name']} ended twice")
        elif package is not None:
            packages += 1
            name = package["package"]
            tests += [_placed(f"{name}::{test}", status, said.get(test, [])) for test, status in begun.items()]
            if "[build failed]" in (package["rest"] or "") or "[setup failed]" in (package["rest"] or ""):
                tests.append(ReportedTest(id=name, status=Told.ERROR, message="build failed"))
            if crashed:
                problems.append(f"{name} ended early")
            begun, said, running = {}, {}, ""
        else:
            crashed = crashed or line.startswith(("panic: ", "fatal error: "))
            said.setdefault(running, []).append(line)
    tests += [_placed(test, status, said.get(test, [])) for test, status in begun.items()]
    whole = packages > 0 and not begun and not any("twice" in p or "early" in p for p in problems)
    return closed("go", tests, ended=whole, claimed={}, problems=problems)
