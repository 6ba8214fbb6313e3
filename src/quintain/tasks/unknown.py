"""What lies at a path that no format recognises, told so that its author sees what is wrong with it."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from quintain.tasks.base import Format
from quintain.types import TaskError

_SHOWN = 12
_MOST_BYTES = 1024 * 1024


def unknown(path: Path, formats: Iterable[Format]) -> TaskError:
    """The error for a path in no known format: what is there, and what each format wants; the one first of which most
    is there already, with what it lacks."""
    formats = list(formats)
    found, words, line = _found(path)
    wanted = {one.name: set(re.findall(r"\w[\w./-]*\w", one.about)) for one in formats}
    formats.sort(key=lambda one: -len(wanted[one.name] & words))
    said = "; ".join(f"{one.name}: {one.about}" for one in formats)
    return TaskError(f"expected a path in a known format, found {found}, which is none of them ({said})",
                     file=str(path), line=line)


def _found(path: Path) -> tuple[str, set[str], int | None]:
    """What is there in words, the names in it, and the line that was looked at."""
    try:
        if path.is_dir():
            names = sorted(one.name for one in path.iterdir())
            return (f"a folder with {_listed(names)}" if names else "an empty folder"), set(names), None
        if not path.is_file():
            return "neither a file nor a folder", set(), None
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            first = file.readline(_MOST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        return f"what cannot be read ({error})", set(), None
    if not first.strip():
        return ("an empty first line" if first else "an empty file"), set(), None
    try:
        row = msgspec.json.decode(first)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return f"a first line that is no JSON ({error})", set(), 1
    if not isinstance(row, dict):
        return f"a first row that is no object but {type(row).__name__}", set(), 1
    return (f"a first row with the keys {_listed(sorted(row))}" if row else "a first row without a key"), set(row), 1


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name[:40]) for name in names[:_SHOWN]) + more
