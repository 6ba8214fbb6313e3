"""What a crash left of a file of records. Pure, over bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quintain.store._record import is_whole


class Line(NamedTuple):
    """A whole record: where it starts, and its bytes without the newline."""

    offset: int
    content: bytes


class Tear(NamedTuple):
    """Where the records end and what is not one begins; `at` is the file's size when nothing is torn."""

    at: int
    size: int

    @property
    def is_torn(self) -> bool:
        return self.at < self.size


class BrokenInTheMiddle(ValueError):
    """A record is damaged and whole ones follow it: no crash of a writer leaves that behind."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"expected a whole record at byte {offset}, found damage with whole records after it")
        self.offset = offset


def whole_lines(lines: Iterable[bytes]) -> Iterator[Line | Tear]:
    """Every whole record in order, and at last one Tear. `lines` are those of the file, newline included.

    Raises BrokenInTheMiddle when a whole record follows one that is not.
    """
    offset = 0
    torn_at: int | None = None
    for line in lines:
        whole = line.endswith(b"\n") and is_whole(line[:-1])
        if whole and torn_at is not None:
            raise BrokenInTheMiddle(torn_at)
        if whole:
            yield Line(offset, line[:-1])
        elif torn_at is None:
            torn_at = offset
        offset += len(line)
    yield Tear(offset if torn_at is None else torn_at, offset)
