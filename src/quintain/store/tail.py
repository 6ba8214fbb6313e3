"""The events of a run as they are written: each look reads what is new, and nothing again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quintain.store._record import fill
from quintain.store._sources import Hurt, read_source, sources
from quintain.store.blobs import LocalBlobs
from quintain.types import Event, FaultKind, HouseError


class _Place(NamedTuple):
    source: str
    offset: int


class Tail:
    """A reader beside the writers of `run` (its journal, segments, and episodes that workers still play). It locks
    nothing and keeps no file open; about 100 bytes are held for each event. Not for several threads at once.
    `damaged` counts places with whole records after them that hold none: they are passed over."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._blobs = LocalBlobs(run / "blobs")
        self._ends: dict[str, int] = {}
        self._identities: dict[str, int] = {}
        self._places: dict[str, list[_Place]] = {}
        self.damaged = 0

    def fresh(self) -> Iterator[Event]:
        """What was appended since the last look, in the order of each episode; each event once, wherever it lies. Byte
        fields that were moved to the blob store are empty here (`events` fills them)."""
        for path in sources(self._run, living=True):
            name = path.relative_to(self._run).as_posix()
            try:
                found = os.stat(path)
            except FileNotFoundError:  # an episode's journal that was gathered in this moment
                continue
            end = self._ends.get(name, 0)
            if found.st_size < end or self._identities.get(name, found.st_ino) != found.st_ino:
                end = 0
            self._identities[name] = found.st_ino
            if found.st_size > end:
                yield from self._read(path, name, end)

    def _read(self, path: Path, name: str, start: int) -> Iterator[Event]:
        self._ends[name] = start
        for one in read_source(path, self._run, start=start):
            if isinstance(one, Hurt):
                if not one.is_tail:
                    self.damaged += 1
                    self._ends[name] = max(self._ends[name], one.end)
                continue
            event, place = one.event, _Place(name, one.offset)
            known = self._places.setdefault(event.episode, [])
            if event.index < len(known):
                known[event.index] = place  # gathered: the same event lies there now
            elif event.index == len(known):
                known.append(place)
                yield event
            self._ends[name] = one.end

    def episodes(self) -> tuple[str, ...]:
        """Those that have an event, in the order of their first."""
        return tuple(self._places)

    def events(self, episode: str) -> tuple[Event, ...]:
        """All events of an episode, whole; none of one that is not known. Raises HouseError(STORE_ERROR)."""
        return tuple(self._event(episode, index, place) for index, place in enumerate(self._places.get(episode, ())))

    def _event(self, episode: str, index: int, place: _Place) -> Event:
        for one in read_source(self._run / place.source, self._run, start=place.offset):
            if isinstance(one, Hurt):
                break
            if one.event.episode == episode and one.event.index == index:
                return fill(one.event, one.slim.blobs, self._blobs)
            if one.offset > place.offset:
                break
        raise HouseError(FaultKind.STORE_ERROR, f"{self._run / place.source}: byte {place.offset}: expected event "
                         f"{index} of {episode}, found another record or none")
