"""Tests to be written for a program that is given, judged by the small faults that they notice.

`testgen:own` are functions of our own; `testgen:SET` makes such tasks of any set whose tasks are Python functions with
Python tests (`testgen:humaneval`): the author's program is given, the author's tests are the reference. Ids are
`testgen/ID`. The exam's hidden suite is that reference: what it does not tell from the program nobody has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.repair import read_functions, suite_of
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

KIND = "testgen"
ANSWER = "test_solution.py"
#: Of our own functions those with at least so many tests are asked, at most so many.
LEAST_TESTS, MOST = 6, 24
LIMITS = Scopes(episode=Limits(wall_seconds=900.0, cpu_seconds=600.0, turns=4),
                command=Limits(wall_seconds=5.0, cpu_seconds=2.0))
#: Answers that test nothing.
NULLS = ({ANSWER: b""}, {ANSWER: b"def test_nothing():\n    assert True\n"},
         {ANSWER: b"import solution\n\n\ndef test_it_imports():\n    assert solution is not None\n"})


class TestWritingFormat(ByName):
    """Sets by name; no file is read but those of the set."""

    __test__ = False

    name = "testgen"
    about = "testgen:own, or testgen:SET of a set whose tasks are Python functions with Python tests"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a set that does not exist; a task that cannot be one is refused when it is asked."""
        if name == "own":
            return Taskset(Own())
        from quintain.tasks.open import open_taskset  # it looks among the formats, of which this is one

        return Taskset(Derived(open_taskset(name), name))


class Own:
    """Our own functions, with their tests as the reference."""

    name = "testgen:own"

    @cached_property
    def _items(self) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for row in read_functions(Path(__file__).with_name("repair_heldout.toml")):
            tests = [line.strip() for line in row.tests.strip().splitlines()]
            if len(tests) >= LEAST_TESTS and len(found) < MOST:
                id = f"testgen/own/{row.name}"
                suite = suite_of(row.name, tests)
                found[id] = item_of(id, {"solution.py": row.source.encode()}, suite, about=row.about, name=row.name)
        return found

    def ids(self) -> Sequence[str]:
        return tuple(self._items)

    def item(self, id: str) -> Item:
        return self._items[id]


class Derived:
    """The tasks of another set, turned round."""

    def __init__(self, tasks: Taskset, name: str) -> None:
        self.name = f"testgen:{name}"
        self._tasks = tasks

    def ids(self) -> Sequence[str]:
        return tuple(f"testgen/{id}" for id in self._tasks.ids)

    def item(self, id: str) -> Item:
        one = self._tasks[id.removeprefix("testgen/")]
        suite, oracle = one.exam.hidden, one.exam.oracle
        if not isinstance(suite, PythonSuite) or oracle is None or suite.modules != ("solution",):
            raise TaskError(f"task {one.task.id}: expected a Python module `solution` with Python tests and an oracle, "
                            "to have tests written for it")
        if len(suite.files) != 1:
            raise TaskError(f"task {one.task.id}: expected one file of tests, found {len(suite.files)}")
        (content,) = suite.files.values()
        required = tuple(f"{ANSWER}::{test.partition('::')[2]}" for test in suite.required)
        reference = PythonSuite(files={ANSWER: content}, modules=suite.modules, required=required)
        return item_of(id, oracle, reference, about=one.task.instructions, name=one.task.entry.name or "")


def item_of(id: str, files: dict[str, bytes], reference: PythonSuite, *, about: str, name: str) -> Item:
    """The task of writing tests for `files`; `reference` has one file, `test_solution.py`."""
    asked = (
        f"Write tests for `{name}` of `solution.py` as plain functions `test_*` in `{ANSWER}` (`from solution import "
        f"{name}`). Each must pass on the program as it is, every time. Together they should fail on any small change "
        "of it that changes what it does, and run its lines both ways: many such changes are made, and counted is how "
        f"many your tests notice.\n\nWhat the program is for:\n\n{about.strip()}\n")
    return Item.sealed(
        Exam(hidden=reference, oracle=dict(reference.files), null=NULLS), files=files, id=id, kind=KIND,
        instructions=asked, entry=Entry(path=ANSWER), limits=LIMITS, tags=("python", "test-writing"),
    )
