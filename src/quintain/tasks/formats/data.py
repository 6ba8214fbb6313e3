"""Work on data: queries to a data base and functions on files of data, tasks of our own, judged on data never shown.

`data:all` has 26 tasks; ids are `data/sql/NAME` and `data/files/NAME`. One instance is shown with what has to come out,
others are hidden, made by the same maker with other seeds: who writes down what is shown has nothing. Nothing of the
maker is among the tests, and an expected table is computed by a rule that does not know the author's answer.
"""

from __future__ import annotations

import pprint
import random
from collections.abc import Sequence
from importlib import resources

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.data_scripts import CHORES, Chore
from quintain.tasks.formats.data_sql import COLUMNS, QUESTIONS, WORDS, Question, Tables, shop
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

#: Seeds and sizes of shops: what is shown, what decides, and what is kept for audits. The smallest have one customer.
SHOWN, HIDDEN, RESERVE = ((1, 6),), ((2, 12), (3, 30), (4, 1), (5, 25), (6, 40), (7, 3)), ((8, 20), (9, 2))
LIMITS = Scopes(
    episode=Limits(wall_seconds=600.0, cpu_seconds=120.0, turns=5),
    turn=Limits(wall_seconds=60.0, cpu_seconds=30.0), command=Limits(wall_seconds=20.0, cpu_seconds=5.0),
)
#: The answer to a question is a text; this is what the tests call.
_LOADER = b'''"""Gives what solution.sql holds."""
from pathlib import Path


def query():
    return Path(__file__).with_name("solution.sql").read_text("utf-8")
'''
_HEAD = "from instances import INSTANCES, ORDERED, TOLERANCE\n"
_TESTS = {
    "sql": f"{_HEAD}from solution import query\nfrom tables import ask, same\n",
    "files": f"{_HEAD}from solution import answer\nfrom tables import same\n",
}
_CALLS = {"sql": "ask(query(), INSTANCES[{n}][0])", "files": "answer(dict(INSTANCES[{n}][0]))"}


class DataFormat(ByName):
    """The one set by its name; no file is read."""

    name = "data"
    about = "data:all, data:sql or data:files: queries to a data base, functions on files of data"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a part that does not exist."""
        if name not in ("all", "sql", "files"):
            raise TaskError(f"expected data:all, data:sql or data:files, found {name!r}")
        return Taskset(DataTasks(name))


class DataTasks:
    """The tasks of a part, each made when it is asked for."""

    def __init__(self, part: str) -> None:
        self.name = f"data:{part}"
        made: dict[str, Question | Chore] = {f"data/sql/{one.name}": one for one in QUESTIONS}
        made |= {f"data/files/{one.name}": one for one in CHORES}
        self._made = {id: one for id, one in made.items() if part in ("all", id.split("/")[1])}

    def ids(self) -> Sequence[str]:
        return tuple(self._made)

    def item(self, id: str) -> Item:
        made = self._made[id]
        return _question(id, made) if isinstance(made, Question) else _chore(id, made)


def _question(id: str, made: Question) -> Item:
    def instances(seeds: Sequence[tuple[int, int]]) -> list[tuple[object, object]]:
        shops = [shop(seed, size=size) for seed, size in seeds]
        return [(_placed(tables), [list(made.columns), *map(list, made.rule(tables))]) for tables in shops]

    def suite(seeds: Sequence[tuple[int, int]]) -> PythonSuite:
        return _suite("sql", instances(seeds), ordered=made.ordered, tolerance=1e-6)

    text = (f"{WORDS}\n\nWrite `solution.sql`: one SELECT statement (or WITH … SELECT) of SQLite that gives the "
            f"columns {', '.join(made.columns)}.\n{made.about}\n\nIt is asked of data bases that you do not see.")
    return Item.sealed(
        Exam(hidden=suite(HIDDEN), visible=suite(SHOWN), reserve=suite(RESERVE),
             oracle={"solution.sql": made.query.encode()},
             null=({"solution.sql": _values([list(made.columns), *map(list, made.rule(shop(1, size=6)))])},
                   {"solution.sql": b"SELECT 1\n"})),
        id=id, files={"solution.py": _LOADER, "schema.sql": _schema().encode()}, instructions=text,
        entry=Entry(path="solution.sql", language="sql"), limits=LIMITS, tags=("data", "sql"),
    )


def _chore(id: str, made: Chore) -> Item:
    def instances(seeds: Sequence[tuple[int, int]]) -> list[tuple[object, object]]:
        return [made.make(random.Random(f"{made.name} {seed}")) for seed, _ in seeds]

    def suite(seeds: Sequence[tuple[int, int]]) -> PythonSuite:
        return _suite("files", instances(seeds), ordered=made.ordered, tolerance=made.tolerance)

    ((files, shown),) = [made.make(random.Random(f"{made.name} {seed}")) for seed, _ in SHOWN]
    text = ("Write `solution.py` with a function `answer(files)`. `files` has the text of each file by its name. It "
            f"returns a table as a list of rows, each a list, the first of them the names of the columns.\n"
            f"{made.about}\n\nIt is called with files that you do not see; one example lies in `example/`.")
    return Item.sealed(
        Exam(hidden=suite(HIDDEN), visible=suite(SHOWN), reserve=suite(RESERVE),
             oracle={"solution.py": made.answer.encode()},
             null=({"solution.py": f"def answer(files):\n    return {shown!r}\n".encode()},)),
        id=id, files={f"example/{name}": content.encode() for name, content in files.items()}, instructions=text,
        entry=Entry(path="solution.py", name="answer"), limits=LIMITS, tags=("data", "files"),
    )


def _suite(kind: str, instances: Sequence[tuple[object, object]], *, ordered: bool, tolerance: float) -> PythonSuite:
    """One test for each instance. No instance is in the answer's process before its test begins."""
    calls = "".join(f"\n\ndef test_instance_{n}():\n    found = {_CALLS[kind].format(n=n)}\n"
                    f"    same(found, INSTANCES[{n}][1], ordered=ORDERED, tolerance=TOLERANCE)\n"
                    for n in range(len(instances)))
    held = (f"ORDERED = {ordered}\nTOLERANCE = {tolerance}\n#: What is given, and the table that has to come out.\n"
            f"INSTANCES = {pprint.pformat(list(instances), width=118, compact=True, sort_dicts=False)}\n")
    judge = resources.files("quintain.tasks.formats").joinpath("data_judge.py").read_bytes()
    return PythonSuite(
        files={"test_data.py": (_TESTS[kind] + calls).encode(), "instances.py": held.encode(), "tables.py": judge},
        required=tuple(f"test_data.py::test_instance_{n}" for n in range(len(instances))),
    )


def _placed(tables: Tables) -> dict[str, tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    return {name: (COLUMNS[name], rows) for name, rows in tables.items()}


def _schema() -> str:
    """The tables and one instance of them, as a script."""
    lines = [f"CREATE TABLE {name} ({', '.join(columns)});" for name, columns in COLUMNS.items()]
    for name, rows in shop(SHOWN[0][0], size=SHOWN[0][1]).items():
        lines += [f"INSERT INTO {name} VALUES ({', '.join(map(_literal, row))});" for row in rows]
    return "\n".join(lines) + "\n"


def _values(table: Sequence[Sequence[object]]) -> bytes:
    """A query that gives a table whatever it is asked of: the null answer of everyone who writes down what is shown."""
    header, *rows = table
    made = [f"SELECT {', '.join(f'{_literal(v)} AS {c}' for v, c in zip(row, header, strict=True))}" for row in rows]
    return ("\nUNION ALL ".join(made) or "SELECT 1 AS nothing WHERE 0").encode() + b"\n"


def _literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)
