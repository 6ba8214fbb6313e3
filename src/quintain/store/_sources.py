"""What the writers of one run have left so far: whole records in order, and names for what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quintain.store._record import Slim, body_of, decode_body, is_whole
from quintain.store.segment import SUFFIX, Damage, frames
from quintain.types import Event, HouseError

JOURNAL = "journal.jsonl"
SEGMENTS = "segments"
#: Journals of single episodes that workers share; they are gathered into the run's journal when the episode ends.
EPISODES = "episodes"


class Kept(NamedTuple):
    """One event as it was found: its line or frame lies from `offset` to `end` in `source`."""

    source: str
    offset: int
    end: int
    slim: Slim

    @property
    def event(self) -> Event:
        return self.slim.event


class Hurt(NamedTuple):
    """A place in a source that holds no record. `is_tail`: it may be one that is being written right now."""

    source: str
    offset: int
    end: int
    reason: str
    is_tail: bool = False


def sources(run: Path, *, living: bool = False) -> tuple[Path, ...]:
    """The files that a run's events lie in; with `living` also the journals of episodes that still go on."""
    found = [run / JOURNAL] if (run / JOURNAL).is_file() else []
    found += sorted((run / SEGMENTS).glob(f"*{SUFFIX}"))
    if living:
        found += sorted((run / EPISODES).glob("*.jsonl"))
    return tuple(found)


def read_source(path: Path, run: Path, *, start: int = 0) -> Iterator[Kept | Hurt]:
    """Every whole record from `start` on, in order, whatever lies between. Never raises for what a file holds."""
    name = path.relative_to(run).as_posix()
    units = _frames(path, name, start) if path.suffix == SUFFIX else _lines(path, name, start)
    for unit in units:
        if isinstance(unit, Hurt):
            yield unit
            continue
        offset, end, bodies = unit
        for body in bodies:
            try:
                slim = decode_body(body)
            except HouseError as error:
                yield Hurt(name, offset, end, error.message)
            else:
                yield Kept(name, offset, end, slim)


_Unit = tuple[int, int, tuple[bytes, ...]]


def _frames(path: Path, name: str, start: int) -> Iterator[_Unit | Hurt]:
    try:
        for part in frames(path, start=start):
            if isinstance(part, Damage):
                yield Hurt(name, part.offset, part.end, "expected a whole frame, found damage", part.is_tail)
            else:
                yield part.offset, part.end, part.bodies
    except HouseError as error:
        yield Hurt(name, start, start, error.message)


def _lines(path: Path, name: str, start: int) -> Iterator[_Unit | Hurt]:
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            offset = start
            torn: Hurt | None = None
            for line in stream:
                end = offset + len(line)
                if line.endswith(b"\n") and is_whole(line[:-1]):
                    if torn is not None:
                        yield torn._replace(is_tail=False)
                        torn = None
                    yield offset, end, (body_of(line[:-1]),)
                else:
                    first = offset if torn is None else torn.offset
                    torn = Hurt(name, first, end, "expected a whole record, found damage", is_tail=True)
                offset = end
            if torn is not None:
                yield torn
    except OSError as error:
        yield Hurt(name, start, start, f"cannot read: {error.strerror}")
