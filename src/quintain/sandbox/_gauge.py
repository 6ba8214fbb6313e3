"""What the control groups of one sandbox tell about it, read from outside while it lives."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

import msgspec

from quintain.sandbox._wire import NOT_MEASURED

KEPT_OPEN = 192  # files that one engine keeps open: those of 64 sandboxes; to open one costs more than to read it
NUMBERS_BYTES = 4096


class Usage(msgspec.Struct, frozen=True):
    """Readings of one sandbox's groups; `None` = not measured."""

    oom_kills: int | None = None
    peak_memory_bytes: int | None = None
    cpu_seconds: float | None = None
    peak_processes: int | None = None


class Readings:
    """Files of groups, the first of them kept open: groups serve one sandbox after another. A file whose group has gone
    says so when it is read (ENODEV), and is looked for anew by its name."""

    def __init__(self, most: int = KEPT_OPEN) -> None:
        self._most = most
        self._open: dict[str, int] = {}

    def text(self, path: str) -> bytes | None:
        """None where it cannot be read."""
        fd = self._open.get(path)
        if fd is not None:
            try:
                return os.pread(fd, NUMBERS_BYTES, 0)
            except OSError:
                os.close(self._open.pop(path))
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        if len(self._open) < self._most:
            self._open[path] = fd
        try:
            return os.pread(fd, NUMBERS_BYTES, 0)
        except OSError:
            return None
        finally:
            if path not in self._open:
                os.close(fd)

    def number(self, path: str | None, key: bytes = b"") -> int | None:
        """The number in a file, or the one behind `key` in a table; None where there is none."""
        text = None if path is None else self.text(path)
        if text is None:
            return None
        if not key:
            return int(text) if text.strip().isdigit() else None
        for line in text.splitlines():
            name, _, value = line.partition(b" ")
            if name == key:
                return int(value)
        return None

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


class Gauge:
    """Reads the groups of one sandbox. Paths are joined once: every command reads them."""

    def __init__(self, directories: dict[str, Path], group: str, readings: Readings) -> None:
        at = {kind: f"{directory}/{group}/" for kind, directory in directories.items()}
        memory, unified, processes = at.get("m"), at.get("u"), at.get("p")
        self._readings = readings
        self._oom = unified + "memory.events" if unified else memory + "memory.oom_control" if memory else None
        self._peak = unified + "memory.peak" if unified else memory + "memory.max_usage_in_bytes" if memory else None
        self._unified = unified is not None
        self._window: FileIO | None = None
        self._peak_before = 0
        self._processes = (unified or processes or "") + "pids.peak" if unified or processes else None
        self._quota = at["c"] + "cpu.cfs_quota_us" if "c" in at else None
        self._oom_seen = 0
        self._fresh = True

    def bound_cpu(self, percent: int) -> None:
        """Set the CPU quota of a v1 group, before the first program runs: not at birth, because the kernel walks all
        its groups for it, and thousands of sandboxes may be alive that run nothing. Raises OSError."""
        if self._quota is not None:
            with FileIO(self._quota, "r+") as file:
                file.write(str(1000 * percent).encode())
            self._quota = None

    def begin(self) -> None:
        """Begin a new measurement of peak memory: v1 and, from kernel 6.12 on, v2 forget the old one."""
        self.close()
        if not self._fresh and self._peak is not None:
            if self._unified:
                self._peak_before = self._readings.number(self._peak) or 0
                self._window = _new_window(self._peak)
            else:
                with suppress(OSError), FileIO(self._peak, "r+") as file:
                    file.write(b"0")
        self._fresh = False

    def read(self) -> Usage:
        """Readings since `begin`; `oom_kills` counts only those since the last reading."""
        total = self._readings.number(self._oom, b"oom_kill")
        kills = None if total is None else total - self._oom_seen
        self._oom_seen = total or self._oom_seen
        return Usage(kills, self._peak_memory(), None, self._readings.number(self._processes))

    def _peak_memory(self) -> int | None:
        if self._window is not None:
            try:
                return int(os.pread(self._window.fileno(), 64, 0))
            except OSError:
                return None
            finally:
                self.close()
        peak = self._readings.number(self._peak)
        return peak if peak is None or peak > self._peak_before else None  # an older command's, then

    def close(self) -> None:
        """Give back what a measurement holds that was begun and never read."""
        if self._window is not None:
            self._window.close()
            self._window = None

    @property
    def oom_seen(self) -> int:
        return self._oom_seen


def _new_window(path: str) -> FileIO | None:
    """memory.peak opened and written to: from then on this descriptor, and no other, tells the peak since the write."""
    try:
        file = FileIO(path, "r+")
    except OSError:
        return None  # before 6.12 the file is read-only
    try:
        file.write(b"0")
    except OSError:
        file.close()
        return None
    return file


def measured(value: int) -> int | None:
    """The engine's word for a number that it could not read."""
    return None if value == NOT_MEASURED else value
