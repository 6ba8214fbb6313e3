"""How often somebody may ask, and a log of who asked for what: both of bounded size."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import msgspec


class Buckets:
    """A token bucket for each name; of at most `most` names, of which the one unused for the longest is forgotten (it
    is full by then, or it was one of a flood of names). `clock` gives seconds."""

    def __init__(self, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, per_second: float, burst: int) -> float:
        """0.0 and one token less, or the seconds until there is one."""
        now = self._clock()
        left, at = self._kept.pop(name, (float(burst), now))
        left = min(float(burst), left + (now - at) * per_second)
        wait = 0.0 if left >= 1 else (1 - left) / per_second
        self._kept[name] = (left if wait else left - 1, now)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return wait


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the audit log: who asked for what, and what became of it. No header, no query, no body, no key: only
    the key's id."""

    at_unix_seconds: float
    request: str
    remote: str
    method: str
    path: str
    status: int
    seconds: float
    tenant: str = ""
    key: str = ""
    code: str = ""
    sent_bytes: int = 0


class AuditLog:
    """JSON lines in `path`; beyond `most_bytes` it becomes `path` + `.1`, in place of the one before. A disk that is
    full does not stop the server: `lost` counts the lines."""

    def __init__(self, path: Path, *, most_bytes: int = 64 * 1024 * 1024) -> None:
        self._path = path
        self._most = most_bytes // 2
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._opened()
        self._size = path.stat().st_size
        self.lost = 0

    def write(self, entry: Entry) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        try:
            if self._size + len(line) > self._most:
                self._turn()
            self._file.write(line)
            self._size += len(line)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        self._file.close()

    def _turn(self) -> None:
        os.replace(self._path, self._path.with_name(self._path.name + ".1"))
        self._file.close()
        self._file = self._opened()
        self._size = 0

    def _opened(self) -> FileIO:
        return FileIO(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
