"""Several services that work together over HTTP on one machine: tasks of our own, tested from outside.

Ids are `services/NAME`. The answer is the programs; `web.py` is given. The suites are what `env.ServiceEnvironment`
wants: a plan of how the programs are started, `field.py` to ask them by, and tests that draw what they send.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

import msgspec

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.taskset import Taskset
from quintain.types import MEBIBYTE, Entry, Limits, Scopes, TaskError

KIND = "services"
LIMITS = Scopes(
    episode=Limits(wall_seconds=900.0, cpu_seconds=300.0, processes=256, turns=6),
    turn=Limits(wall_seconds=200.0, cpu_seconds=100.0, processes=256),
    command=Limits(wall_seconds=180.0, cpu_seconds=60.0, memory_bytes=1024 * MEBIBYTE, processes=256),
)
_HOW = """

Write {files}, each a program of Python's standard library. {started} Each must answer on 127.0.0.1 soon after it was \
started; the order in which they are started is not promised, and each may be killed at any moment and started again. \
They are started in the folder `/work`, where they may keep files. `web.py` is given (its source is shown) and may be \
imported. Bodies are JSON. The visible test shows how the services are asked."""


class Serving(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process: its name, the program, its port, what it is told on its command line."""

    name: str
    file: str
    port: int
    argv: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`shown` and `hidden` are tests, the latter without the former; `wrong` changes the author's answer into one that
    is not right: [file, text, text in its place]."""

    name: str
    about: str
    serving: tuple[Serving, ...]
    shown: str
    hidden: str
    answer: dict[str, str]
    wrong: tuple[tuple[str, str, str], ...]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: tuple[Row, ...]


class ServicesFormat(ByName):
    """Sets by name; no path is one of these."""

    name = KIND
    about = "services:own, programs that serve together"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a set that does not exist."""
        if name != "own":
            raise TaskError(f"expected the set own, found {name!r}")
        return Taskset(Services())


class Services:
    """All of them."""

    name = "services:own"

    def ids(self) -> Sequence[str]:
        return tuple(f"services/{name}" for name in rows())

    def item(self, id: str) -> Item:
        row = rows().get(id.removeprefix("services/"))
        if row is None or id not in self.ids():
            raise KeyError(id)
        return item_of(row)


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """By name, from all files of them."""
    return {row.name: row for part in ("services_state.toml", "services_flow.toml")
            for row in msgspec.convert(tomllib.loads(shared(part)), _File).task}


def shared(name: str) -> str:
    """A file that lies beside this one."""
    return files("quintain.tasks.formats").joinpath(name).read_text("utf-8")


def suite_of(tests: str, plan: Mapping[str, object]) -> PythonSuite:
    """Tests of services, as a suite that holds all that they need."""
    names = tuple(f"test_probe.py::{node.name}" for node in ast.parse(tests).body
                  if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    held = {"field.py": shared("field_probe.txt"), "test_probe.py": tests}
    return PythonSuite(
        files={**{path: text.encode() for path, text in held.items()}, "plan.json": msgspec.json.encode(plan)},
        modules=(), required=names)


def item_of(row: Row) -> Item:
    """The task of a row."""
    given = {"web.py": shared("field_web.txt").encode()}
    plan = {"services": [{"name": one.name, "argv": ["python3", one.file, *one.argv], "port": one.port}
                         for one in row.serving],
            "keep": {f"/work/{path}": content.decode() for path, content in given.items()}}
    right = {path: text.encode() for path, text in row.answer.items()}
    nulls = tuple(_changed(row, *change) for change in row.wrong)
    head = "import random\n\nimport field\n\n\n"
    started = " ".join(f"`python3 {' '.join([one.file, *one.argv])}` is the service `{one.name}`, port {one.port}."
                       for one in row.serving)
    return Item.sealed(
        Exam(hidden=suite_of(f"{head}{row.shown.strip()}\n\n\n{row.hidden.strip()}\n", plan),
             visible=suite_of(f"{head}{row.shown.strip()}\n", plan), oracle=right, null=nulls),
        id=f"services/{row.name}", kind=KIND, files=given,
        instructions=row.about.strip() + _HOW.format(
            files=" and ".join(f"`{path}`" for path in row.answer), started=started),
        entry=Entry(path=next(iter(row.answer)), language="python"), limits=LIMITS, tags=(KIND,))


def _changed(row: Row, path: str, old: str, new: str) -> dict[str, bytes]:
    if old not in row.answer[path]:
        raise TaskError(f"services/{row.name}: expected {old!r} in {path}, found it nowhere")
    return {**{name: text.encode() for name, text in row.answer.items()},
            path: row.answer[path].replace(old, new).encode()}
