"""What a suite sees of an answer in another process: the same as in its own, except what would let it be fooled."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from quintain.grade import Oracle, headline, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite
from quintain.types import FaultKind, HouseError, Limits, Owner, Program, Verdict
from tests.grade.ground import Case, grade_all, needs_native, python_case, verdict_of

pytestmark = needs_native


class Told(NamedTuple):
    """An answer, a test, and the kind of fault that must come out; None: it must pass."""

    solution: str
    test: str
    fault: FaultKind | None = None
    wall_seconds: float = 20.0


ACCOUNT = """
class Poor(ValueError):
    def __init__(self, lacking):
        super().__init__(f"{lacking} too little")
        self.lacking = lacking

class Account:
    interest = 3
    def __init__(self, balance=0):
        self.balance = balance
        self._log = []
    @property
    def double(self):
        return 2 * self.balance
    @double.setter
    def double(self, value):
        self.balance = value // 2
    @classmethod
    def rich(cls):
        return cls(10**6)
    @staticmethod
    def name():
        return "account"
    def pay(self, amount, *, twice=False):
        amount *= 2 if twice else 1
        if amount > self.balance:
            raise Poor(amount - self.balance)
        self.balance -= amount
        return self
    def __eq__(self, other):
        return isinstance(other, Account) and self.balance == other.balance
    def __hash__(self):
        return hash(self.balance)
    def __lt__(self, other):
        return self.balance < other.balance
    def __add__(self, other):
        return Account(self.balance + (other.balance if isinstance(other, Account) else other))
    def __radd__(self, other):
        return self + other
    def __len__(self):
        return self.balance
    def __getitem__(self, index):
        return [7, 8, 9][index]
    def __contains__(self, item):
        return item == self.balance
    def __iter__(self):
        yield from (1, 2, self.balance)
    def __enter__(self):
        self._log.append("in")
        return self
    def __exit__(self, kind, error, trace):
        self._log.append(kind.__name__ if kind else None)
        return kind is KeyError
    def __call__(self, x):
        return x + self.balance
    def __str__(self):
        return f"<{self.balance}>"
    def __bool__(self):
        return self.balance > 0
    def log(self):
        return self._log

class Savings(Account):
    pass
"""

TABLE: dict[str, Told] = {
    "plain values": Told("def f(x): return [x, (x, {1: {x}}), 1.5, 'é', b'b', None]",
                         "from solution import f\n"
                         "def test(): assert f(2) == [2, (2, {1: {2}}), 1.5, 'é', b'b', None]"),
    "exact types": Told("def f(): return [1, 2]", "from solution import f\ndef test(): assert f() == (1, 2)",
                        FaultKind.ASSERTION_ERROR),
    "a class": Told(ACCOUNT, """
from solution import Account, Poor, Savings
def test():
    a = Account(5)
    assert (a.balance, a.double, Account.interest, a.interest) == (5, 10, 3, 3)
    assert (Account.name(), a.name()) == ("account", "account")
    a.double = 8
    assert a.balance == 4 and Account.rich().balance == 10**6 and a.pay(1, twice=True) is a and a.balance == 2
    assert isinstance(a, Account) and not isinstance(a, Savings) and issubclass(Savings, Account)
    assert type(a) is Account and isinstance(Savings(), Account) and type(Savings()).__name__ == "Savings"
    assert Account(2) == a and Account(3) != a and len({a, Account(2), Account(3)}) == 2 and a < Account(3)
    assert (a + Account(1)).balance == 3 and (a + 5).balance == 7 and (5 + a).balance == 7
    assert sum([a, a]).balance == 4
    assert len(a) == 2 and a[1] == 8 and 2 in a and 3 not in a and list(a) == [1, 2, 2] and a(5) == 7
    assert str(a) == "<2>" and f"{a}" == "<2>" and a and not Account()
    first, *rest = a
    assert (first, rest) == (1, [2, 2]) and callable(a) and not callable(a.balance) and hasattr(a, "pay")
    assert not hasattr(a, "nothing") and getattr(a, "nothing", 4) == 4
"""),
    "a context manager": Told(ACCOUNT, """
from solution import Account
def test():
    with Account(5) as a:
        assert a.balance == 5
    with a:
        raise KeyError("x")
    try:
        with a:
            raise LookupError("y")
    except LookupError as error:
        assert error.args == ("y",)
    assert a.log() == ["in", None, "in", "KeyError", "in", "LookupError"]
"""),
    "exceptions": Told(ACCOUNT + "\ndef fail(): raise OSError(2, 'no', 'f')\ndef key(): return {}['k']\n", """
import unittest
from solution import Account, Poor, fail, key
class Test(unittest.TestCase):
    def test_custom(self):
        with self.assertRaises(Poor) as caught:
            Account(1).pay(3)
        self.assertEqual((caught.exception.lacking, str(caught.exception)), (2, "2 too little"))
        self.assertEqual(caught.exception.args, ("2 too little",))
        with self.assertRaisesRegex(ValueError, "too little"):
            Account(1).pay(3)
    def test_builtin(self):
        with self.assertRaises(FileNotFoundError) as caught:
            fail()
        self.assertEqual((caught.exception.errno, caught.exception.filename), (2, "f"))
        self.assertRaises(KeyError, key)
        self.assertRaises(TypeError, key, 1)
"""),
    "callbacks": Told("def call(f, *a): return f(*a)\ndef every(f, xs): return [f(x) for x in xs]\n"
                      "def compose(f, g): return lambda x: f(g(x))\ndef drain(it): return list(it)\n"
                      "def read(file):\n with file as f: return [line.strip() for line in f]\n"
                      "def keep(f):\n try: f()\n except ValueError: return 'kept'\n", """
import io, operator
from solution import call, compose, drain, every, keep, read
class Own(Exception): pass
def boom(kind): raise kind("b")
def test():
    seen = []
    assert call(seen.append, 3) is None and seen == [3]
    assert every(lambda x: x + 1, [1, 2]) == [2, 3] and every(len, ["a", "bb"]) == [1, 2]
    assert call(operator.add, 1, 2) == 3 and compose(str, abs)(-3) == "3"
    assert compose(lambda x: x * 2, int)("4") == 8
    assert drain(x * x for x in range(3)) == [0, 1, 4] and drain(iter("ab")) == ["a", "b"]
    assert read(io.StringIO("a\\nb\\n")) == ["a", "b"]
    assert keep(lambda: boom(ValueError)) == "kept"
    error = Own("mine")
    def fail(): raise error
    try:
        call(fail)
    except Own as caught:
        assert caught is error
    else:
        assert False
"""),
    "changes in place": Told("def f(xs, d, s):\n xs.append(1); xs[0][0] = 9; d['k'] = [1]; s.discard(1)\n", """
from solution import f
def test():
    inner = [0]
    xs, d, s = [inner], {"a": inner}, {1, 2}
    assert f(xs, d, s) is None
    assert xs == [[9], 1] and d["k"] == [1] and s == {2} and inner == [9] and xs[0] is inner and d["a"] is inner
"""),
    "a result that is an argument": Told("def f(a, b):\n b.pop(0)\n return b\ndef g(c): c([1])\n", """
from solution import f, g
def test():
    a, b, kept = [1], [[2], [3]], []
    third = b[1]
    assert f(a, b) is b and b == [[3]] and b[0] is third
    g(kept.append)
    assert kept == [[1]]
"""),
    "lazy generators": Told("def count():\n n = 0\n while True:\n  yield n\n  n += 1\n", """
from itertools import islice
from solution import count
def test():
    assert list(islice(count(), 4)) == [0, 1, 2, 3]
    numbers = count()
    assert next(numbers) == 0 and next(numbers) == 1 and iter(numbers) is numbers
"""),
    "a named tuple is a tuple": Told(
        "from collections import namedtuple, Counter\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)\n"
        "class L(list): pass\ndef g(): return L([1])\ndef h(): return {2: 0, 3: 0}.keys()\n"
        "def c(): return Counter('aab')", """
from solution import c, f, g, h
def test():
    assert f() == (1, 2) and f().x == 1 and isinstance(f(), tuple) and g() == [1] and g() != [2]
    assert h() == {2, 3} and sorted(h()) == [2, 3] and c() == {"a": 2, "b": 1}
"""),
    "enums": Told("import enum\nclass Color(enum.Enum):\n RED = 1\n BLUE = 2\ndef f(): return Color.RED\n", """
from solution import Color, f
def test():
    assert f() == Color.RED and f() is Color.RED and f() != Color.BLUE and f().value == 1
    assert Color["BLUE"] is Color.BLUE and Color(2) is Color.BLUE and [c.name for c in Color] == ["RED", "BLUE"]
    assert len(Color) == 2 and f() in Color and {Color.RED: 1}[f()] == 1
"""),
    "dataclasses": Told("from dataclasses import dataclass\n"
                        "@dataclass(order=True)\nclass P:\n x: int\n y: int = 0\n", """
from solution import P
def test():
    assert P(1) == P(1, 0) and P(1) < P(2) and repr(P(1)) == "P(x=1, y=0)"
    assert [P(1)] == [P(1)] and P(1) != P(2)
"""),
    "module state": Told("count = 0\ndef f():\n global count\n count += 1\n", """
import solution
from unittest import mock
def test():
    solution.f()
    assert solution.count == 1
    solution.count = 5
    solution.f()
    assert solution.count == 6
    with mock.patch("solution.f", return_value=7):
        assert solution.f() == 7
    assert solution.f() is None
"""),
    "printing": Told("def f(): print('hello', 3)\n", """
import contextlib, io
from solution import f
def test():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f()
    assert out.getvalue() == "hello 3\\n"
"""),
    "threads of the tests": Told(ACCOUNT, """
import threading
from solution import Account
def test():
    a = Account(1000)
    threads = [threading.Thread(target=lambda: [a.pay(1) for _ in range(20)]) for _ in range(5)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert a.balance == 900
"""),
    "copies": Told("class A:\n def __init__(self): self.x = [1]\n", """
import copy
from solution import A
def test():
    a = A()
    b, c = copy.copy(a), copy.deepcopy(a)
    a.x = [2]
    assert (a.x, b.x, c.x) == ([2], [1], [1])
"""),
    "packages": Told("from pack.inner import g\ndef f(): return g() + 1\n", """
from solution import f
from pack.inner import g
import pack.inner
def test(): assert f() == 3 and g() == 2 and pack.inner.g() == 2 and pack.inner.LIST == [1]
"""),
    "an interrupt in a case": Told("def f(): raise KeyboardInterrupt", """
import unittest
from solution import f
class Test(unittest.TestCase):
    def test_a(self): self.assertEqual(f(), 1)
    def test_b(self): self.assertEqual(f(), 1)
""", FaultKind.RUNTIME_ERROR),
    "an interrupt in a function": Told("def f(): raise GeneratorExit", "from solution import f\ndef test(): f()",
                                       FaultKind.RUNTIME_ERROR),
    "an interrupt while importing": Told("raise KeyboardInterrupt", "from solution import f\ndef test(): f()",
                                         FaultKind.RUNTIME_ERROR),
    "callbacks without end": Told("def f(g):\n while True: g()", "from solution import f\ndef test(): f(lambda: 1)",
                                  FaultKind.TIMEOUT, 1.0),
    "a value too large for the tests": Told("def f(): return 10**12", "from solution import f\n"
                                            "def test(): assert [0] * f() == [1]", FaultKind.WRONG_ANSWER),
    "an iterator without end": Told("import itertools\ndef f(): return itertools.repeat('x' * 10**6)",
                                    "from solution import f\ndef test(): assert list(f()) == []",
                                    FaultKind.OUTPUT_LIMIT),
    "subtests": Told("def f(x): return x if x != 3 else 0", """
import unittest
from solution import f
class Test(unittest.TestCase):
    def test_all(self):
        for n in range(5):
            with self.subTest(n=n):
                self.assertEqual(f(n), n)
""", FaultKind.ASSERTION_ERROR),
    "skipped": Told("def f(): return 1", """
import unittest
from solution import f
class Test(unittest.TestCase):
    @unittest.skip("later")
    def test_it(self): pass
""", FaultKind.SKIPPED_TEST),
    "expected to fail": Told("def f(): return 1", """
import unittest
from solution import f
class Test(unittest.TestCase):
    @unittest.expectedFailure
    def test_it(self): self.assertEqual(f(), 2)
""", FaultKind.SKIPPED_TEST),
    "an object beside a plain value": Told(
        "class S:\n def __eq__(self, o): return True\n def __hash__(self): return 5\ndef f(): return S()",
        "from solution import f\ndef test(): assert f() == 5", FaultKind.ASSERTION_ERROR),
    "an object in arithmetic": Told(
        "class S:\n def __sub__(self, o): return 0.0\ndef f(): return S()",
        "from solution import f\ndef test(): assert abs(f() - 0.5) < 1e-6", FaultKind.WRONG_TYPE),
    "a tampering class in arithmetic": Told(
        "class S:\n def __sub__(self, o): return self\n def __abs__(self): return 0.0\ndef f(): return S()",
        "from solution import S, f\ndef test(): assert abs(f() - 0.5) < 1e-6", FaultKind.WRONG_TYPE),
    "a value that cannot cross": Told("def f():\n a = []\n a.append(a)\n return a",
                                      "from solution import f\ndef test(): assert f() == []", FaultKind.WRONG_TYPE),
    "a missing function": Told("def g(): pass", "from solution import f\ndef test(): assert f() == 1",
                               FaultKind.MISSING_ENTRY_POINT),
    "a missing method": Told("class A: pass", "from solution import A\ndef test(): assert A().f() == 1",
                             FaultKind.MISSING_ENTRY_POINT),
    "None where a list is due": Told("def f(): pass", "from solution import f\ndef test(): assert f()[0] == 1",
                                     FaultKind.WRONG_TYPE),
    "a test with a mistake": Told("def f(): return 1", "from solution import f\ndef test(): assert f() == nothing",
                                  FaultKind.TASK_INVALID),
    "recursion": Told("def f(n): return f(n + 1)", "from solution import f\ndef test(): assert f(1) == 1",
                      FaultKind.RECURSION_ERROR),
    "a hang": Told("def f():\n while True: pass", "from solution import f\ndef test(): assert f() == 1",
                   FaultKind.TIMEOUT, 1.0),
    "a hang while importing": Told("while True: pass", "from solution import f\ndef test(): assert f() == 1",
                                   FaultKind.TIMEOUT, 1.0),
    "an endless loop of the test": Told("def f(): return 1", "from solution import f\ndef test():\n while f(): pass",
                                        FaultKind.TIMEOUT, 1.0),
    "a crash": Told("import ctypes\ndef f(): ctypes.string_at(0)",
                    "from solution import f\ndef test(): assert f() == 1", FaultKind.CRASH_SIGNAL),
    "memory": Told("def f():\n a = []\n while True: a.append(bytearray(10**7))",
                   "from solution import f\ndef test(): assert f() == 1", FaultKind.OOM_KILL),
    "an exit that the test catches": Told("import os\ndef f(): os._exit(0)", """
from solution import f
def test():
    try:
        f()
    except BaseException:
        pass
""", FaultKind.EARLY_EXIT),
    "a SystemExit that is asked for": Told("import sys\ndef f(): sys.exit(3)", """
import unittest
from solution import f
class Test(unittest.TestCase):
    def test_it(self):
        with self.assertRaises(SystemExit) as caught: f()
        self.assertEqual(caught.exception.code, 3)
"""),
}


def cases() -> list[Case]:
    found = []
    for name, told in TABLE.items():
        files = {"solution.py": told.solution}
        modules = ("solution",)
        if name == "packages":
            files |= {"pack/__init__.py": "", "pack/inner.py": "LIST = [1]\ndef g(): return 2\n"}
            modules = ("solution", "pack")
        limits = Limits(wall_seconds=told.wall_seconds, cpu_seconds=10.0, memory_bytes=256 * 1024 * 1024)
        found.append(python_case(name, files, told.test, modules=modules, limits=limits))
    return found


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | HouseError]:
    return grade_all(cases())


@pytest.mark.parametrize("name", TABLE)
def test_the_oracle_tells_it_right(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict), verdict
    fault = headline(verdict)
    assert (fault.kind if fault else None) is TABLE[name].fault, fault
    assert verdict.solved is (TABLE[name].fault is None)


def test_a_failed_assertion_tells_both_values(verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts["exact types"]
    assert isinstance(verdict, Verdict)
    fault = headline(verdict)
    assert fault is not None
    assert "found [1, 2] == (1, 2)" in fault.message
    assert (fault.file, fault.line) == ("test_it.py", 2)


def test_an_answer_that_depends_on_the_seed_of_hashes_is_not_confirmed() -> None:
    test = "from solution import f\ndef test(): assert f() == 8\n"
    steady = "import os\ndef f(): return len(os.path.basename(os.getcwd()))\n"
    assert verdict_of(python_case("steady", steady, test), confirm=True).solved
    moody = "import os\ndef f(): return 8 if os.environ['PYTHONHASHSEED'] == '0' else 9\n"
    verdict = verdict_of(python_case("moody", moody, test), confirm=True)
    assert not verdict.solved
    assert "another seed" in str(headline(verdict))


PYTEST_FILE = """
import pytest
from solution import f

@pytest.fixture
def three():
    return 3

@pytest.mark.parametrize("n", [1, 2])
def test_twice(n, three):
    assert f(n) == 2 * n and three == 3

def test_raises():
    with pytest.raises(ValueError, match="small"):
        f(-1)

def test_skip():
    pytest.skip("not now")

@pytest.mark.xfail
def test_xfail():
    assert f(1) == 3
"""


def test_a_file_that_imports_pytest_is_run_under_pytest() -> None:
    site = (Path(pytest.__file__).parents[1],)
    suite = PythonSuite(files={"test_it.py": PYTEST_FILE.encode()})
    program = Program(files={
        "solution.py": b"def f(n):\n if n < 0: raise ValueError('too small')\n return 2 * n\n",
        "conftest.py": b"raise SystemExit(0)\n", "pytest.ini": b"[pytest]\naddopts = --co\n",
    })

    async def grade() -> list[Verdict]:
        async with NativeBackend(warm=warm_oracle(site=site)) as backend:
            oracle = Oracle(backend, site=site)
            solved = PythonSuite(files=suite.files, required=(
                "test_it.py::test_twice[1]", "test_it.py::test_twice[2]", "test_it.py::test_raises"))
            patient = Limits(wall_seconds=60, cpu_seconds=60)  # a cold pytest on a busy machine
            return [await oracle.grade(s, program, limits=patient) for s in (suite, solved)]

    verdict, solved = asyncio.run(grade())
    assert solved.solved, headline(solved)
    passed = {t.id: t.passed.value for t in verdict.tests}
    assert passed["test_it.py::test_twice[2]"] == passed["test_it.py::test_raises"] == "passed"
    assert passed["test_it.py::test_skip"] == passed["test_it.py::test_xfail"] == "failed"


def test_a_suite_that_needs_pytest_where_there_is_none_is_the_tasks_fault() -> None:
    if any(Path(sys.base_prefix).glob("lib/python*/*-packages/pytest")):
        pytest.skip("the interpreter outside the virtual environment has pytest of its own")
    verdict = verdict_of(python_case("none", "def f(n): return 2 * n", PYTEST_FILE))
    fault = headline(verdict)
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.TASK, FaultKind.TASK_ENVIRONMENT)


def test_every_required_test_is_reported_once_and_absence_is_failure() -> None:
    case = python_case("absent", "def f(): return 1", "from solution import f\ndef test_a(): assert f() == 1\n")
    assert isinstance(case.suite, PythonSuite)
    suite = PythonSuite(files=case.suite.files, required=("test_it.py::test_a", "test_it.py::test_b"))
    verdict = verdict_of(Case(name="absent", suite=suite, program=case.program))
    assert [(t.id, t.passed.value) for t in verdict.tests] == [
        ("test_it.py::test_a", "passed"), ("test_it.py::test_b", "missing")]
    assert not verdict.solved
    assert verdict.tests[1].fault is not None
    assert verdict.tests[1].fault.owner is Owner.POLICY


@pytest.mark.parametrize("files", [
    {f"f{n}": "" for n in range(400)} | {"solution.py": "def f(n): return n\n"},
    {"big": "x" * (3 << 20), "solution.py": "def f(n): return n\n"},
    {"n" * 300 + ".py": "", "solution.py": "def f(n): return n\n"},
], ids=["too many", "too large", "too long a name"])
def test_an_answer_whose_files_do_not_fit_is_judged_and_not_laid_on_the_house(files: dict[str, str]) -> None:
    small = Limits(disk_bytes=2 << 20, inodes=200, memory_bytes=256 << 20, wall_seconds=20)
    tests = "from solution import f\n\n\ndef test_f():\n    assert f(1) == 1\n"
    case = python_case("unplaced", files, tests, limits=small)
    verdict = verdict_of(case)
    fault = headline(verdict)
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.DISK_LIMIT)
    assert [(t.id, t.passed.value) for t in verdict.tests] == [("test_it.py::test_f", "missing")]
