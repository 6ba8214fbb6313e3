"""Whatever is killed, nothing of a sandbox stays: processes, mounts, control groups, files."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from quintain.sandbox import NativeBackend, clean
from quintain.types import Limits

WITHIN_SECONDS = 5.0
HERE = NativeBackend().probe()
pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(not HERE.available, reason=f"the native backend is missing {HERE.missing}"),
]

#: A house of its own, that opens sandboxes in which programs run, says so, and waits for the end of its stdin.
HOUSE = """
import asyncio, sys
from quintain.sandbox import NativeBackend

async def main():
    async with NativeBackend(engines=1) as backend, backend.open(count=4) as boxes, asyncio.TaskGroup() as group:
        running = [group.create_task(b.run(["sh", "-c", "sleep 301 & echo x > /tmp/f; sleep 302"])) for b in boxes]
        await asyncio.sleep(0.5)
        print(boxes[0].id, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in running:
            task.cancel()

try:
    asyncio.run(main())
except* Exception as errors:
    print(*[repr(e) for e in errors.exceptions], file=sys.stderr)
"""


class Family(msgspec.Struct, frozen=True):
    """The processes of one house: itself, the keeper below it, the spawner below that, and all others."""

    house: int
    keeper: int
    spawner: int
    others: frozenset[int]

    @property
    def all(self) -> frozenset[int]:
        return self.others | {self.house, self.keeper, self.spawner}


def children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        found.setdefault(parent, []).append(int(entry))
    return found


def descendants(pid: int) -> set[int]:
    tree = children()
    found: set[int] = set()
    fresh = [pid]
    while fresh:
        fresh = [child for parent in fresh for child in tree.get(parent, []) if child not in found]
        found.update(fresh)
    return found


def family(house: int) -> Family:
    tree = children()
    [keeper] = tree[house]
    [spawner] = tree[keeper]
    return Family(house, keeper, spawner, frozenset(descendants(spawner)))


def alive(pids: frozenset[int] | set[int]) -> set[int]:
    """Those that still run; a zombie that waits for its parent does not."""
    def running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return {pid for pid in pids if running(pid)}


def groups(slot: str) -> list[str]:
    """The control groups of a slot, in every hierarchy."""
    return [root for root, _, _ in os.walk("/sys/fs/cgroup") if f"/{slot}/" in f"{root}/"]


def temporary_files() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if "quintain" in name}


def mounts() -> list[str]:
    return sorted(line.split(" ", 4)[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())


@pytest.fixture
def house() -> Iterator[tuple[subprocess.Popen[str], Family, str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOUSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    slot = process.stdout.readline().strip().rpartition("-")[0]
    assert slot.startswith("quintain-"), process.communicate()
    kin = family(process.pid)
    yield process, kin, slot
    process.kill()
    process.communicate()
    for pid in alive(kin.all):
        os.kill(pid, signal.SIGKILL)


VICTIMS: dict[str, Callable[[Family], list[int]]] = {
    "house": lambda kin: [kin.house],
    "spawner": lambda kin: [kin.spawner],
    "keeper": lambda kin: [kin.keeper],
    "keeper and spawner": lambda kin: [kin.keeper, kin.spawner],
    "house and keeper": lambda kin: [kin.house, kin.keeper],
    "house, keeper and spawner": lambda kin: [kin.house, kin.keeper, kin.spawner],
}


@pytest.mark.parametrize("who", VICTIMS)
def test_nothing_is_left_when_it_is_killed(house: tuple[subprocess.Popen[str], Family, str], who: str) -> None:
    process, kin, slot = house
    assert len(kin.others) >= 8  # four first processes and their programs
    assert HERE.memory != "hard" or groups(slot)
    before_mounts, before_files = mounts(), temporary_files()
    for pid in VICTIMS[who](kin):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=20)  # a house that lives is told to end
    deadline = time.monotonic() + WITHIN_SECONDS
    clean()
    while (alive(kin.all) or groups(slot)) and time.monotonic() < deadline:
        time.sleep(0.05)
        clean()  # a lock is free only when the last of the killed has really ended
    assert alive(kin.all) == set()
    assert groups(slot) == []
    assert mounts() == before_mounts
    assert temporary_files() <= before_files


def test_the_next_start_sweeps_what_the_killed_left(house: tuple[subprocess.Popen[str], Family, str]) -> None:
    process, kin, slot = house
    for pid in (kin.house, kin.keeper):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=20)
    deadline = time.monotonic() + WITHIN_SECONDS

    async def start() -> str:
        async with NativeBackend(engines=1) as backend, backend.open() as [box]:
            await box.run(["true"])
            return box.id

    while slot != asyncio.run(start()).rpartition("-")[0] and time.monotonic() < deadline:
        pass  # another engine of this host may have taken a lower slot
    assert alive(kin.all) == set()
    assert groups(slot) == []


def test_three_hundred_sandboxes_leave_the_house_as_it_was() -> None:
    async def all_of_it() -> tuple[dict[str, int], dict[str, int]]:
        async with NativeBackend(engines=1) as backend:
            async def once() -> str:
                async with backend.open(limits=Limits(processes=16)) as [box]:
                    await box.run(["sh", "-c", "echo x > /tmp/x; sleep 300 &"])
                    return box.id

            for _ in range(20):
                slot = (await once()).rpartition("-")[0]
            before = belongings(slot)
            for _ in range(300):
                await once()
            await asyncio.sleep(0.2)
            return before, belongings(slot)

    before, after = asyncio.run(all_of_it())
    assert {what: n for what, n in after.items() if n > before[what]} == {}


def belongings(slot: str) -> dict[str, int]:
    """What a leak would make grow, in the house and in its engine."""
    gc.collect()
    kin = descendants(os.getpid())
    engine = [pid for pid in kin if "quintain-sandbox" in Path(f"/proc/{pid}/cmdline").read_text()]
    found = {
        "our descriptors": len(os.listdir("/proc/self/fd")), "our mounts": len(mounts()), "processes": len(kin),
        "groups": len(groups(slot)), "temporary files": len(temporary_files()),
        "engine's descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in engine),
        "engine's mounts": sum(Path(f"/proc/{pid}/mountinfo").read_text().count("\n") for pid in engine),
    }
    assert engine
    return found
