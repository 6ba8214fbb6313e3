"""Reading what a compiler or a runtime wrote, line by line, by the rows of its language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from quintain.program._language import ErrorRow, Language
from quintain.types import Fault, Owner

MAX_LINES = 2_000
MAX_LINE_CHARS = 2_000


def by_runtime(row: Language, stderr: str, exit_code: int | None, own: Mapping[str, bytes] | None) -> Fault | None:
    """What the language's runtime rows say of the last line that one of them fits; earlier rows are tried first."""
    lines = _lines(stderr, last=True)
    for rule in row.errors:
        if rule.exit_codes and exit_code not in rule.exit_codes:
            continue
        pattern = re.compile(rule.pattern)
        for at in reversed(range(len(lines))):
            match = pattern.match(lines[at])
            if match is not None:
                return _fault(rule, match, lines, at, row, own)
    return None


def by_compiler(row: Language, text: str, own: Mapping[str, bytes] | None) -> Fault | None:
    """What the language's compiler rows say of the first line that any of them fits: what follows are consequences."""
    lines = _lines(text, last=False)
    patterns = [(rule, re.compile(rule.pattern)) for rule in row.build_errors]
    for at, line in enumerate(lines):
        for rule, pattern in patterns:
            match = pattern.match(line)
            if match is not None:
                return _fault(rule, match, lines, at, row, own)
    return None


def own_file(file: str, own: Mapping[str, bytes] | None) -> str | None:
    """The own file that a message means, `/work/a.sh` or `./a.sh`; `None` if it is none. With `own` unknown (`None`),
    a relative path as it stands."""
    plain = file.removeprefix("file://").removeprefix("./")
    if own is None:
        return plain if plain and not plain.startswith(("/", "../", "<")) else None
    parts = plain.split("/")
    tails = ("/".join(parts[start:]) for start in range(min(len(parts), 64)))
    return next((tail for tail in tails if tail in own), None)


def _lines(text: str, *, last: bool) -> list[str]:
    lines = [line.rstrip("\r")[:MAX_LINE_CHARS] for line in text.split("\n")]
    return lines[-MAX_LINES:] if last else lines[:MAX_LINES]


def _fault(
    rule: ErrorRow, match: re.Match[str], lines: Sequence[str], at: int, row: Language, own: Mapping[str, bytes] | None,
) -> Fault:
    groups = match.groupdict()
    path = own_file(groups["file"], own) if groups.get("file") else None
    number = groups.get("line") if path else None
    if (path is None or number is None) and row.place:
        path, number = _place(row.place, lines, at, own) or (path, number)
    message = lines[at]
    if message.endswith(":") and at + 1 < len(lines) and lines[at + 1].strip():  # Rust says what on the next line
        message = f"{message} {lines[at + 1].strip()}"
    return Fault(owner=Owner.POLICY, kind=rule.kind, message=message[:500], file=path,
                 line=int(number) if path and number else None, exception=groups.get("what"))


def _place(
    pattern: str, lines: Sequence[str], at: int, own: Mapping[str, bytes] | None,
) -> tuple[str, str] | None:
    """The first line after the error that names a place in an own file, else the nearest before it."""
    reader = re.compile(pattern)
    for line in (*lines[at + 1:], *reversed(lines[:at])):
        match = reader.match(line)
        if match is not None and (path := own_file(match["file"], own)) is not None:
            return path, match["line"]
    return None
