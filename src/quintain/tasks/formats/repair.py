"""Our own repair tasks: small functions, each with one token changed for the worse and a report of how its tests went.

`repair-train` and `repair-heldout` hold different functions. Their files lie beside this module: TOML, one
`[[functions]]` for each, whose `faults` are JSON rows. How they were made and that each fault is one:
`.ci/repair_faults.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

#: The last tests of each function are not shown.
HIDDEN_TESTS = 2
#: Its programs need a few milliseconds; one that runs on and on is to be noticed soon.
LIMITS = Scopes(
    episode=Limits(wall_seconds=120.0, cpu_seconds=60.0, turns=3),
    turn=Limits(wall_seconds=30.0, cpu_seconds=20.0), command=Limits(wall_seconds=5.0, cpu_seconds=0.15),
)
_HEAD = "[[functions]]"
_WHERE = "(it comes with quintain, in quintain/tasks/formats)"


class FaultRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault: at this line (from 1) and column (from 0) `old` became `new`. `seen` tells of each shown test that
    failed, by its number, what it saw."""

    line: int
    column: int
    old: str
    new: str
    seen: dict[str, str]


class FunctionRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A function as it should be. `tests` has one `call == value` a line, `faults` one JSON row a line."""

    name: str
    about: str
    source: str
    tests: str
    faults: str = ""


class File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    functions: list[FunctionRow]


class RepairFormat:
    """Ids are `repair/FUNCTION/NUMBER`."""

    name = "repair"
    about = "a TOML file of [[functions]] with name, about, source, tests and faults"
    sets = tuple(
        PublicSet(name=f"repair-{part}", files=(f"repair_{part}.toml",), source=f"quintain itself {_WHERE}",
                  package=("quintain", f"tasks/formats/repair_{part}.toml"))
        for part in ("train", "heldout")
    )

    def recognises(self, path: Path) -> bool:
        if path.suffix != ".toml" or not path.is_file():
            return False
        with path.open("rb") as file:
            return any(line.strip() == _HEAD.encode() for line in file.read(4096).splitlines())

    def read(self, path: Path) -> Taskset:
        return Taskset(Repairs(path))


class Repairs:
    """The faults of one file, which is small and read whole at first use."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem.replace("_", "-")
        self._path = path

    @cached_property
    def _rows(self) -> dict[str, tuple[FunctionRow, FaultRow]]:
        rows: dict[str, tuple[FunctionRow, FaultRow]] = {}
        for function in read_functions(self._path):
            for number, line in enumerate(function.faults.strip().splitlines()):
                try:
                    fault = msgspec.json.decode(line, type=FaultRow)
                except msgspec.MsgspecError as error:
                    raise TaskError(f"fault {number} of {function.name!r} does not fit: {error}",
                                    file=str(self._path)) from error
                rows[f"repair/{function.name}/{number}"] = (function, fault)
        return rows

    def ids(self) -> Sequence[str]:
        return tuple(self._rows)

    def item(self, id: str) -> Item:
        return item_of(id, *self._rows[id])


def read_functions(path: Path) -> list[FunctionRow]:
    """Raises TaskError for what is no such file."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), File).functions
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise TaskError(f"expected {RepairFormat.about}: {error}", file=str(path)) from error


def item_of(id: str, function: FunctionRow, fault: FaultRow) -> Item:
    """The task of one fault. Raises TaskError where the fault does not fit the function."""
    tests = [line.strip() for line in function.tests.strip().splitlines()]
    shown = max(1, len(tests) - HIDDEN_TESTS)
    broken = with_fault(function, fault)
    return Item.sealed(
        Exam(
            hidden=suite_of(function.name, tests), visible=suite_of(function.name, tests[:shown]),
            oracle={"solution.py": function.source.encode()}, null=({"solution.py": broken.encode()},),
        ),
        id=id, files={"solution.py": broken.encode()}, instructions=instructions(function, tests[:shown], fault.seen),
        entry=Entry(name=function.name), limits=LIMITS, tags=("repair", function.name),
    )


def with_fault(function: FunctionRow, fault: FaultRow) -> str:
    """The function with its fault. Raises TaskError where the token that it names is not there."""
    lines = function.source.split("\n")
    line = lines[fault.line - 1] if 0 < fault.line <= len(lines) else ""
    end = fault.column + len(fault.old)
    if line[fault.column: end] != fault.old:
        raise TaskError(f"expected {fault.old!r} in line {fault.line}, column {fault.column} of {function.name!r}, "
                        f"found {line[fault.column: end]!r}")
    lines[fault.line - 1] = line[: fault.column] + fault.new + line[end:]
    return "\n".join(lines)


def suite_of(name: str, tests: Sequence[str]) -> PythonSuite:
    """One test function for each `call == value`: `test_0`, `test_1`, …"""
    body = "".join(f"\n\ndef test_{n}():\n    assert {test}\n" for n, test in enumerate(tests))
    return PythonSuite(
        files={"test_solution.py": f"from solution import {name}\n{body}".encode()},
        required=tuple(f"test_solution.py::test_{n}" for n in range(len(tests))),
    )


def instructions(function: FunctionRow, tests: Sequence[str], seen: dict[str, str]) -> str:
    """What the policy is told: what the function is for, and how the shown tests go with it as it is."""
    told = "\n".join(f"- {test}: {seen.get(str(n), 'passed')}" for n, test in enumerate(tests))
    return (f"One token of `{function.name}` in `solution.py` is wrong. What it should return:\n{function.about}\n\n"
            f"As it is, its tests go like this:\n{told}\n")
