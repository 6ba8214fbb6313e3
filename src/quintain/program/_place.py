"""Where a hunk belongs in a file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from quintain.program._hunks import Hunk
from quintain.types import FaultKind


class DoesNotFit(Exception):
    """The hunk has no place, or more than one; never leaves this room."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Placed(NamedTuple):
    """`offset` in lines from where the header said, after what the hunks before it changed."""

    offset: int
    line_ends_ignored: bool


class Content:
    """A file's lines while hunks are put on it: `lines` before the patch, the new text in `_done`, from the top on.

    `floor` is the first line (from 0) that no hunk has passed; `drift` by how much the last hunk was off.
    """

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.floor = 0
        self.drift = 0
        self._done: list[bytes] = []
        self._searchable: dict[bool, tuple[bytes, list[int]]] = {}

    @classmethod
    def of(cls, content: bytes) -> Content:
        lines = content.split(b"\n")
        last = lines.pop()
        return cls([line + b"\n" for line in lines] + ([last] if last else []))

    def to_bytes(self) -> bytes:
        whole = [*self._done, *self.lines[self.floor:]]
        ended = [line if line.endswith(b"\n") else line + b"\n" for line in whole[:-1]]
        return b"".join([*ended, *whole[-1:]])

    def searchable(self, *, ignore_ends: bool) -> tuple[bytes, list[int]]:
        """All lines, each between two newlines, and where the newline before each stands; made once."""
        if ignore_ends not in self._searchable:
            bare = [_bare(line, ignore_ends=ignore_ends) for line in self.lines]
            starts = list(accumulate((len(line) + 1 for line in bare), initial=0))[:-1]
            self._searchable[ignore_ends] = (b"\n" + b"\n".join(bare) + b"\n", starts)
        return self._searchable[ignore_ends]

    def replace(self, at: int, count: int, new: Sequence[bytes]) -> None:
        self._done.extend(self.lines[self.floor:at])
        self._done.extend(new)
        self.floor = at + count


def place_hunk(content: Content, hunk: Hunk) -> Placed:
    """Put the hunk on the content. Raises DoesNotFit."""
    old = hunk.old
    stated = hunk.old_start if hunk.old_count == 0 else max(0, hunk.old_start - 1)
    expected = stated + content.drift
    if not old:
        if not content.floor <= expected <= len(content.lines):
            raise DoesNotFit(FaultKind.PATCH_DOES_NOT_APPLY,
                             f"expected a place after line {expected}, found {len(content.lines)} lines")
        _put(content, hunk, expected, ignore_ends=_ending(content.lines, expected) == b"\r\n")
        return Placed(0, False)
    for ignore_ends in (False, True):
        at = _find(content, old, expected, ignore_ends=ignore_ends)
        if at is not None:
            _put(content, hunk, at, ignore_ends=ignore_ends)
            content.drift = at - stated
            return Placed(at - stated, ignore_ends)
    raise DoesNotFit(FaultKind.PATCH_DOES_NOT_APPLY, _why(content, old, expected))


def _find(content: Content, old: list[bytes], expected: int, *, ignore_ends: bool) -> int | None:
    """The index of the first matching line: the expected one, or the only one; `None` where there is none."""
    wanted = [_bare(line, ignore_ends=ignore_ends) for line in old]
    here = content.lines[max(expected, 0):max(expected, 0) + len(old)]
    if expected >= content.floor and [_bare(line, ignore_ends=ignore_ends) for line in here] == wanted:
        return expected
    haystack, starts = content.searchable(ignore_ends=ignore_ends)
    needle = b"\n" + b"\n".join(wanted) + b"\n"
    if content.floor >= len(starts) or (first := haystack.find(needle, starts[content.floor])) < 0:
        return None
    second = haystack.find(needle, first + 1)
    at = bisect_left(starts, first)
    if second >= 0:
        other = bisect_left(starts, second)
        raise DoesNotFit(FaultKind.PATCH_AMBIGUOUS,
                         f"its lines are not at line {expected + 1}, and both at line {at + 1} and at line {other + 1}")
    return at


def _bare(line: bytes, *, ignore_ends: bool) -> bytes:
    line = line.removesuffix(b"\n")
    return line.removesuffix(b"\r") if ignore_ends else line


def _put(content: Content, hunk: Hunk, at: int, *, ignore_ends: bool) -> None:
    """Replace the matched lines: context is the file's own, added lines end as their neighbour in the file does."""
    new: list[bytes] = []
    index = at
    ending = _ending(content.lines, at)
    for line in hunk.lines:
        if line.sign == "+":
            if not ignore_ends:
                new.append(line.content + (b"\n" if line.ends else b""))
            else:
                new.append(line.content.removesuffix(b"\r") + (ending if line.ends else b""))
            continue
        ending = _ending(content.lines, index)
        if line.sign == " ":
            new.append(content.lines[index])
        index += 1
    content.replace(at, index - at, new)


def _ending(lines: list[bytes], index: int) -> bytes:
    for near in (index, index - 1):
        if 0 <= near < len(lines) and lines[near].endswith(b"\n"):
            return b"\r\n" if lines[near].endswith(b"\r\n") else b"\n"
    return b"\n"


def _why(content: Content, old: list[bytes], expected: int) -> str:
    """The first line of the hunk that is not where it should be."""
    for index, line in enumerate(old):
        at = expected + index
        found = content.lines[at].removesuffix(b"\n") if 0 <= at < len(content.lines) else None
        if found is None or found.removesuffix(b"\r") != line.removesuffix(b"\r"):
            shown = "the end of the file" if found is None else repr(found[:80].decode("utf-8", "replace"))
            expected_line = repr(line[:80].decode("utf-8", "replace"))
            return f"expected {expected_line} at line {at + 1}, found {shown}; its lines are nowhere else in the file"
    return "its lines overlap those of the hunk before it"
