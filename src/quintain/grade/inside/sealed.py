"""The sealed run of tests that must share the answer's interpreter: a parent that holds the channel, and a child that
runs them and holds nothing but a pipe to the parent and a word of its own.

The parent is fixed before any code of the answer exists in this sandbox's processes: it notes where the runner's own
functions live, forks, relays what the child says, and adds how the child ended and which of those functions had moved.
Standard library and pytest only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import marshal
import os
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import types
from typing import Any

CHANNEL = 3
MAX_REPORT = 4_000_000
MAX_MESSAGE = 500
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "no:threadexception", "-c",
           os.devnull, "--noconftest", "--import-mode=importlib"]


def watched() -> dict[str, int]:
    """Where the functions live that decide what a test's result is: by name, the address of each."""
    import builtins
    import math
    import operator
    import unittest
    import unittest.case
    import unittest.mock

    import _pytest.assertion
    import _pytest.python
    import _pytest.raises
    import _pytest.reports
    import _pytest.runner
    import _pytest.skipping
    import _pytest.unittest

    places: dict[str, int] = {}
    modules = (_pytest.python, _pytest.raises, _pytest.reports, _pytest.runner, _pytest.skipping, _pytest.unittest,
               _pytest.assertion, unittest.case, unittest.mock, builtins, math, operator)
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("__") and module is not builtins:
                continue
            if callable(value) and not isinstance(value, type):
                places[f"{module.__name__}.{name}"] = id(value)
                if isinstance(value, types.FunctionType):
                    places[f"{module.__name__}.{name}()"] = id(value.__code__)
            elif isinstance(value, type) and value.__module__ == module.__name__ and module is not builtins:
                places[f"{module.__name__}.{name}"] = id(value)
                for attribute, inner in list(vars(value).items()):
                    if isinstance(inner, (types.FunctionType, classmethod, staticmethod, property)):
                        places[f"{module.__name__}.{name}.{attribute}"] = id(inner)
                    if isinstance(inner, types.FunctionType):
                        places[f"{module.__name__}.{name}.{attribute}()"] = id(inner.__code__)
    return places


class SealedReport:
    """What the child says, line by line, each with the run's word and its place in the order."""

    def __init__(self, end: socket.socket, word: str) -> None:
        number = 0

        def tell(**record: Any) -> None:
            nonlocal number
            data = json.dumps([word, number, record], default=str).encode() + b"\n"
            number += 1
            end.sendall(data)

        self.tell = tell


def facts(error: BaseException, root: str) -> dict[str, Any]:
    """What is worth telling of a failure. Its type's name is the child's word, and decides nothing but the wording."""
    try:
        text = str(error)[:MAX_MESSAGE]
    except BaseException:
        text = "<no text>"
    place, trace, leaves = None, error.__traceback__, []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(root + "/"):
            place = [file[len(root) + 1:], trace.tb_lineno or 0]
        trace = trace.tb_next
    if isinstance(error, BaseExceptionGroup):
        leaves = [type(inner).__name__ for inner in error.exceptions][:20]
    bases = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return {"type": type(error).__name__, "message": text, "at": place, "bases": bases, "leaves": leaves,
            "missing": error.name if isinstance(error, ImportError) and isinstance(error.name, str) else None}


def plugin(report: SealedReport, config: dict[str, Any], codes: dict[str, Any]) -> Any:
    """The pytest plug-in that finds the tests in memory, shuffles them and tells how each went."""
    import pytest

    tell, root = report.tell, config["root"]

    class Module(pytest.Module):
        def _getobj(self) -> types.ModuleType:
            module = types.ModuleType(self.path.stem)
            module.__file__ = str(self.path)
            module.__dict__["__quintain_show__"] = show
            module.__dict__["__quintain_note__"] = lambda number, value: tell(note=number, value=repr(value))
            sys.modules[self.path.stem] = module
            exec(codes.pop(self.path.name), module.__dict__)
            return module

    class Plugin:
        def __init__(self) -> None:
            self.bad: dict[str, Any] = {}

        def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> Any:
            return Module.from_parent(parent, path=module_path)

        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            random.Random(config["seed"]).shuffle(items)

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            tell(begin=nodeid)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            outcome = yield
            result = outcome.get_result()
            if call.excinfo is not None:
                why = facts(call.excinfo.value, root)
                why["skipped"] = bool(result.skipped or hasattr(result, "wasxfail"))
                self.bad.setdefault(item.nodeid, why)
            elif result.outcome != "passed" or hasattr(result, "wasxfail"):
                self.bad.setdefault(item.nodeid, {"type": "Skipped", "message": "skipped or expected to fail",
                                                  "skipped": True})

        def pytest_runtest_logfinish(self, nodeid: str) -> None:
            tell(test=nodeid, ok=nodeid not in self.bad, why=self.bad.get(nodeid))

        def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
            if not hasattr(node, "runtest"):
                error = call.excinfo.value
                tell(file=node.nodeid, why=facts(error.__cause__ or error, root))

    return Plugin()


def show(source: str, left: Any, operator: str, right: Any) -> str:
    """What a failed `assert left == right` says. Named in the code of the tests."""
    return f"{source}: found {repr(left)[:200]} {operator} {repr(right)[:200]}"


def loaded(name: str, code: bytes, text: str, same: bool) -> Any:
    """A file of the suite as code: as compiled outside, if this interpreter has the same bytecode."""
    return marshal.loads(code) if same else compile(text, f"<tests>/{name}", "exec", dont_inherit=True)


def be_child(end: socket.socket, config: dict[str, Any]) -> None:
    """Run the tests; never returns."""
    import pytest

    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with contextlib.suppress(OSError):
        os.close(CHANNEL)
    report = SealedReport(end, config.pop("word"))
    same = config["magic"] == importlib.util.MAGIC_NUMBER
    codes = {name: loaded(name, code, text, same) for name, code, text in config.pop("tests")}
    folder = tempfile.mkdtemp()
    paths = [os.path.join(folder, name) for name in codes]
    for path in paths:
        open(path, "w").close()
    plugins: list[Any] = [plugin(report, config, codes)]
    for name, code, text in config.pop("conftests"):
        module = types.ModuleType(name)
        exec(loaded(name, code, text, same), module.__dict__)
        plugins.append(module)
    sys.path[:] = [p for p in sys.path if p]
    sys.path += config["paths"]
    sys.argv = ["-c"]
    sys.dont_write_bytecode = True
    sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8")
    code = pytest.main([*OPTIONS, "--rootdir", folder, *paths], plugins=plugins)
    report.tell(end=int(code), places=watched())
    end.close()
    os._exit(0)


def rehearse() -> None:
    """Run a test of each kind once, so that a fork finds imported what pytest imports late."""
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    watched()
    folder = tempfile.mkdtemp()
    name = os.path.join(folder, "test_rehearsal.py")
    try:
        with open(name, "w") as file:
            file.write("import unittest\ndef test_a():\n    assert 1 == 1\ndef test_b():\n    assert [1] == [2]\n"
                       "class T(unittest.TestCase):\n    def test_c(self): self.assertEqual(1, 2)\n")
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main([*OPTIONS, "--rootdir", folder, name])
    finally:
        shutil.rmtree(folder)
        sys.modules.pop("test_rehearsal", None)


def _undumpable(on: bool) -> None:
    """Whether others of our user may look into this process (prctl PR_SET_DUMPABLE)."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(4, 0 if on else 1, 0, 0, 0)


def seal(config: dict[str, Any]) -> None:
    """Run `config["tests"]` ([file name, compiled code]), `conftests` first, with `paths` at the end of the search
    path, `seed`, `word` and `run_seconds`; the report goes to descriptor 3."""
    channel = socket.socket(fileno=CHANNEL)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        places = watched()
    except ImportError as error:
        channel.sendall(json.dumps({"unready": str(error)}).encode() + b"\n")
        return
    channel.sendall(b'{"ready": true}\n')
    _undumpable(True)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            _undumpable(False)
            ours.close()
            config["root"] = os.getcwd()
            be_child(theirs, config)
        finally:
            os._exit(70)
    theirs.close()
    relay(ours, channel, child, time.monotonic() + config["run_seconds"], places)


def relay(ours: socket.socket, channel: socket.socket, child: int, until: float, places: dict[str, int]) -> None:
    """Pass on what the child says until it has ended, then how it ended and what of the runner had moved."""
    said, status, hung = b"", None, False
    while True:
        ready, _, _ = select.select([ours], [], [], 0.02)
        data = ours.recv(65_536) if ready else b""
        said += data
        if status is None:
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
        if len(said) > MAX_REPORT or (status is not None and not data):
            break
        if time.monotonic() > until and status is None:
            hung = True
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
    if status is None:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    channel.sendall(said[:MAX_REPORT])
    channel.sendall(b"\n" + json.dumps({"status": status, "hung": hung, "flood": len(said) > MAX_REPORT,
                                        "places": places}).encode() + b"\n")
