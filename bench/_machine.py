"""What every bench script prints with its figures: the machine, and its load while they were taken."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from pathlib import Path


def machine() -> dict[str, object]:
    """CPUs, memory in bytes, kernel, Python, and the load averages of this moment."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if "model name" in line),
        platform.machine(),
    )
    return {
        "cpus": len(os.sched_getaffinity(0)), "cpu": model, "memory_bytes": memory, "kernel": platform.release(),
        "python": platform.python_version(), "user": os.geteuid(), "load": [round(x, 2) for x in os.getloadavg()],
    }


def finish(**figures: object) -> None:
    """Print the one JSON line that ends a bench script."""
    sys.stdout.flush()
    print(json.dumps({**figures, "machine": machine()}))


class Account:
    """CPU time of this process and of everything that it starts, by a control group of its own: complete even for
    processes that nobody waits for. Where no such group can be made, `exact` is False and rusage is used instead."""

    def __init__(self) -> None:
        self.name = f"quintain-bench-{os.getpid()}"
        self.parent = Path("/sys/fs/cgroup/cpuacct")
        self.file = "cpuacct.usage"
        if not self.parent.is_dir():
            self.parent, self.file = Path("/sys/fs/cgroup"), "cpu.stat"
        self.group = self.parent / self.name
        self.exact = False
        self.home = self.parent

    def __enter__(self) -> Account:
        try:
            mine = next(x.split(":", 2)[2] for x in Path("/proc/self/cgroup").read_text().splitlines()
                        if "cpuacct" in x.split(":")[1] or x.startswith("0::"))
            self.home = self.parent / mine.lstrip("/")
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
            self.exact = True
        except OSError as error:
            print(f"no control group for accounting ({error}); using rusage", file=sys.stderr)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.exact:
            (self.home / "cgroup.procs").write_text(str(os.getpid()))
            for _ in range(500):  # what just died may still be on its way out
                try:
                    for path in sorted((p for p in self.group.rglob("*") if p.is_dir()), reverse=True):
                        path.rmdir()
                    self.group.rmdir()
                    break
                except OSError:
                    time.sleep(0.01)

    def seconds(self) -> float:
        if not self.exact:
            kids = resource.getrusage(resource.RUSAGE_CHILDREN)
            return time.process_time() + kids.ru_utime + kids.ru_stime
        text = (self.group / self.file).read_text()
        if self.file == "cpu.stat":
            return int(text.split()[1]) / 1e6
        return int(text) / 1e9
