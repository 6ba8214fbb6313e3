"""Functions to be made faster, which must do what they did: 24 tasks of our own, on inputs that are new each time.

The function that is given is right and slow; it is also the trusted original with which answers are compared. Ids are
`perf/NAME`. The hidden suite is plain tests on small inputs; beside them lie what `env.PerfEnvironment` needs: the
original (`original.py`), the maker of inputs (`workload.py`), the seed and what is asked (`asked.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

KIND = "perf"
#: The speed-up that is asked for, and the size of inputs that only compare.
TIMES, SMALL = 2.0, 10
#: Seeds of the visible, the hidden and the reserve suite; `PerfEnvironment` puts another in the place of the hidden.
SHOWN, HIDDEN, RESERVE = 1, 2, 3
TESTS = 6
LIMITS = Scopes(
    episode=Limits(wall_seconds=600.0, cpu_seconds=240.0, turns=5),
    turn=Limits(wall_seconds=60.0, cpu_seconds=30.0), command=Limits(wall_seconds=20.0, cpu_seconds=5.0),
)
_SAME = '''"""Whether two plain values are the same, down to their types. Nothing of an answer's own says so."""


def same(found, wanted):
    if type(found) is not type(wanted):
        return False
    if type(wanted) in (list, tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return type(wanted) in (int, str, bool, type(None)) and found == wanted
'''
_ORIGINAL = b'"""What is given, kept where no answer can change it."""\n\n'
_TESTS = '''"""The answer and the original on inputs that are drawn from a seed."""

import copy
import random

from asked import SEED, SMALL
from original import {name} as original
from same import same
from solution import {name}
from workload import inputs


def differs(number):
    for arguments in inputs(random.Random(f"{{SEED}} {{number}}"), SMALL + number):
        wanted = original(*copy.deepcopy(arguments))
        found = {name}(*arguments)
        if not same(found, wanted):
            return f"of {{arguments!r}}: expected {{wanted!r}}, found {{found!r}}"[:600]
    return None
'''


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`slow` is given and `fast` the author's answer; `inputs` defines `inputs(rng, size)`, which gives tuples of
    arguments; `large` is the size at which the time is taken."""

    name: str
    about: str
    large: int
    slow: str
    fast: str
    inputs: str


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    functions: list[Row]


class PerfFormat(ByName):
    """The one set by its name; no file is read but our own."""

    name = "perf"
    about = "perf:own: functions to be made faster without changing what they do"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for another name."""
        if name != "own":
            raise TaskError(f"expected perf:own, found perf:{name}")
        return Taskset(PerfTasks())


class PerfTasks:
    """Our own functions."""

    name = "perf:own"

    @cached_property
    def _rows(self) -> dict[str, Row]:
        text = Path(__file__).with_name("perf.toml").read_text("utf-8")
        return {f"perf/{row.name}": row for row in msgspec.convert(tomllib.loads(text), _File).functions}

    def ids(self) -> Sequence[str]:
        return tuple(self._rows)

    def item(self, id: str) -> Item:
        return item_of(id, self._rows[id])


def item_of(id: str, row: Row, *, times: float = TIMES) -> Item:
    """The task of making `row.slow` at least `times` as fast."""
    text = (f"`solution.py` has a function `{row.name}` that is right, but slow. {row.about}\n\nMake it faster: on "
            f"large inputs it must need at most 1/{times:g} of the CPU time, the start of its process included. It "
            "must return exactly what it returns now, for any arguments of the kinds that `tests_visible/workload.py` "
            "makes.\n\nIt is compared with what is given on inputs that are drawn for each answer, in fresh processes, "
            "each run by turns with one of the original. What counts is the lower end of the interval of the "
            "speed-up.\n")
    slow = row.slow.lstrip("\n").encode()
    return Item.sealed(
        Exam(hidden=_suite(row, HIDDEN, times), visible=_suite(row, SHOWN, times), reserve=_suite(row, RESERVE, times),
             oracle={"solution.py": row.fast.lstrip("\n").encode()},
             null=({"solution.py": b"# It is fast enough as it is.\n" + slow},
                   {"solution.py": f"def {row.name}(*arguments):\n    return None\n".encode()})),
        id=id, kind=KIND, files={"solution.py": slow}, instructions=text,
        entry=Entry(path="solution.py", name=row.name), limits=LIMITS, tags=("python", "performance"),
    )


def asked_file(*, seed: int, times: float, large: int) -> bytes:
    """The file `asked.py` of a suite: its inputs are drawn from `seed`."""
    return f"SEED = {seed}\nSMALL = {SMALL}\nTIMES = {times!r}\nLARGE = {large}\n".encode()


def _suite(row: Row, seed: int, times: float) -> PythonSuite:
    calls = "".join(f"\n\ndef test_{n}():\n    told = differs({n})\n    assert told is None, told\n"
                    for n in range(TESTS))
    return PythonSuite(
        files={"test_same.py": (_TESTS.format(name=row.name) + calls).encode(), "same.py": _SAME.encode(),
               "original.py": _ORIGINAL + row.slow.lstrip("\n").encode(),
               "workload.py": row.inputs.lstrip("\n").encode(),
               "asked.py": asked_file(seed=seed, times=times, large=row.large)},
        required=tuple(f"test_same.py::test_{n}" for n in range(TESTS)),
    )
