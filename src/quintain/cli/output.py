"""How commands speak: JSON lines for scripts on stdout, tables and progress for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console

#: A person's terminal may be narrow, a pipe has no width: tables are not squeezed below this many columns there.
PIPE_COLUMNS = 120


def say_json(value: object) -> None:
    """One record as one line on stdout (bytes as base64, enums as their values)."""
    click.echo(msgspec.json.encode(value).decode())


def console(*, to_stderr: bool = False) -> Console:
    """Where a person reads. Imports rich, so commands call it only when they draw."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else PIPE_COLUMNS, highlight=False, soft_wrap=False)


def plain(text: str, *, limit: int | None = None) -> str:
    """Text that a program or a policy wrote, safe to show: control characters become visible, and at most `limit`
    characters remain, the middle cut out. A terminal escape in a reply must not drive the reader's terminal."""
    if limit is not None and len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
    return "".join(c if c in "\n\t" or c.isprintable() else _visible(c) for c in text)


def _visible(character: str) -> str:
    if character == "\r":
        return ""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int = 100) -> str:
    """The first non-empty line of a text, shortened."""
    lines = [line for line in plain(text).splitlines() if line.strip()]
    if not lines:
        return ""
    first = lines[0].strip()
    return first if len(lines) == 1 and len(first) <= limit else first[: limit - 1] + "…"
