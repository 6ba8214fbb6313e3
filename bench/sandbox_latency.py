"""What does one sandbox cost: from the hot pool, from cold, and beside bubblewrap, runc and gVisor in the same run?

Wall times are medians over all starts. `hot_` is a step's demand on a pool: twenty sandboxes asked for one after the
other, `true` run in each, then a pause in which the pool fills up; `hot_idle_p50_ms` is one at a time with 20 ms of
idleness before it, after which each wake-up and each page costs more. CPU is read from one control group that holds
this script and all that it starts (engine, launcher, sandbox, program), for us and for the peers alike; the kernel's
own threads are in nobody's figure. The ratios take our CPU where sandboxes are asked for by twenty, as a training step
does; `single_cpu_ms` is one by one. The ComputeSDK form (time from asking for a sandbox to its first command's answer;
sequential, staggered by 200 ms, a burst of 100) is printed too.

    .venv/bin/python bench/sandbox_latency.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _machine import Account, finish

from quintain.sandbox import NativeBackend, Pool
from quintain.types import MEBIBYTE, Limits

LIMITS = Limits(memory_bytes=256 * MEBIBYTE, disk_bytes=16 * MEBIBYTE, inodes=4096)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def hot(backend: NativeBackend, rounds: int, *, row: int, pause_seconds: float) -> list[float]:
    """Milliseconds from asking the pool to the end of `true`; before each `row` a pause, and until the pool is full."""
    found = []
    floor = 2 * row + 8
    async with Pool(backend, sandboxes=3 * row + 24, floor=floor, ceiling=2 * row + 16, limits=LIMITS) as pool:
        for n in range(rounds):
            while n % row == 0:
                await asyncio.sleep(pause_seconds)
                if pool.statistics.parked >= floor:
                    break
            start = time.perf_counter()
            async with pool.acquire() as box:
                await box.run(["true"])
                found.append((time.perf_counter() - start) * 1e3)
        if pool.statistics.cold:
            raise RuntimeError(f"expected all of a pool's sandboxes to be parked, found {pool.statistics}")
    return found


async def cold(backend: NativeBackend, account: Account, rounds: int) -> tuple[list[float], float]:
    """Milliseconds from nothing to the end of `true`, and CPU milliseconds of a whole life."""
    found = []
    before = account.seconds()
    for _ in range(rounds):
        start = time.perf_counter()
        async with backend.open(limits=LIMITS) as [box]:
            await box.run(["true"])
            found.append((time.perf_counter() - start) * 1e3)
    return found, (account.seconds() - before) * 1e3 / rounds


async def batched(backend: NativeBackend, account: Account, rounds: int) -> float:
    """CPU milliseconds of a whole life (made, `true` run in it, taken down) when sandboxes are asked for by twenty."""
    before = account.seconds()
    for _ in range(rounds):
        async with backend.open(limits=LIMITS, count=20) as boxes, asyncio.TaskGroup() as group:
            for box in boxes:
                group.create_task(box.run(["true"]))
    return (account.seconds() - before) * 1e3 / rounds / 20


async def interactive(backend: NativeBackend, count: int) -> dict[str, dict[str, float]]:
    """Time to interactive in the three shapes of ComputeSDK's public benchmark, milliseconds."""
    async def one(found: list[float]) -> None:
        start = time.perf_counter()
        async with backend.open(limits=LIMITS) as [box]:
            await box.run(["true"])
            found.append((time.perf_counter() - start) * 1e3)

    shapes: dict[str, list[float]] = {"sequential": [], "staggered": [], "burst": []}
    for _ in range(count):
        await one(shapes["sequential"])
    async with asyncio.TaskGroup() as group:
        for _ in range(min(count, 25)):
            group.create_task(one(shapes["staggered"]))
            await asyncio.sleep(0.2)
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(one(shapes["burst"]))
    return {
        name: {"median": round(statistics.median(v), 2), "p95": round(percentile(v, 0.95), 2),
               "p99": round(percentile(v, 0.99), 2)}
        for name, v in shapes.items()
    }


def peer_cpu_ms(command: list[str], account: Account, rounds: int) -> tuple[float, float] | None:
    """(CPU, median wall) milliseconds of one start of `command`; None when it does not work here."""
    if not shutil.which(command[0]):
        return None
    if subprocess.run(command, capture_output=True, check=False, timeout=60).returncode != 0:
        return None
    before = account.seconds()
    walls = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=60)
        walls.append((time.perf_counter() - start) * 1e3)
    return (account.seconds() - before) * 1e3 / rounds, statistics.median(walls)


def bwrap() -> list[str]:
    links = [x for n in ("bin", "lib", "lib64", "sbin") for x in ("--symlink", f"usr/{n}", f"/{n}")]
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", *links, "--proc", "/proc",
            "--dev", "/dev", "--tmpfs", "/work", "--chdir", "/work", "true"]


def bundle(folder: Path, account: Account) -> Path:
    """An OCI bundle whose root is the host's /usr, read-only, that runs `true`."""
    root = folder / "bundle"
    (root / "rootfs").mkdir(parents=True)
    for name in ("usr", "proc", "dev", "work"):
        (root / "rootfs" / name).mkdir()
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "rootfs" / name).symlink_to(f"usr/{name}")
    spaces = [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]
    config = {
        "ociVersion": "1.0.2", "hostname": "peer", "root": {"path": "rootfs", "readonly": True},
        "process": {"user": {"uid": 1000, "gid": 1000}, "args": ["/usr/bin/true"], "cwd": "/", "env": ["PATH=/usr/bin"],
                    "noNewPrivileges": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            {"destination": "/work", "type": "tmpfs", "source": "tmpfs", "options": ["size=16m"]},
        ],
        "linux": {"cgroupsPath": f"/{account.name}/peer", "namespaces": spaces,
                  "resources": {"memory": {"limit": 256 * MEBIBYTE}, "pids": {"limit": 64}}},
    }
    (root / "config.json").write_text(json.dumps(config))
    return root


def runc(root: Path) -> list[str]:
    return ["sh", "-c", f'exec runc run --bundle {root} peer-$$']


def runsc() -> list[str]:
    return ["runsc", "--platform=ptrace", "--network=none", "--ignore-cgroups", "do", "true"]


async def measure(account: Account, quick: bool) -> dict[str, object]:
    rounds = 60 if quick else 300
    async with NativeBackend() as backend:
        async with backend.open(limits=LIMITS):
            pass
        parked = await hot(backend, rounds, row=20, pause_seconds=0.3)
        idle = await hot(backend, rounds // 2, row=1, pause_seconds=0.02)
        fresh, cpu = await cold(backend, account, rounds)
        together = await batched(backend, account, 6 if quick else 25)
        shapes = await interactive(backend, 20 if quick else 100)
    return {
        "hot_p50_ms": round(statistics.median(parked), 3), "hot_p99_ms": round(percentile(parked, 0.99), 3),
        "hot_idle_p50_ms": round(statistics.median(idle), 3),
        "cold_p50_ms": round(statistics.median(fresh), 3), "cold_p99_ms": round(percentile(fresh, 0.99), 3),
        "cpu_ms": round(together, 3), "single_cpu_ms": round(cpu, 3), "time_to_interactive_ms": shapes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer starts")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="quintain-bench-"))
    figures: dict[str, object] = {}
    try:
        with Account() as account:
            peers = {"bwrap": (bwrap(), 40), "runc": (runc(bundle(folder, account)), 20), "runsc": (runsc(), 6)}
            before = asyncio.run(measure(account, args.quick))
            peer_found = {
                name: peer_cpu_ms(command, account, n // 2 if args.quick else n) for name, (command, n) in peers.items()
            }
            after = asyncio.run(measure(account, args.quick))  # on both sides: the machine is not always the same
    finally:
        shutil.rmtree(folder)
    for key, value in before.items():
        other = after[key]
        figures[key] = round((value + other) / 2, 3) if isinstance(value, float) and isinstance(other, float) else value
    for name, found in peer_found.items():
        ratio = None if found is None else round(found[0] / float(figures["cpu_ms"]), 2)  # type: ignore[arg-type]
        figures[f"{name}_cpu_ratio"] = ratio
        print(f"{name}: " + ("not here, or not working here" if found is None else
              f"{found[0]:.1f} ms CPU, {found[1]:.1f} ms wall for each start of `true`"), file=sys.stderr)
    finish(bench="sandbox_latency", **figures)


if __name__ == "__main__":
    main()
