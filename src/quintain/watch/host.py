"""What this host and this process use, from /proc and the file system."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

from quintain.watch.meters import Meters


class HostMeters:
    """Reads when it is told to; shares of CPU time are those since the last reading. What cannot be read is left out.
    `folder` is on the disk that is looked at. Where many processes of one host read, `host=False` leaves the host's
    own numbers to one of them."""

    def __init__(self, meters: Meters, folder: Path, *, host: bool = True) -> None:
        self._meters = meters
        self._folder = folder
        self._host = socket.gethostname()
        self._reads_host = host
        self._cpu: tuple[float, float] | None = None
        self._own = 0.0

    def read(self) -> None:
        self._process()
        if self._reads_host:
            self._disk()
            self._memory()
            self._processors()

    def _process(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = used.ru_utime + used.ru_stime
        self._meters.add("quintain_process_cpu_seconds_total", max(0.0, seconds - self._own))
        self._own = seconds
        pages = _words("/proc/self/statm")
        if len(pages) > 1:
            size = int(pages[1]) * os.sysconf("SC_PAGE_SIZE")
            self._meters.set("quintain_process_memory_bytes", size)

    def _disk(self) -> None:
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return
        free, usable = found.f_bavail * found.f_frsize, (found.f_blocks - found.f_bfree + found.f_bavail)
        self._meters.set("quintain_host_disk_free_bytes", free, host=self._host)
        if usable:
            self._meters.set("quintain_host_disk_share", 1 - found.f_bavail / usable, host=self._host)

    def _memory(self) -> None:
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
            sizes = {line.split(":")[0]: float(line.split()[1]) for line in lines if len(line.split()) > 1}
            share = 1 - sizes["MemAvailable"] / sizes["MemTotal"]
        except (OSError, ValueError, KeyError, ZeroDivisionError):
            return
        self._meters.set("quintain_host_memory_share", share, host=self._host)

    def _processors(self) -> None:
        words = _words("/proc/stat")[1:9]
        if len(words) == 8:
            spent = [float(word) for word in words]
            now = sum(spent), spent[3] + spent[4]
            if self._cpu is not None and now[0] > self._cpu[0]:
                idle = (now[1] - self._cpu[1]) / (now[0] - self._cpu[0])
                self._meters.set("quintain_host_cpu_share", min(1.0, max(0.0, 1 - idle)), host=self._host)
            self._cpu = now
        load = _words("/proc/loadavg")
        if len(load) > 3 and "/" in load[3]:
            self._meters.set("quintain_host_processes", float(load[3].split("/")[1]), host=self._host)


def _words(path: str) -> list[str]:
    """Of its first line."""
    try:
        with open(path) as file:
            return file.readline().split()
    except OSError:
        return []
