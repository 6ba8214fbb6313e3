"""What honest answers hand over is no attack, and what hostile ones ask of the tests' objects is refused."""

from __future__ import annotations

import pytest

from quintain.grade import headline
from quintain.types import FaultKind, HouseError, Owner, Verdict
from tests.grade.ground import grade_all, needs_native, python_case

pytestmark = needs_native

RAISED = {
    "os": ("class Gone(OSError): pass", "Gone(2, 'no such file')", "OSError", "error.errno == 2"),
    "file": ("class Gone(FileNotFoundError): pass", "Gone('gone')", "FileNotFoundError", "'gone' in str(error)"),
    "memory": ("class Full(MemoryError): pass", "Full('full')", "MemoryError", "error.args == ('full',)"),
    "group": ("class Many(ExceptionGroup): pass", "Many('many', [ValueError(1)])", "ExceptionGroup",
              "error.exceptions[0].args == (1,)"),
    "mixed": ("class Gone(OSError): pass", "ExceptionGroup('many', [ValueError(1), Gone(2, 'no')])", "ExceptionGroup",
              "len(error.exceptions) == 2"),
    "unicode": ("class Bad(UnicodeDecodeError): pass", "Bad('utf-8', b'a', 0, 1, 'bad')", "UnicodeDecodeError",
                "error.args[0] == 'utf-8'"),
}
TIMES = {
    "named zone": ("from zoneinfo import ZoneInfo", "datetime(2020, 7, 1, tzinfo=ZoneInfo('UTC'))",
                   "found == datetime(2020, 7, 1, tzinfo=timezone.utc)"),
    "own zone": ("class Two(tzinfo):\n    def utcoffset(self, at): return timedelta(hours=2)\n"
                 "    def tzname(self, at): return 'two'\n    def dst(self, at): return None",
                 "datetime(2020, 7, 1, 2, tzinfo=Two())",
                 "found == datetime(2020, 7, 1, tzinfo=timezone.utc) and found.tzname() == 'two'"),
}


def solved(verdict: Verdict | HouseError) -> bool:
    assert isinstance(verdict, Verdict), verdict
    return verdict.solved


def test_exceptions_of_classes_that_derive_from_pythons_own_cross_as_what_they_are() -> None:
    cases = [
        python_case(name, f"{define}\ndef f():\n    raise {made}\n",
                    f"from solution import f\ndef test_it():\n    try:\n        f()\n    except {kind} as error:\n"
                    f"        assert {holds}\n    else:\n        raise AssertionError('nothing was raised')\n")
        for name, (define, made, kind, holds) in RAISED.items()
    ]
    for name, verdict in grade_all(cases).items():
        assert solved(verdict), (name, verdict)


def test_times_in_zones_of_any_class_cross() -> None:
    imports = "from datetime import datetime, timedelta, timezone, tzinfo\n"
    cases = [
        python_case(name, f"{imports}{define}\ndef f():\n    return {made}\n",
                    f"{imports}from solution import f\ndef test_it():\n    found = f()\n    assert {holds}\n")
        for name, (define, made, holds) in TIMES.items()
    ]
    for name, verdict in grade_all(cases).items():
        assert solved(verdict), (name, verdict)


SHELL = "from code import InteractiveInterpreter\n"
READER = "from configparser import ConfigParser\n"
ASKED = {
    "text run by an object of the tests": (
        SHELL + "from solution import f\ndef test_it():\n    seen = {}\n    f(InteractiveInterpreter(seen))\n"
        "    assert seen['x'] == 7\n",
        "def f(shell):\n    shell.runsource('x = 7')\n"),
    "the tests read by an object of the tests": (
        READER + "from solution import f\ndef test_it():\n    assert f(ConfigParser()) == 'WANTED = 42'\n",
        "def f(parser):\n    try:\n        parser.read('test_it.py')\n    except Exception as error:\n"
        "        return 'WANTED = 42' if 'File contains no section' in str(error) else None\n"),
    "a file written by an object of the tests": (
        "import io, os, zipfile\nfrom solution import f\ndef test_it():\n    data = io.BytesIO()\n"
        "    with zipfile.ZipFile(data, 'w') as archive:\n        archive.writestr('elsewhere', 'x')\n"
        "        f(archive)\n    assert os.path.exists('elsewhere')\n",
        "def f(archive):\n    archive.extract('elsewhere')\n"),
}


def test_what_an_object_of_the_tests_could_do_for_an_answer_it_does_not() -> None:
    cases = [python_case(name, solution, tests) for name, (tests, solution) in ASKED.items()]
    for name, verdict in grade_all(cases).items():
        assert isinstance(verdict, Verdict) and not verdict.solved, (name, verdict)
        fault = headline(verdict)
        assert fault is not None and fault.owner is Owner.POLICY and fault.kind is not FaultKind.TIMEOUT, (name, fault)


def test_callbacks_of_the_tests_may_open_files_and_make_classes() -> None:
    tests = (
        "import os\nfrom collections import namedtuple\nfrom solution import f\ndef test_it():\n"
        "    def note(name):\n        with open(name, 'w') as file:\n            file.write('noted')\n"
        "        return namedtuple('P', 'x y')(eval('1'), 2)\n"
        "    assert f(note) == (1, 2) and os.path.exists('notes')\n")
    (verdict,) = grade_all([python_case("callback", "def f(note):\n    return note('notes')\n", tests)]).values()
    assert solved(verdict), verdict


BOMB = """
import gc
ours = next(o for o in gc.get_objects() if type(o).__name__ == "Candidate")
for number in range(16):
    held = ["e", 500000 + number, ["ty", "ValueError"], [["l"] + [["dq", None]] * 300000], "x", None]
    ours.pipe.send(["q", number, "call", [[held], [], []], False, []])
    ours.pipe.receive()
"""


@pytest.mark.parametrize("bomb", [BOMB])
def test_memory_that_an_answer_fills_before_the_first_test_is_laid_on_it(bomb: str) -> None:
    tests = "from solution import f\ndef test_it():\n    assert f() == 1\n"
    (verdict,) = grade_all([python_case("bomb", bomb, tests)]).values()
    assert isinstance(verdict, Verdict), verdict
    fault = headline(verdict)
    assert fault is not None and fault.owner is Owner.POLICY
    assert fault.kind in (FaultKind.OOM_KILL, FaultKind.TIMEOUT, FaultKind.CPU_LIMIT), fault
