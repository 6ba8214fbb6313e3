"""Real services that do not work as they should: nginx, redis and PostgreSQL of the host, to be mended in a shell.

Ids are `ops-real/NAME`. What a task needs of the host is a row of `PACKAGES`; a task whose service the host lacks is
left out of the set, and a warning says what to install. The services are the host's own programs, started by the
commands of the task's plan; PostgreSQL, which refuses root, is told by a library of a few lines that its user has
another number (`user.c` in `ops_real_stack.toml`).
"""

from __future__ import annotations

import shutil
import tomllib
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats.services import shared, suite_of
from quintain.tasks.script import ScriptSuite
from quintain.types import MEBIBYTE, Entry, Grading, Limits, Scopes, TaskError

KIND = "ops"
_COMMAND = Limits(wall_seconds=60.0, cpu_seconds=60.0, memory_bytes=1024 * MEBIBYTE, processes=256)
LIMITS = Scopes(
    episode=Limits(wall_seconds=1800.0, cpu_seconds=600.0, memory_bytes=1024 * MEBIBYTE, processes=256, turns=30),
    turn=Limits(wall_seconds=200.0, cpu_seconds=100.0, memory_bytes=1024 * MEBIBYTE, processes=256), command=_COMMAND)
#: What a service is called in `needs` → where its programs lie, and Debian's package.
PACKAGES = {
    "nginx": (("/usr/sbin/nginx",), "nginx-light"), "redis": (("/usr/bin/redis-server",), "redis-server"),
    "postgres": (("/usr/lib/postgresql/*/bin/postgres", "/usr/bin/cc"), "postgresql gcc"),
}
#: A data base is made at its first start, on a machine that may be busy.
_READY_SECONDS = 40.0
_HOW = """Configuration lies in `etc`, data in `var`; what lies in `bin` is put back before the start, so changing it
changes nothing. When you have handed in, the services are started from the files that you leave, asked from outside,
killed, started again and asked again. They run as the only user there is.
"""
_WHERE = "\n\nIn `/work`. Started there, in this order: {started}. `README` says how it is judged."
_HEAD = "import random\n\nimport field\n\n\n"


class Started(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One service of the plan."""

    name: str
    argv: tuple[str, ...]
    port: int


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`needs` are services of PACKAGES, `bin` the programs of the stack that are laid, `probe` the helpers of the stack
    that its tests begin with; `mend` is the author's script, `wrong` others."""

    name: str
    about: str
    needs: tuple[str, ...]
    start: tuple[Started, ...]
    tests: str
    mend: str
    wrong: tuple[str, ...]
    files: dict[str, str]
    bin: tuple[str, ...] = ()
    probe: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: tuple[Row, ...]


class OpsReal:
    """Those whose services the host has, as `has` says. Raises TaskError where it has none of them."""

    name = "ops:real"

    def __init__(self, has: Callable[[str], bool] | None = None) -> None:
        missing = {need: package for need, (_, package) in PACKAGES.items() if not (has or host_has)(need)}
        told = ", ".join(f"{need} (apt-get install {package})" for need, package in missing.items())
        if len(missing) == len(PACKAGES):
            raise TaskError(f"expected a service of the host for ops:real, found none: {told}")
        self._ids = tuple(f"ops-real/{name}" for name, row in rows().items() if not missing.keys() & set(row.needs))
        if missing:
            left = len(rows()) - len(self._ids)
            warnings.warn(f"ops:real: {left} of {len(rows())} tasks are left out; the host lacks {told}", stacklevel=3)

    def ids(self) -> Sequence[str]:
        return self._ids

    def item(self, id: str) -> Item:
        row = rows().get(id.removeprefix("ops-real/"))
        if row is None or id not in self._ids:
            raise KeyError(id)
        return item_of(row)


def host_has(need: str) -> bool:
    """Whether the host has the programs of a service."""
    return all(shutil.which(path) is not None or any(Path("/").glob(path.lstrip("/"))) for path in PACKAGES[need][0])


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """By name."""
    return {row.name: row for row in msgspec.convert(tomllib.loads(shared("ops_real.toml")), _File).task}


@lru_cache(maxsize=1)
def stack() -> dict[str, str]:
    """Programs that are laid, and helpers of the tests, by name."""
    return msgspec.convert(tomllib.loads(shared("ops_real_stack.toml")), dict[str, str])


def item_of(row: Row) -> Item:
    """The task of a row."""
    programs = {f"bin/{name}": stack()[name].strip() + "\n" for name in row.bin}
    plan = {"services": [{"name": one.name, "argv": one.argv, "port": one.port, "ready_seconds": _READY_SECONDS}
                         for one in row.start],
            "keep": {f"/work/{path}": text for path, text in programs.items()}}
    probe = suite_of(f"{_HEAD}{stack()[row.probe].strip()}\n\n\n{row.tests.strip()}\n" if row.probe else
                     f"{_HEAD}{row.tests.strip()}\n", plan)
    given = {**programs, "README": _HOW, **row.files}
    started = ", ".join(f"`{' '.join(one.argv)}` (port {one.port})" for one in row.start)
    scripts = tuple({"solve.sh": f"#!/bin/bash\n{text.strip()}\n".encode()} for text in ("true", *row.wrong))
    return Item.sealed(
        Exam(hidden=ScriptSuite(files=probe.files, artifacts=("/",), required=probe.required,
                                argv=("/tests/test_probe.py",)),
             oracle={"solve.sh": f"#!/bin/bash\nset -e\n{row.mend.strip()}\n".encode()}, null=scripts),
        id=f"ops-real/{row.name}", kind=KIND, files={f"work/{path}": text.encode() for path, text in given.items()},
        instructions=row.about.strip() + _WHERE.format(started=started), image="host+rw",
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT, limits=LIMITS,
        tags=(KIND, *row.needs))
