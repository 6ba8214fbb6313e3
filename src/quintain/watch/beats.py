"""What the processes of a run let each other know: a small file each, replaced now and then, in the run's folder."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from quintain.watch.episodes import Attempted
from quintain.watch.files import read_file, write_file
from quintain.watch.meters import Meters, Part, Snapshot

#: So many results are shown at once; what comes in more between two looks is missed by the breakers.
_RESULTS = 128
_MOST = 2048
_PREFIX = "beat-"
#: Who is silent for longer is taken for lost.
SILENT_SECONDS = 60.0


class Beat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one process says. `serial` counts results, and is the number of the last one shown; `left` says that it has
    gone in good order."""

    name: str
    host: str
    pid: int
    began_unix_seconds: float
    at_unix_seconds: float
    snapshot: Snapshot
    serial: int = 0
    results: tuple[Attempted, ...] = ()
    left: bool = False


class Heart:
    """Writes the beats of this process into `folder`. Raises HouseError(STORE_ERROR) where that fails."""

    def __init__(self, folder: Path, name: str, meters: Meters, *, clock: Callable[[], float] = time.time) -> None:
        self._path = folder / f"{_PREFIX}{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:100]}.json"
        self._name = name
        self._meters = meters
        self._clock = clock
        self._began = clock()
        self._serial = 0
        self._results: deque[Attempted] = deque(maxlen=_RESULTS)

    def saw(self, result: Attempted) -> None:
        """A result that others should know of; beat soon after a crash."""
        self._serial += 1
        self._results.append(result)

    def beat(self, *, left: bool = False) -> None:
        write_file(self._path, Beat(
            name=self._name, host=socket.gethostname(), pid=os.getpid(), began_unix_seconds=self._began,
            at_unix_seconds=self._clock(), snapshot=self._meters.snapshot(), serial=self._serial,
            results=tuple(self._results), left=left,
        ))


class Heard:
    """Listens to the beats of a folder. How long a process is silent is measured by our own clock, from when its beat
    last changed: theirs may be wrong."""

    def __init__(self, folder: Path, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._ticks = ticks
        self._last: dict[str, tuple[Beat, float]] = {}
        self._files: dict[str, tuple[int, int]] = {}

    def listen(self) -> list[tuple[Beat, tuple[Attempted, ...]]]:
        """The beats that are new, with the results that have not been heard before."""
        found = []
        for path in sorted(self._folder.glob(f"{_PREFIX}*.json"))[:_MOST]:
            try:
                stat = path.stat()
            except OSError:
                continue
            stamp = (stat.st_ino, stat.st_mtime_ns)
            if self._files.get(path.name) == stamp:
                continue
            self._files[path.name] = stamp
            beat = read_file(path, Beat | None, None)  # type: ignore[arg-type]  # a union is no type to mypy
            if beat is None:
                continue
            known = self._last.get(path.name)
            heard = known[0].serial if known and known[0].began_unix_seconds == beat.began_unix_seconds else 0
            fresh = beat.results[max(0, len(beat.results) - max(0, beat.serial - heard)):]
            self._last[path.name] = (beat, self._ticks())
            found.append((beat, fresh if beat.serial > heard else ()))
        return found

    @property
    def parts(self) -> list[Part]:
        since = self._ticks() - SILENT_SECONDS
        return [Part(beat.name, beat.began_unix_seconds, beat.snapshot, not beat.left and at > since)
                for beat, at in self._last.values()]

    def silent(self) -> dict[tuple[str, str], float]:
        """Seconds since each process that has not left was heard of, by (host, name)."""
        now = self._ticks()
        return {(beat.host, beat.name): max(0.0, now - at) for beat, at in self._last.values() if not beat.left}
