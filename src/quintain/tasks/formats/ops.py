"""Services that do not work as they should, to be mended in a shell: tasks of our own, asked from outside afterwards.

Ids are `ops/NAME`; `ops:own` needs nothing but Python. The programs in `ops_stack.toml` are the same for all tasks (a
supervisor, an application on SQLite, a gateway, a store, a runner of crontabs, a rotation of logs); a task is files of
configuration with a fault in them, and tests of what the services do when they are started from them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats import ops_real
from quintain.tasks.formats.ops_real import KIND, LIMITS
from quintain.tasks.formats.services import shared, suite_of
from quintain.tasks.script import ScriptSuite
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Grading, TaskError

_HOW = """Programs lie in `bin` (each says in its head what it reads; changing them changes nothing), configuration in
`etc`, data in `var`. When you have handed in, it is started from the files that you leave, asked from outside, killed,
started again and asked again.
"""
#: What all tasks say alike is short, so that it makes no task like another; the rest is in `README`.
_WHERE = "\n\nIn `/work`, started there by `{start}`; `README` says how it is judged."


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files` are laid below /work besides the programs; `start` is the program in bin that is started with its one
    file of configuration, and `port` where it must listen; `mend` is the author's script, `wrong` others."""

    name: str
    about: str
    files: dict[str, str]
    start: tuple[str, str]
    port: int
    tests: str
    mend: str
    wrong: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: tuple[Row, ...]


class OpsFormat(ByName):
    """Sets by name; no path is one of these."""

    name = KIND
    about = "ops:own and ops:real, services to be mended in a shell"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a set that does not exist, and for one of whose services the host has none."""
        if name == "real":
            return Taskset(ops_real.OpsReal())
        if name != "own":
            raise TaskError(f"expected the set own or real, found {name!r}")
        return Taskset(Ops())


class Ops:
    """All of them."""

    name = "ops:own"

    def ids(self) -> Sequence[str]:
        return tuple(f"ops/{name}" for name in rows())

    def item(self, id: str) -> Item:
        row = rows().get(id.removeprefix("ops/"))
        if row is None or id not in self.ids():
            raise KeyError(id)
        return item_of(row)


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """By name."""
    return {row.name: row for row in msgspec.convert(tomllib.loads(shared("ops.toml")), _File).task}


@lru_cache(maxsize=1)
def programs() -> dict[str, str]:
    """The programs of the stack, by name."""
    return msgspec.convert(tomllib.loads(shared("ops_stack.toml")), dict[str, str])


def item_of(row: Row) -> Item:
    """The task of a row."""
    argv = ["python3", f"bin/{row.start[0]}", row.start[1]]
    plan = {"services": [{"name": "all", "argv": argv, "port": row.port}],
            "keep": {f"/work/bin/{name}": text for name, text in programs().items()}}
    probe = suite_of(f"import random\n\nimport field\n\n\n{row.tests.strip()}\n", plan)
    given = {**{f"bin/{name}": text for name, text in programs().items()}, "README": _HOW, **row.files}
    scripts = tuple({"solve.sh": f"#!/bin/bash\n{text.strip()}\n".encode()} for text in ("true", *row.wrong))
    return Item.sealed(
        Exam(hidden=ScriptSuite(files=probe.files, artifacts=("/",), required=probe.required,
                                argv=("/tests/test_probe.py",)),
             oracle={"solve.sh": f"#!/bin/bash\nset -e\n{row.mend.strip()}\n".encode()}, null=scripts),
        id=f"ops/{row.name}", kind=KIND, files={f"work/{path}": text.encode() for path, text in given.items()},
        instructions=row.about.strip() + _WHERE.format(start=" ".join(argv)), image="host+rw",
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT, limits=LIMITS, tags=(KIND,))
