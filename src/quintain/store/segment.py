"""A journal in frames: many events at one blow, compressed and checked, for writers that are many and fast."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from quintain.store import _codec
from quintain.store._record import encode_body
from quintain.store.base import Blobs
from quintain.store.journal import Sync
from quintain.types import Closed, Event, FaultKind, HouseError

SUFFIX = ".qseg"
_MAGIC = b"\xb1QSG"
_HEADER = struct.Struct("<4sBIIII")  # magic, codec, records, raw bytes, kept bytes, CRC-32 of what precedes and follows


class Frame(NamedTuple):
    """The records of one frame, and where in the file it begins and ends."""

    offset: int
    end: int
    bodies: tuple[bytes, ...]


class Damage(NamedTuple):
    """Bytes that are no frame. At the end of a file it may be a frame that is being written (`is_tail`)."""

    offset: int
    end: int
    is_tail: bool


class Segment:
    """One writer's file `folder/HOST-PID-RANDOM.qseg`: made new, locked, and never opened to write again, so that
    nothing is ever glued to what a killed writer left.

    A frame holds what one `append` was given: `<4s magic><codec><records><raw bytes><kept bytes><CRC-32>` (little
    endian, 21 bytes), then the JSON records (those of a journal's lines, without their check sums) joined by newlines,
    compressed by zstd where the library is there, else by zlib. When `append` returns the frame is the kernel's: it
    outlives this process (`sync` as in Journal). The events of an episode must come in order, without a gap; its first
    here may have any index, since an episode can change hands. Any number of threads may append.
    """

    def __init__(self, folder: Path, blobs: Blobs, *, sync: Sync = Sync.LEAVE) -> None:
        self._blobs = blobs
        self._sync = sync
        self._mutex = threading.Lock()
        self._next: dict[str, int] = {}
        self._end = 0
        name = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}".replace("/", "_")
        self.path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
            fcntl.flock(self._file, fcntl.LOCK_EX)  # tells whoever clears up that somebody writes here
        except OSError as error:
            raise self._error(f"cannot create: {error.strerror}")

    def append(self, *events: Event) -> None:
        """Keep these events, all or none. Raises HouseError(STORE_ERROR); the segment is then as it was before."""
        if not events:
            return
        bodies = [encode_body(event, self._blobs) for event in events]
        with self._mutex:
            following = self._following(events)
            raw = b"\n".join(bodies)
            codec, kept = _codec.compress(raw)
            head = _HEADER.pack(_MAGIC, codec, len(bodies), len(raw), len(kept), 0)[:-4]
            self._write(head + struct.pack("<I", zlib.crc32(kept, zlib.crc32(head))) + kept)
            self._next.update(following)
            closed = [event.episode for event in events if isinstance(event, Closed)]
            for episode in closed:
                self._next.pop(episode, None)
            if self._sync is Sync.ALWAYS or (self._sync is Sync.CLOSED and closed):
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to the disk and unlock."""
        with self._mutex:
            if not self._file.closed:
                os.fsync(self._file.fileno())
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _following(self, events: tuple[Event, ...]) -> dict[str, int]:
        following: dict[str, int] = {}
        for event in events:
            expected = following.get(event.episode, self._next.get(event.episode, event.index))
            if event.index != expected:
                found = f"found {event.index} ({type(event).__name__})"
                raise self._error(f"{event.episode}: expected event {expected} as its next, {found}")
            following[event.episode] = expected + 1
        return following

    def _write(self, frame: bytes) -> None:
        try:
            written = self._file.write(frame)
            if written != len(frame):
                raise OSError(f"only {written} of {len(frame)} bytes could be written")
        except (OSError, ValueError) as error:
            if not self._file.closed:
                self._file.truncate(self._end)
                self._file.seek(self._end)
            raise self._error(f"cannot append: {error}")
        self._end += len(frame)

    def _error(self, message: str) -> HouseError:
        return HouseError(FaultKind.STORE_ERROR, f"{self.path}: {message}")


def frames(path: Path, *, start: int = 0) -> Iterator[Frame | Damage]:
    """Every whole frame from `start` on, in order, and what lies between them and is none. Reading goes on after
    damage at the next whole frame. Raises HouseError(STORE_ERROR) for a file that cannot be read, and for frames of
    zstd where that library is missing."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            yield from _frames(_Window(stream.fileno(), start))
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot read: {error.strerror}")


class _Window:
    """Bytes of an open file by their place, read as they are asked for; the size is that of the beginning."""

    def __init__(self, descriptor: int, start: int) -> None:
        self._descriptor = descriptor
        self.start = start
        self.size = os.fstat(descriptor).st_size

    def take(self, offset: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, offset)


def _frames(window: _Window) -> Iterator[Frame | Damage]:
    at = window.start
    damaged_from: int | None = None
    while at < window.size:
        frame = _frame_at(window, at)
        if frame is None:
            damaged_from = at if damaged_from is None else damaged_from
            at = _next_magic(window, at + 1)
            continue
        if damaged_from is not None:
            yield Damage(damaged_from, at, is_tail=False)
            damaged_from = None
        yield frame
        at = frame.end
    if damaged_from is not None:
        yield Damage(damaged_from, window.size, is_tail=True)


def _frame_at(window: _Window, at: int) -> Frame | None:
    head = window.take(at, _HEADER.size)
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        return None
    _, codec, records, raw_bytes, kept_bytes, crc = _HEADER.unpack(head)
    end = at + _HEADER.size + kept_bytes
    if end > window.size:
        return None
    kept = window.take(at + _HEADER.size, kept_bytes)
    if zlib.crc32(kept, zlib.crc32(head[:-4])) != crc:
        return None
    bodies = tuple(_codec.expand(codec, kept, raw_bytes).split(b"\n"))
    return Frame(at, end, bodies) if len(bodies) == records else None


def _next_magic(window: _Window, at: int) -> int:
    """Where the next frame may begin; the end of the file where none does."""
    step = 1 << 20
    while at < window.size:
        found = window.take(at, step).find(_MAGIC)
        if found >= 0:
            return at + found
        at += step - len(_MAGIC) + 1
    return window.size
