"""Does the two-thousandth sandbox cost what the first did, and is the host as it was before?

Opens a sandbox, runs `true`, takes it down, again and again; compares the CPU of the last hundred with the first
hundred; and processes, mounts, groups, namespaces, descriptors, temporary files and memory with what was before.

    .venv/bin/python bench/sandbox_churn.py [--cycles 2000] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
from pathlib import Path

from _machine import Account, finish

from quintain.sandbox import NativeBackend
from quintain.types import MEBIBYTE, Limits

LIMITS = Limits(memory_bytes=256 * MEBIBYTE, disk_bytes=16 * MEBIBYTE, inodes=4096)


def processes() -> list[Path]:
    return [p for p in Path("/proc").iterdir() if p.name.isdigit()]


def kin(pid: int) -> set[int]:
    """This process and all that descend from it."""
    found = {pid}
    for path in processes():
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent in found:
            found.add(int(path.name))
    return found


def namespaces(pids: set[int]) -> int:
    seen = set()
    for pid in pids:
        for kind in ("net", "mnt", "pid", "uts", "ipc", "cgroup"):
            try:
                seen.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                continue
    return len(seen)


def inventory() -> dict[str, int]:
    """What a leak would make grow; counted for this process, its descendants and our names on the host."""
    own = kin(os.getpid())
    groups = sum(1 for root in Path("/sys/fs/cgroup").glob("*") for _ in root.rglob("quintain-0-*/s*") if root.is_dir())
    return {
        "processes": len(own), "namespaces": namespaces(own), "descriptors": len(os.listdir("/proc/self/fd")),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()), "cgroups": groups,
        "temporary_files": sum("quintain" in name for name in os.listdir("/tmp")),
    }


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


async def churn(cycles: int, account: Account) -> dict[str, object]:
    costs: list[float] = []
    async with NativeBackend(engines=1) as backend:
        for _ in range(20):  # engines up, pools filled, interpreter warmed
            async with backend.open(limits=LIMITS) as [box]:
                await box.run(["true"])
        await asyncio.sleep(1.0)
        gc.collect()
        before, memory = inventory(), resident_kib()
        for done in range(0, cycles, 100):
            start = account.seconds()
            for _ in range(100):
                async with backend.open(limits=LIMITS) as [box]:
                    await box.run(["true"])
            costs.append((account.seconds() - start) * 10)
            print(f"{done + 100} cycles: {costs[-1]:.2f} ms CPU each", file=sys.stderr)
        await asyncio.sleep(1.0)
        gc.collect()
        after, grown = inventory(), resident_kib() - memory
    left = {key: after[key] - before[key] for key in before if after[key] != before[key]}
    return {
        "cycles": cycles, "first_ms": round(costs[0], 3), "last_ms": round(costs[-1], 3),
        "cost_ratio": round(costs[-1] / costs[0], 3), "left": left, "resident_growth_kib": grown,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="600 cycles")
    args = parser.parse_args()
    start = time.perf_counter()
    with Account() as account:
        figures = asyncio.run(churn(600 if args.quick else args.cycles, account))
    finish(bench="sandbox_churn", seconds=round(time.perf_counter() - start, 1), **figures)


if __name__ == "__main__":
    main()
