"""`task.toml`: what it may say, and where in it something is wrong."""

from __future__ import annotations

import math
import re
import tomllib
from difflib import get_close_matches
from enum import Enum
from typing import Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec

from quintain.tasks.exam import Compare
from quintain.types import Entry, Grading, Isolation, Limits, Network, Scopes, TaskError

Shape = TypeVar("Shape", bound=msgspec.Struct)

#: Below these, what runs and judges an answer does not start, whoever wrote the answer.
FLOORS = {"memory_bytes": 16 << 20, "disk_bytes": 1 << 20, "inodes": 64}


class LimitsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any of the fields of `Limits`; what is not said keeps the default of its scope."""

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    inodes: int | None = None
    output_bytes: int | None = None
    processes: int | None = None
    turns: int | None = None
    sampled_tokens: int | None = None


class ScopesTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    episode: LimitsTable = LimitsTable()
    turn: LimitsTable = LimitsTable()
    command: LimitsTable = LimitsTable()


class SuiteTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the files of a suite are meant. `suite` need not be said where the files leave no doubt; `modules` and
    `required` belong to Python tests, `compare` and `cases` (their order) to stdio cases."""

    suite: Literal["python", "stdio"] | None = None
    modules: tuple[str, ...] | None = None
    required: tuple[str, ...] = ()
    compare: Compare | None = None
    cases: tuple[str, ...] = ()


class TaskFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of `task.toml`. Every key is optional."""

    id: str | None = None
    kind: str = "code"
    instructions: str | None = None
    image: str = "host"
    network: Network = Network.NONE
    isolation: Isolation = Isolation.NAMESPACE
    grading: Grading = Grading.EACH_TURN
    tags: tuple[str, ...] = ()
    null: Literal["generated", "none"] | None = None
    entry: Entry = Entry()
    limits: ScopesTable = ScopesTable()
    tests: SuiteTable = SuiteTable()
    tests_visible: SuiteTable = SuiteTable()
    reserve: SuiteTable = SuiteTable()


class ParsedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A task file together with its text, so that what is found wrong later still has a line."""

    table: TaskFile
    text: str
    file: str

    def error(self, message: str, *keys: str) -> TaskError:
        """A TaskError at the line of `keys` (or of the table that would hold it)."""
        return TaskError(message, file=self.file, line=line_of(self.text, keys))

    def scopes(self) -> Scopes:
        """The limits at their three scopes. Raises TaskError for one that is not a number greater than 0."""
        return Scopes(**{scope: self._limits(scope) for scope in Scopes.__struct_fields__})

    def _limits(self, scope: str) -> Limits:
        table: LimitsTable = getattr(self.table.limits, scope)
        said = {name: value for name in table.__struct_fields__ if (value := getattr(table, name)) is not None}
        for name, value in said.items():
            if not (math.isfinite(value) and value > 0):
                message = f"limits.{scope}.{name} must be a number greater than 0, found {value!r}"
                raise self.error(message, "limits", scope, name)
            if value < FLOORS.get(name, 0):
                message = f"limits.{scope}.{name} must be at least {FLOORS[name]}, found {value}: less runs nothing"
                raise self.error(message, "limits", scope, name)
        default: Limits = getattr(Scopes(), scope)
        return msgspec.structs.replace(default, **said)


def read_toml(content: bytes, file: str) -> tuple[dict[str, object], str]:
    """The table and the text of a TOML file. Raises TaskError with the line where it is no UTF-8 or no TOML."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[:error.start].count(b"\n") + 1
        raise TaskError(f"expected UTF-8, found byte 0x{content[error.start]:02x}", file=file, line=line) from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _raise_syntax(str(error), text, file)
    except RecursionError as error:
        raise TaskError("expected TOML, found tables nested too deeply", file=file) from error
    return table, text


def parse_task_file(content: bytes, file: str) -> ParsedFile:
    """Raises TaskError with the line where it is no UTF-8, no TOML, or says something unknown or of a wrong type."""
    table, text = read_toml(content, file)
    _refuse_unknown(table, TaskFile, (), text, file)
    return ParsedFile(table=fitted(table, TaskFile, text=text, file=file), text=text, file=file)


def fitted(table: dict[str, object], shape: type[Shape], *, text: str, file: str) -> Shape:
    """The table as a Struct. Raises TaskError: the key, what was expected, what was found, and the line."""
    try:
        return msgspec.convert(table, shape)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        keys = tuple(re.findall(r"[^.\[\]`]+", place))
        named = [key for key in keys if not key.isdigit() and key != "..."]
        where = f"{'.'.join(named)}: " if named else ""
        if (found := message.removeprefix("Invalid enum value ")) != message and (words := _words(shape, named)):
            message = f"expected one of {', '.join(words)}, found {found}"
        if (field := message.removeprefix("Object missing required field ")) != message:
            message = f"expected a key {field} in it, found none"
        raise TaskError(where + message, file=file, line=line_of(text, named)) from error


def _words(shape: type[msgspec.Struct], keys: list[str]) -> list[str]:
    """The words that may stand under a key; none where any may."""
    kind: object = shape
    for key in keys:
        inner = (kind, *get_args(kind))
        kind = next((k for k in inner if isinstance(k, type) and issubclass(k, msgspec.Struct)), None)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return []
        kind = next((field.type for field in msgspec.structs.fields(kind) if field.name == key), None)
    words: list[str] = []
    for option in (kind, *get_args(kind)):
        if get_origin(option) is Literal:
            words += get_args(option)
        elif isinstance(option, type) and issubclass(option, Enum):
            words += [word.value for word in option]
    return words


def _raise_syntax(message: str, text: str, file: str) -> NoReturn:
    place = re.search(r"\(at line (\d+), column (\d+)\)", message)
    line = int(place[1]) if place else text.count("\n") + 1
    raise TaskError(f"expected TOML, found something else: {message}", file=file, line=line)


def _refuse_unknown(
    table: dict[str, object], shape: type[msgspec.Struct], keys: tuple[str, ...], text: str, file: str,
) -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for key, value in table.items():
        if key not in fields:
            close = get_close_matches(key, fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys are {', '.join(fields)}"
            name = ".".join((*keys, key))
            raise TaskError(f"unknown key {name!r}: {hint}", file=file, line=line_of(text, (*keys, key)))
        inner = fields[key]
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            _refuse_unknown(value, inner, (*keys, key), text, file)


def line_of(text: str, keys: tuple[str, ...] | list[str]) -> int | None:
    """The line (from 1) where a TOML text sets `keys`, or opens the nearest table around them; None for the whole.

    Reads keys and table headers line by line; lines inside multi-line strings that look like either can mislead it, so
    it is for messages only.
    """
    table: tuple[str, ...] = ()
    best: tuple[int, int] | None = None  # (how many of the keys matched, line)
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(#.*)?$", line)
        setting = re.match(r"\s*((?:[\w.-]|\"[^\"]*\"|'[^']*'|\s*\.\s*)+?)\s*=", line)
        if header:
            table = found = _split(header[1])
        elif setting:
            found = (*table, *_split(setting[1]))
        else:
            continue
        wanted = tuple(keys)
        if wanted[:len(found)] == found and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else None


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in dotted.split("."))
