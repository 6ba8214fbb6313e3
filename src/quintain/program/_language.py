"""What the table of languages is made of: rows of languages, and in each rows of what its tools write."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from quintain.types import FaultKind


class Trace(StrEnum):
    """How a language's runtime tells where it broke: Python's traceback, V8's stack, or single lines."""

    PYTHON = "python"
    V8 = "v8"
    LINES = "lines"


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line in what a compiler or runtime writes to stderr, and what it means.

    `pattern` is matched at the start of a line; its groups may be `file`, `line`, `what` (a missing module or command,
    or the message). With `exit_codes` empty, any exit code fits.
    """

    pattern: str
    kind: FaultKind
    exit_codes: tuple[int, ...] = ()


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `argv` and `check` are templates in which `{path}` is the file to start or to check;
    `check` is for the sandbox, never for our own process. `definition` finds a line that binds `{name}` at top level.
    `looks_like` tells unfenced code from prose by one line of it. `errors` are what its runtime writes: the first row
    that fits decides; `build_errors` what its compiler writes: the first line that any row fits; `place` is a line that
    names `file` and `line` for an error whose own line does not."""

    name: str
    tags: tuple[str, ...]
    suffixes: tuple[str, ...]
    argv: tuple[str, ...]
    check: tuple[str, ...]
    definition: str
    looks_like: str
    trace: Trace = Trace.LINES
    errors: tuple[ErrorRow, ...] = ()
    build_errors: tuple[ErrorRow, ...] = ()
    place: str = ""

    def argv_for(self, path: str) -> tuple[str, ...]:
        return tuple(part.replace("{path}", path) for part in self.argv)

    def check_for(self, path: str) -> tuple[str, ...]:
        """A command that compiles the file without running it, for the sandbox."""
        return tuple(part.replace("{path}", path) for part in self.check)

    def defines(self, source: str, name: str) -> bool:
        """Whether some line binds `name` (of `Class.method`: `Class`) at top level, compiling or not."""
        pattern = self.definition.replace("{name}", re.escape(name.split(".", 1)[0]))
        return re.search(pattern, source, re.MULTILINE) is not None
