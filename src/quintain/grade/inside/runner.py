"""The verifier's program: runs the tests and reports each on a descriptor that only it holds.

The report is one JSON object a line: {"asked": true} before the answer is asked for anything, {"begin": id},
{"test": id, "ok": bool, "why": {...}}, {"file": path, "why": ...} for a test file that could not be loaded, and
{"end": {...}} last. Without that last line the report is incomplete.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from quintain.grade.inside.candidate import CHANNEL, LateSite
from quintain.grade.inside.verifier import Finder, Verifier
from quintain.grade.inside.watch import Watch
from quintain.grade.inside.wire import Gone, Pipe, WrongType, write_json

MAX_MESSAGE = 1_000
MAX_VALUE = 300
MAX_LINE = 10_000_000
TESTS = "<tests>"  # where compiled tests say that they lie


class Report:
    """Where results go, and the state of the test that is running."""

    def __init__(self, fd: int, peer: Verifier, finder: Finder, root: str) -> None:
        self._fd = fd
        self._peer = peer
        self._finder = finder
        self._root = root

    def write(self, **record: Any) -> None:
        data = (write_json(_sound(record)) + "\n").encode("ascii")
        while data:
            data = data[os.write(self._fd, data):]

    def run(self, name: str, test: Callable[[], Any]) -> None:
        """One test from begin to end."""
        self.write(begin=name)
        try:
            if self._peer.dead is not None:
                raise self._peer.dead
            answer = test()
            if type(answer) is types.CoroutineType:
                import asyncio

                asyncio.run(answer)
        except BaseException as error:
            self.failed(name, error)
        else:
            self.finished(name, None)

    def failed(self, name: str, error: BaseException) -> None:
        self.finished(name, self.why(error))

    def finished(self, name: str, why: dict[str, Any] | None) -> None:
        if why is None and self._peer.dead is not None:  # caught by the test itself: it counts nevertheless
            why = self.why(self._peer.dead)
        self.write(test=name, ok=why is None, why=why)

    def why(self, error: BaseException) -> dict[str, Any]:
        """The facts of a failure; what they mean is decided outside."""
        try:
            text = str(error)[:MAX_MESSAGE]
        except BaseException as second:
            text = f"<no text: {type(second).__name__}>"
        kind = type(error)
        facts: dict[str, Any] = {"type": kind.__name__, "message": text, "at": self._test_frame(error),
                                 "asked": self._peer.asked, "got": self._peer.got,
                                 "bases": [k.__name__ for k in kind.__mro__ if k.__module__ == "builtins"]}
        frames = error.__dict__.get("_quintain_frames")
        if isinstance(error, WrongType):
            facts["wrong_type"] = True
        elif frames is not None:
            facts["candidate"] = _clean_frames(frames)
        if isinstance(error, BaseExceptionGroup):
            facts["leaves"] = _leaves(error)[:20]
        if isinstance(error, Gone):
            facts["gone"] = error.why
        if isinstance(error, ImportError) and error.name:
            facts["missing"] = str(error.name)[:200]
            facts["served"] = self._finder.serves(error.name)
        return facts

    def _test_frame(self, error: BaseException) -> list[Any] | None:
        found = None
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            for root in (self._root, TESTS):
                if file.startswith(root):
                    found = [file[len(root) + 1:], trace.tb_lineno or 0]
            trace = trace.tb_next
        return found


def _sound(value: Any) -> Any:
    """A record whose texts every reader takes: without halves of surrogate pairs, which the candidate may have sent."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, (list, tuple)):
        return [_sound(item) for item in value]
    return {key: _sound(item) for key, item in value.items()} if isinstance(value, dict) else value


def _clean_frames(frames: Any) -> list[Any]:
    """The candidate's word for where it failed, cut down to what a report can hold."""
    if not isinstance(frames, list):
        return []
    return [[f[0][:200], min(max(f[1], 0), MAX_LINE), f[2][:100]] for f in frames[-8:]
            if isinstance(f, list) and len(f) == 3 and [type(x) for x in f] == [str, int, str]]


def _leaves(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [name for inner in error.exceptions for name in _leaves(inner)]
    return [type(error).__name__]


def show_comparison(source: str, left: Any, operator: str, right: Any) -> str:
    """What a failed `assert left == right` says: the two values, shortened. Named in the code of the tests."""
    return f"{source}: found {_short(left)} {operator} {_short(right)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Gone:
        raise
    except BaseException as error:
        return f"<{type(value).__name__} without repr: {type(error).__name__}>"
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "..."


def load_test_file(path: str, root: str, code: bytes | None) -> types.ModuleType:
    """Execute a test file under its own name. Raises whatever it raises."""
    file = os.path.join(root, path)
    folder = os.path.dirname(file)
    for place in (root, folder):
        if place not in sys.path:
            sys.path.insert(0, place)
    name = os.path.basename(path)[:-3]
    module = types.ModuleType(name)
    module.__file__ = file
    module.__dict__["__quintain_show__"] = show_comparison
    sys.modules[name] = module
    if code is None:
        with open(file, "rb") as source:
            exec(compile(source.read(), file, "exec", dont_inherit=True), module.__dict__)
    else:
        exec(marshal.loads(code), module.__dict__)
    return module


def collect_plain(path: str, module: types.ModuleType) -> list[tuple[str, Callable[[], Any]]]:
    """The `test*` functions, and the `test*` methods of plain classes named `Test*`."""
    tests: list[tuple[str, Callable[[], Any]]] = []
    for name, value in list(vars(module).items()):
        if name.startswith("test") and isinstance(value, types.FunctionType):
            tests.append((f"{path}::{name}", value))
        elif name.startswith("Test") and _is_plain_class(value, module):
            tests += [(f"{path}::{name}::{method}", _bound(value, method)) for method in dir(value)
                      if method.startswith("test") and callable(getattr(value, method))]
    return tests


def _is_plain_class(value: Any, module: types.ModuleType) -> bool:
    case = getattr(sys.modules.get("unittest"), "TestCase", ())
    return type(value) is type and value.__module__ == module.__name__ and not issubclass(value, case)


def _bound(kind: type, method: str) -> Callable[[], Any]:
    def test() -> Any:
        instance = kind()
        getattr(instance, "setup_method", _nothing)()
        try:
            return getattr(instance, method)()
        finally:
            getattr(instance, "teardown_method", _nothing)()

    return test


def _nothing() -> None:
    """For classes without set-up or tear-down."""


def collect_cases(path: str, module: types.ModuleType) -> list[tuple[str, list[Any]]]:
    """The classes of unittest in a module, each with its tests; none where unittest was never imported."""
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return []
    names = unittest.TestLoader().getTestCaseNames
    found: list[tuple[str, list[Any]]] = []
    for value in dict.fromkeys(v for v in vars(module).values() if isinstance(v, type)):
        if issubclass(value, unittest.TestCase) and value.__module__ != "unittest.case":
            found.append((f"{path}::{value.__name__}", [value(name) for name in names(value)]))
    return found


def case_result(report: Report, prefix: str) -> Any:
    """A unittest result that reports each test as this program does; skipped and expected to fail are failures."""
    import unittest

    class Result(unittest.TestResult):
        def startTest(self, test: Any) -> None:
            self.bad: dict[str, Any] | None = None
            report.write(begin=self.name(test))
            if report._peer.dead is not None:
                self.bad = report.why(report._peer.dead)

        def name(self, test: Any) -> str:
            return f"{prefix}::{test._testMethodName}"

        def addError(self, test: Any, err: Any) -> None:
            if hasattr(test, "_testMethodName"):
                self.bad = self.bad or report.why(err[1])
            else:  # set-up of the class or the module
                report.write(file=prefix, why=report.why(err[1]))

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.bad = self.bad or report.why(err[1])

        def addSkip(self, test: Any, reason: str) -> None:
            self.bad = self.bad or {"type": "SkipTest", "message": str(reason)[:MAX_MESSAGE], "skipped": True}

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            self.bad = self.bad or {"type": "ExpectedFailure", "message": "expected to fail", "skipped": True}

        def addUnexpectedSuccess(self, test: Any) -> None:
            self.bad = self.bad or {"type": "UnexpectedSuccess", "message": "expected to fail", "skipped": True}

        def stopTest(self, test: Any) -> None:
            report.finished(self.name(test), self.bad)

    return Result()


def run_file(report: Report, path: str, root: str, code: bytes | None, shuffle: Callable[[list[Any]], None]) -> None:
    try:
        module = load_test_file(path, root, code)
    except BaseException as error:
        report.write(file=path, why=report.why(error))
        return
    units: list[Any] = [*collect_plain(path, module), *collect_cases(path, module)]
    shuffle(units)
    for name, what in units:
        if isinstance(what, list):
            shuffle(what)
            run_cases(report, name, what)
        elif what.__code__.co_argcount if isinstance(what, types.FunctionType) else 0:
            report.write(test=name, ok=False, why={"type": "FixtureNeeded", "task": True,
                                                   "message": "a test with parameters needs pytest"})
        else:
            report.run(name, what)


def run_cases(report: Report, name: str, cases: list[Any]) -> None:
    """Run one class. unittest lets a KeyboardInterrupt through, which the answer may have raised: the tests that it
    leaves out fail for that reason."""
    import unittest

    try:
        unittest.TestSuite(cases).run(case_result(report, name))
    except BaseException as error:
        report.write(file=name, why=report.why(error))


def verify(config: dict[str, Any]) -> None:
    """Run the suite in the working directory. `config`: modules, plain ([path, code or None] each), pytest (paths),
    seed or None, call_seconds, run_seconds."""
    root = os.getcwd()
    fd = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.meta_path.append(LateSite)
    peer = Verifier(Pipe(CHANNEL), call_seconds=config["call_seconds"],
                    run_until=time.monotonic() + config["run_seconds"])
    sys.addaudithook(Watch(peer.is_serving, peer.may_reach, root=root, tests=TESTS))
    finder = Finder(peer, config["modules"])
    sys.meta_path.insert(0, finder)
    report = Report(fd, peer, finder, root)
    finder.told = lambda: report.write(asked=True)
    seed = config["seed"]

    def shuffle(items: list[Any]) -> None:
        if seed is not None and len(items) > 1:
            import random

            random.Random(seed).shuffle(items)

    files = list(config["plain"])
    shuffle(files)
    for path, code in files:
        run_file(report, path, root, code, shuffle)
    if config["pytest"]:
        try:
            run_pytest(report, root, config["pytest"])
        except BaseException as error:
            for path in config["pytest"]:
                report.write(file=path, why=report.why(error))
    report.write(end={"calls": peer.calls, "gone": peer.dead.why if peer.dead else None,
                      "received_bytes": peer.pipe.received_bytes})


def run_pytest(report: Report, root: str, paths: list[str]) -> None:
    """Run files that need pytest under pytest itself, with no configuration but the suite's own conftest files."""
    try:
        import pytest
    except ImportError as error:
        facts = {**report.why(error), "task": True}
        for path in paths:
            report.write(file=path, why=facts)
        return

    class Plugin:
        def __init__(self) -> None:
            self.bad: dict[str, dict[str, Any]] = {}

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            report.write(begin=nodeid)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            outcome = yield
            result = outcome.get_result()
            if result.skipped or hasattr(result, "wasxfail"):
                self.bad[item.nodeid] = {"type": "Skipped", "message": "skipped or expected to fail", "skipped": True}
            elif call.excinfo is not None:
                self.bad.setdefault(item.nodeid, report.why(call.excinfo.value))
            elif result.failed:  # a strict xfail that passed: it fails without an exception
                self.bad.setdefault(item.nodeid, {"type": "xpass_strict", "task": True,
                                                  "message": str(result.longrepr)[:MAX_MESSAGE]})

        def pytest_runtest_logfinish(self, nodeid: str) -> None:
            report.finished(nodeid, self.bad.get(nodeid))

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.unloaded(report)

        def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
            if not hasattr(node, "runtest"):
                self.errors = {node.nodeid: call.excinfo.value}

        def unloaded(self, collected: Any) -> None:
            error = getattr(self, "errors", {}).get(collected.nodeid)
            inner = (error.__cause__ or error) if error is not None else None
            why = report.why(inner) if inner is not None else {"type": "CollectError", "message": "not collected"}
            report.write(file=collected.nodeid, why=why)

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(root)
    pytest.main(["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", root, "--import-mode=prepend", *paths],
                plugins=[Plugin()])
