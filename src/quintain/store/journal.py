"""The truth of a run: an append-only file of events."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from quintain.store._record import decode, encode, where
from quintain.store._tear import BrokenInTheMiddle, Line, whole_lines
from quintain.store.base import Blobs
from quintain.types import Closed, Event, FaultKind, HouseError


class Mode(StrEnum):
    READ = "read"  # beside a live writer; a torn tail is left where it is
    WRITE = "write"  # the only one; a torn tail is cut off and kept aside


class Sync(StrEnum):
    """When the disk is waited for. The kernel's cache outlives a killed process, but not a power cut."""

    LEAVE = "leave"
    CLOSED = "closed"  # after each event that closes an episode
    ALWAYS = "always"


class Journal:
    """The events of one run in `path`, one checked line each (see the format in docs/rooms/store.md).

    In WRITE mode the file is locked against every other process (HouseError(STORE_ERROR) names the one that has it),
    and a torn tail is moved to `path` + `.torn` before anything is appended, so no record is ever glued to a broken
    one. Damage with whole records after it is an error with its byte offset, in either mode. Any number of threads and
    tasks may append and read. The index of an event must be the next one of its episode: nothing is lost or doubled.
    """

    def __init__(self, path: Path, blobs: Blobs, *, mode: Mode = Mode.READ, sync: Sync = Sync.LEAVE) -> None:
        self._path = path
        self._blobs = blobs
        self._mode = mode
        self._sync = sync
        self._mutex = threading.Lock()
        self._offsets: dict[str, list[int]] = {}
        self._file = self._open()
        try:
            self._end = self._scan()
        except HouseError:
            self._file.close()
            raise

    def append(self, event: Event) -> None:
        """Keep one event. Raises HouseError(STORE_ERROR); the journal is then as it was before."""
        if self._mode is not Mode.WRITE:
            raise self._error("opened for reading: nothing can be appended")
        line = encode(event, self._blobs)
        with self._mutex:
            known = self._offsets.get(event.episode, [])
            if event.index != len(known):
                name = type(event).__name__
                raise self._error(
                    f"{event.episode}: expected event {len(known)} as its next, found {event.index} ({name})",
                )
            self._write(line)
            self._offsets.setdefault(event.episode, known).append(self._end)
            self._end += len(line)
            if self._sync is Sync.ALWAYS or (self._sync is Sync.CLOSED and isinstance(event, Closed)):
                os.fsync(self._file.fileno())

    def read(self, episode: str | None = None) -> Iterator[Event]:
        """The events of one episode, or of all in the order of writing; none for an episode that is not known."""
        with self._mutex:
            if episode is not None:
                offsets = list(self._offsets.get(episode, ()))
            else:
                offsets = sorted(offset for known in self._offsets.values() for offset in known)
        if not offsets:
            return
        with self._path.open("rb") as stream:
            for offset in offsets:
                stream.seek(offset)
                yield self._decoded(stream.readline(), offset)

    def episodes(self) -> tuple[str, ...]:
        """The ids of the episodes that have an event, in the order of their first."""
        with self._mutex:
            return tuple(self._offsets)

    def refresh(self) -> None:
        """In READ mode: take in what another process has appended since."""
        if self._mode is Mode.READ:
            with self._mutex:
                self._offsets.clear()
                self._end = self._scan()

    def close(self) -> None:
        """Flush to the disk and unlock."""
        with self._mutex:
            if not self._file.closed:
                if self._mode is Mode.WRITE:
                    os.fsync(self._file.fileno())
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> IO[bytes]:
        try:
            if self._mode is Mode.READ:
                return self._path.open("rb")
            stream = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise self._error(f"cannot open: {error.strerror}")
        try:
            # not inherited by the programs that we start (descriptors are close-on-exec): it goes when we go
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise self._error(f"another process writes this run{_holder(self._path)}: wait for it, or end it")
        _note_holder(self._path)
        return stream

    def _scan(self) -> int:
        self._file.seek(0)
        end = size = 0
        try:
            for part in whole_lines(self._lines()):
                if isinstance(part, Line):
                    self._index(part)
                else:
                    end, size = part
        except BrokenInTheMiddle as error:
            raise self._error(str(error))
        if end < size and self._mode is Mode.WRITE:
            self._cut(end, size)
        return end

    def _lines(self) -> Iterable[bytes]:
        with self._path.open("rb") as stream:
            yield from stream

    def _index(self, line: Line) -> None:
        episode, nth = where(line.content)
        known = self._offsets.setdefault(episode, [])
        if nth != len(known):
            raise self._error(f"byte {line.offset}: {episode}: expected event {len(known)}, found {nth}")
        known.append(line.offset)

    def _cut(self, end: int, size: int) -> None:
        """Keep the torn bytes aside, then cut them off."""
        with self._path.open("rb") as stream:
            stream.seek(end)
            torn = stream.read(size - end)
        with self._path.with_name(self._path.name + ".torn").open("ab") as aside:
            aside.write(torn)
            aside.flush()
            os.fsync(aside.fileno())
        self._file.truncate(end)
        os.fsync(self._file.fileno())

    def _write(self, line: bytes) -> None:
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        except (OSError, ValueError) as error:
            if not self._file.closed:
                self._file.truncate(self._end)
            raise self._error(f"cannot append: {error}")

    def _decoded(self, line: bytes, offset: int) -> Event:
        try:
            return decode(line.rstrip(b"\n"), self._blobs)
        except HouseError as error:
            raise self._error(f"byte {offset}: {error.message}")

    def _error(self, message: str) -> HouseError:
        return HouseError(FaultKind.STORE_ERROR, f"{self._path}: {message}")


def _note_holder(path: Path) -> None:
    path.with_name(path.name + ".pid").write_text(f"{os.getpid()}\n")


def _holder(path: Path) -> str:
    try:
        return f" (process {int(path.with_name(path.name + '.pid').read_text())})"
    except (OSError, ValueError):
        return ""
