"""What a task and its files may be called."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection
from pathlib import PurePosixPath

from quintain.types import TaskError

#: A task id is at most this long (UTF-8), so that every file system and every database column holds it.
MAX_ID_BYTES = 200
#: A portable name is at most this long.
MAX_PORTABLE = 100
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def check_id(id: str, *, file: str | None = None, line: int | None = None) -> str:
    """The id itself, when it may be one; TaskError when it may not.

    An id is one or more segments joined by '/', as in `HumanEval/0`; it is a relative path below whatever folder uses
    it, and nothing else: no segment is empty, '.' or '..', starts with '-', or begins or ends with a blank; there is no
    backslash and no control character (NUL, newline, bidirectional override ...); at most 200 bytes of UTF-8. Ids are
    compared exactly, so `TASK` and `task` are two tasks.
    """
    problem = _id_problem(id)
    if problem:
        raise TaskError(
            f"a task id is a relative name such as 'sums' or 'HumanEval/0', found {id!r}: {problem}",
            file=file, line=line,
        )
    return id


def _id_problem(id: str) -> str | None:
    if not id:
        return "it is empty"
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        return "it is no valid Unicode text"
    if size > MAX_ID_BYTES:
        return f"it has {size} bytes, at most {MAX_ID_BYTES} are allowed"
    for character in id:
        if character == "\\" or unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp"):
            return f"it contains {character!r}"
    for segment in id.split("/"):
        if segment in ("", ".", ".."):
            return f"the segment {segment!r} would make it a path"
        if segment.startswith("-"):
            return f"the segment {segment!r} starts with '-' and would be read as an option"
        if segment != segment.strip():
            return f"the segment {segment!r} begins or ends with a blank"
    return None


def portable_name(id: str) -> str:
    """A task's id as one name of `[a-z0-9_-]`, at most 100 characters: a folder on any file system (also one that does
    not tell cases apart, or reserves CON), an image tag, a container, an object key, a metric label.

    Injective: other ids have other names, whatever their case. Lower letters and digits stand for themselves, every
    other byte is `_` and two hex digits; a longer name is its beginning and 32 hex digits of the id's sha256.
    """
    plain = "".join(chr(b) if chr(b).isascii() and chr(b) in _PLAIN else f"_{b:02x}" for b in id.encode())
    if len(plain) + 2 <= MAX_PORTABLE:
        return f"t-{plain}"
    return f"t-{plain[:MAX_PORTABLE - 35]}-{hashlib.sha256(id.encode()).hexdigest()[:32]}"


def check_paths(paths: Collection[str], *, name: str | None = None) -> None:
    """Raises TaskError for a path that is not relative to its tree, leaves it, or is also a folder of another path."""
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    for path in paths:
        if problem := _path_problem(path, folders):
            raise TaskError(f"expected a relative path inside its tree, found {path!r}: {problem}", file=name)


def _path_problem(path: str, folders: Collection[str]) -> str | None:
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return "it has an empty, '.' or '..' segment, or NUL"
    if path in folders:
        return "it is a folder of another file"
    try:
        too_long = any(len(part.encode()) > 255 for part in parts)
    except UnicodeEncodeError:
        return "it is no valid Unicode text"
    return "a segment is longer than 255 bytes" if too_long else None
