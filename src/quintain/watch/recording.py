"""What meters showed over hours, in one file: moments as JSON lines, each with what has changed since the last."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from quintain.types import FaultKind, HouseError
from quintain.watch.meters import Series, Snapshot

_LINE = 4 * 1024 * 1024


class _Line(msgspec.Struct, array_like=True):
    at_seconds: float
    changed: tuple[Series, ...] = ()
    gone: tuple[tuple[str, tuple[str, ...]], ...] = ()
    whole: bool = False  # nothing of before is in it


class Recorder:
    """Turns snapshots into lines. Every so often one is whole, so that what is left of a file can be read when its
    beginning was put aside."""

    def __init__(self, *, whole_every: int = 240) -> None:
        self._whole_every = whole_every
        self._count = 0
        self._last: dict[tuple[str, tuple[str, ...]], Series] = {}

    def line(self, at_seconds: float, snapshot: Snapshot) -> bytes:
        whole = self._count % self._whole_every == 0
        self._count += 1
        if whole:
            self._last = {}
        now = {(one.metric, one.labels): one for one in snapshot.series}
        changed = tuple(one for key, one in now.items() if self._last.get(key) != one)
        gone = tuple(key for key in self._last if key not in now)
        self._last = now
        return msgspec.json.encode(_Line(at_seconds, changed, gone, whole)) + b"\n"


def write_recording(path: Path, moments: Iterable[tuple[float, Snapshot]]) -> None:
    """As gzip where the name ends in .gz; the same moments make the same bytes."""
    recorder = Recorder(whole_every=1_000_000)
    content = b"".join(recorder.line(at, snapshot) for at, snapshot in moments)
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


def read_recording(path: Path) -> Iterator[tuple[float, Snapshot]]:
    """The moments as (seconds, snapshot). Raises HouseError(STORE_ERROR) with the line that is no moment."""
    known: dict[tuple[str, tuple[str, ...]], Series] = {}
    decoder = msgspec.json.Decoder(_Line)
    number = 0
    is_known = False
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while text := file.readline(_LINE):
                number += 1
                line = decoder.decode(text)
                if line.whole:
                    known, is_known = {}, True
                if not is_known:
                    continue
                for key in line.gone:
                    known.pop(key, None)
                known.update({(one.metric, one.labels): one for one in line.changed})
                yield line.at_seconds, Snapshot(series=tuple(known.values()))
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise HouseError(FaultKind.STORE_ERROR,
                         f"{path}: expected a moment of a recording in line {number}, found {error}") from None
