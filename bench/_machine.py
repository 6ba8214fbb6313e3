"""What every bench script prints with its figures: the machine, and its load while they were taken."""

from __future__ import annotations

import json
import os
import platform
import sys
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
