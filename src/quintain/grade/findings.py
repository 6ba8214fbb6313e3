"""What an analyser finds that was not there before: findings by rule and text, so that moved lines are no news."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One remark. `severity` is in [0, 1]; `line` counts from 1; `text` is that line, stripped."""

    rule: str
    path: str
    line: int
    message: str = ""
    text: str = ""
    severity: float = 1.0

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.rule} {self.message}".rstrip()


def new_findings(after: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """Those of `after` beyond as many of the same rule on the same text in `before`, in whatever file."""
    left = Counter((one.rule, one.text) for one in before)
    found = []
    for one in after:
        if left[one.rule, one.text] > 0:
            left[one.rule, one.text] -= 1
        else:
            found.append(one)
    return found


def beyond(found: Iterable[Finding], reference: Iterable[Finding]) -> list[Finding]:
    """Those of `found` beyond as many of the same rule in the reference: what the task itself asks for is no fault."""
    left = Counter(one.rule for one in reference)
    kept = []
    for one in found:
        if left[one.rule] > 0:
            left[one.rule] -= 1
        else:
            kept.append(one)
    return kept


def changed_lines(after: Mapping[str, bytes], before: Mapping[str, bytes]) -> dict[str, frozenset[int]]:
    """The lines of each file of `after` that are not as in `before`, counted from 1; blank ones left out."""
    found = {}
    for path, content in after.items():
        new, old = _lines(content), _lines(before.get(path, b""))
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False) if old else None
        spans = [(0, len(new))] if matcher is None else [
            (start, end) for tag, _, _, start, end in matcher.get_opcodes() if tag in ("insert", "replace")]
        found[path] = frozenset(n + 1 for start, end in spans for n in range(start, end) if new[n].strip())
    return found


def with_text(found: Iterable[Finding], files: Mapping[str, bytes]) -> list[Finding]:
    """The findings with the text of their lines; those of lines that do not exist keep none."""
    lines = {path: _lines(content) for path, content in files.items()}
    return [msgspec.structs.replace(one, text=_at(lines.get(one.path, []), one.line)) for one in found]


def told(found: Sequence[Finding], *, most: int = 4) -> str:
    """The first few in words."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(map(str, found[:most])) + more


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").splitlines()


def _at(lines: Sequence[str], line: int) -> str:
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
