"""Characters that look like code and are not: named in a hint, never repaired."""

from __future__ import annotations

import re
import unicodedata

_ODD = re.compile(
    "[\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f\u2060-\u2064"
    "\u2066-\u2069\u3000\ufeff\u2010-\u2015\u2212\u00d7\u00f7\u2026\uff01-\uff5e\u0000\ufffd\u00b4]"
)
_ESCAPE = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,6});")


def odd_characters(source: str, *, near_line: int | None = None, most: int = 3) -> tuple[str, ...]:
    """Up to `most` descriptions such as 'U+201C LEFT DOUBLE QUOTATION MARK at line 4, column 7'.

    Those on `near_line` (from 1) come first. HTML escapes count too. Lines and columns count from 1.
    """
    lines = source.split("\n")
    found: list[str] = []
    order = list(range(len(lines)))
    if near_line is not None and 1 <= near_line <= len(lines):
        order.remove(near_line - 1)
        order.insert(0, near_line - 1)
    for index in order:
        found.extend(_in_line(lines[index], index + 1))
        if len(found) >= most:
            break
    return tuple(found[:most])


def _in_line(line: str, number: int) -> list[str]:
    here = [(m.start(), _name(m.group())) for m in _ODD.finditer(line)]
    here += [(m.start(), f"HTML escape {m.group()!r}") for m in _ESCAPE.finditer(line)]
    return [f"{name} at line {number}, column {column + 1}" for column, name in sorted(here)]


def _name(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'NULL' if char == chr(0) else 'CONTROL')}"


def hint(source: str, *, near_line: int | None = None) -> str:
    """A sentence to append to a message, or the empty string."""
    odd = odd_characters(source, near_line=near_line)
    return f" (hint: the text has {'; '.join(odd)})" if odd else ""
