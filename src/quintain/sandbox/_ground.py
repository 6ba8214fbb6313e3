"""What a backend that starts other people's launchers holds of the host: users, control groups, a folder; all under one
locked slot, so that what a killed house leaves is found and swept by the next."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from quintain.sandbox import _slots
from quintain.sandbox._gauge import Gauge, Readings
from quintain.types import FaultKind, HouseError, Limits

EMPTY_WITHIN_SECONDS = 5.0


class Ground:
    """One held slot. `places` number its sandboxes: two users (agent, program) and one set of groups for each."""

    def __init__(self) -> None:
        self.slot = _slots.take()
        self.folder = _slots.directory() / f"launch-{self.slot.number}"
        remove_tree(self.folder)  # a killed house's
        self.folder.mkdir(mode=0o755)
        self.directories = _slots.make_groups(self.slot)
        self._next = 0

    def place(self) -> int:
        """A place that no other sandbox of this ground has had. Raises HouseError when all users are spent."""
        if 2 * self._next + 1 >= _slots.UIDS_PER_SLOT:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "expected a spare user for the sandbox, all are spent")
        self._next += 1
        return self._next - 1

    def users(self, place: int) -> tuple[int, int]:
        """The agent's and the program's user on the host."""
        return self.slot.uid_base + 2 * place, self.slot.uid_base + 2 * place + 1

    def gauge(self, place: int) -> Gauge:
        return Gauge(self.directories, f"s{place}", Readings(most=0))  # no group serves twice here

    def fence(self, place: int, limits: Limits, *, spare_bytes: int = 0, spare_processes: int = 0) -> list[str]:
        """Make the groups of one sandbox and set its limits; returns the files through which a process joins them."""
        doors = []
        for kind, directory in self.directories.items():
            group = directory / f"s{place}"
            group.mkdir(exist_ok=True)
            for name, value in _limits(kind, limits, spare_bytes, spare_processes).items():
                if (group / name).exists():  # swap accounting may be absent
                    (group / name).write_text(value)
            doors.append(str(group / ("cgroup.procs" if kind == "u" else "tasks")))
        return doors

    async def clear(self, place: int) -> None:
        """Kill what lives in a sandbox's groups and remove them. Raises HouseError when that takes more than 5 s."""
        async with asyncio.timeout(EMPTY_WITHIN_SECONDS):
            for directory in self.directories.values():
                while not _removed(directory / f"s{place}"):  # noqa: ASYNC110 - the kernel sends no event
                    await asyncio.sleep(0.005)

    def close(self) -> None:
        """Give everything back; kills what still lives in our groups."""
        _slots.sweep(self.slot)
        remove_tree(self.folder)
        os.close(self.slot.lock)


def _limits(kind: str, limits: Limits, spare_bytes: int, spare_processes: int) -> dict[str, str]:
    """Control file → value, for one hierarchy, in the order in which they must be written."""
    memory, processes = str(limits.memory_bytes + spare_bytes), str(limits.processes + spare_processes)
    return {
        "m": {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory},
        "p": {"pids.max": processes},
        "u": {"memory.max": memory, "memory.swap.max": "0", "pids.max": processes},
    }.get(kind, {})


def _removed(group: Path) -> bool:
    """Whether the group is gone; kills its members when it is not."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        with suppress(FileNotFoundError):
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        return False
    return True


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours, but never through a mount: launchers bind the host's own directories below it.

    Raises HouseError when something is still mounted there.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split(" ")[4]
        if point == str(folder) or point.startswith(f"{folder}/"):
            raise HouseError(FaultKind.UNKNOWN, f"expected nothing mounted below {folder}, found {point}: unmount it")
    shutil.rmtree(folder, ignore_errors=True)


def sweep_folders() -> int:
    """Remove the folders of grounds whose slot nobody holds any more; returns how many went."""
    gone = 0
    for folder in _slots.directory().glob("launch-*"):
        name = f"slot-{folder.name.removeprefix('launch-')}.lock"
        lock = os.open(folder.with_name(name), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
            gone += 1
        except BlockingIOError:
            continue  # somebody's, who lives
        finally:
            os.close(lock)
    return gone
