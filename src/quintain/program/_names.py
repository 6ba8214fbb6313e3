"""The names of files as a patch writes them."""

from __future__ import annotations

import re

from quintain.types import Fault, FaultKind, Owner

DEV_NULL = "/dev/null"


class Malformed(Exception):
    """The patch cannot be read; never leaves this room. `line` counts from 1 in the patch."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line

    @property
    def fault(self) -> Fault:
        return Fault(
            owner=Owner.POLICY, kind=FaultKind.PATCH_MALFORMED, message=f"line {self.line} of the patch: {self}",
            line=self.line,
        )


def header_name(raw: bytes, at: int) -> str | None:
    raw = raw.split(b"\t", 1)[0].rstrip(b" \r")
    name = unquote(raw, at)
    return None if name == DEV_NULL else name


_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def unquote(raw: bytes, at: int) -> str:
    """git's C-style quoting (`"a/\\303\\274.py"`) taken off; a plain name as it is. Raises Malformed."""
    if raw.startswith(b'"'):
        if len(raw) < 2 or not raw.endswith(b'"'):
            raise Malformed(at, f"expected a closing quote in the file name {raw[:60]!r}")
        raw = re.sub(rb"\\([0-7]{3}|.)", _escape, raw[1:-1])
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed(at, f"expected a file name in UTF-8, found {raw[:60]!r}")


def _escape(match: re.Match[bytes]) -> bytes:
    text = match[1].decode("latin-1")
    code = int(text, 8) if len(text) == 3 else _ESCAPES.get(text, ord(text))
    return bytes([code & 0xFF])


def git_names(line: bytes, at: int) -> tuple[str, str] | None:
    """The two names of a 'diff --git' line when they are the same but for 'a/' and 'b/'; else `None`."""
    names = line.removeprefix(b"diff --git ").rstrip(b"\r")
    quoted = re.fullmatch(rb'("(?:\\.|[^"\\])*") ("(?:\\.|[^"\\])*")', names, re.DOTALL)
    if quoted:
        return unquote(quoted[1], at), unquote(quoted[2], at)
    middle = len(names) // 2
    old, new = names[:middle], names[middle + 1:]
    if names[middle:middle + 1] == b" " and old[2:] == new[2:]:
        return unquote(old, at), unquote(new, at)
    return None


def without_prefix(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Both names without git's one-letter first folder, when both have one."""
    if (old is None or old[:2] in ("a/", "i/", "c/", "o/", "w/")) and (
        new is None or new[:2] in ("b/", "w/", "i/")
    ):
        return (old[2:] if old is not None else None), (new[2:] if new is not None else None)
    return old, new
