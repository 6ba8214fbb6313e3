"""Where a file of an answer may lie: below the work tree, under one plain name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from quintain.types import Fault, FaultKind, Owner

MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 255


def forbidden(path: str, why: str) -> Fault:
    return Fault(
        owner=Owner.POLICY, kind=FaultKind.FORBIDDEN_PATH,
        message=f"expected a path relative to the work tree, found {path[:200]!r}: {why}",
    )


def clean_path(path: str) -> str | Fault:
    """The normal form of a path below the work tree ('./a//b.py' → 'a/b.py'), or a fault `forbidden_path`.

    Covers: absolute paths, drive letters, '..' in any place, backslashes, control characters, names too long for a
    file system, and git's own folder. Does not cover: links, which a tree of path → bytes cannot hold.
    """
    why = _why_forbidden(path)
    if why is not None:
        return forbidden(path, why)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        return forbidden(path, "it names no file")
    if ".." in parts:
        return forbidden(path, "'..' leads out of a folder")
    if any(part.lower() == ".git" for part in parts):
        return forbidden(path, "'.git' is not part of an answer")
    if any(len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for part in parts):
        return forbidden(path, f"a name is longer than {MAX_NAME_BYTES} bytes")
    return "/".join(parts)


def _why_forbidden(path: str) -> str | None:
    if path.startswith(("/", "~")):
        return "it is absolute"
    if path.endswith("/"):
        return "it names a folder"
    if "\\" in path or re.match(r"[A-Za-z]:", path):
        return "it has a backslash or a drive letter"
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000 for char in path):
        return "it has a control character or is no valid text"
    if len(path.encode("utf-8")) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    return None


def clashing_path(paths: Iterable[str]) -> str | None:
    """A path that is both a file and the folder of another file; `None` if there is none."""
    known = set(paths)
    for path in sorted(known):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (folder := "/".join(parts[:depth])) in known:
                return folder
    return None


def is_protected(path: str, globs: Collection[str]) -> bool:
    """Whether a glob covers the path: '*' and '?' stay within a name, '**' crosses folders, a trailing '/' means all
    below, and a glob without '/' is the name of a file in any folder."""
    return any(_glob(glob).fullmatch(path) for glob in globs)


@lru_cache(maxsize=1024)
def _glob(glob: str) -> re.Pattern[str]:
    if glob.endswith("/"):
        glob += "**"
    elif "/" not in glob:
        glob = "**/" + glob
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
