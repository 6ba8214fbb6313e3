"""Who owns which users and groups on this host: one locked file for each running engine.

A lock dies with its holder, whatever killed it; so a slot that can be locked is nobody's, and what is left under its
name may be swept. Nothing here trusts a process id. The file tells where the groups of its holder are: on a v2 host
they lie in whatever group it was started in, which the next may have no other way to know.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from quintain.sandbox import _cgroup
from quintain.types import FaultKind, HouseError

FIRST_UID = 0x7000_0000  # far above people, services and the usual sub-uid ranges
UIDS_PER_SLOT = 65_536
SLOTS = 512


def directory() -> Path:
    """Where the locks live; made on first use."""
    if os.geteuid() == 0:
        path = Path("/run/quintain")
    else:
        base = os.environ.get("XDG_RUNTIME_DIR")
        path = Path(base) / "quintain" if base else Path(f"/tmp/quintain-{os.geteuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise HouseError(
            FaultKind.SANDBOX_CREATE_FAILED, f"expected {path} to belong to user {os.geteuid()}, found {found.st_uid}"
        )
    return path


class Slot(msgspec.Struct, frozen=True):
    """A held slot: keep `lock` open (and pass it to the engine) for as long as it is used."""

    number: int
    lock: int

    @property
    def name(self) -> str:
        return f"quintain-{os.geteuid()}-{self.number}"

    @property
    def uid_base(self) -> int:
        return FIRST_UID + self.number * UIDS_PER_SLOT


def _try_lock(number: int) -> Slot | None:
    fd = os.open(directory() / f"slot-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return Slot(number, fd)


def _try_lock_patiently(number: int) -> Slot | None:
    """A killed engine holds its lock until the kernel has buried the last of its processes."""
    for _ in range(20):
        slot = _try_lock(number)
        if slot is not None:
            return slot
        time.sleep(0.02)
    return None


def take() -> Slot:
    """The first free slot, swept clean. Raises HouseError when all are held."""
    for number in range(SLOTS):
        slot = _try_lock(number)
        if slot is None:
            continue
        try:
            sweep(slot)
        except HouseError:  # what lies there cannot be killed yet; it shall not keep us from the next
            os.close(slot.lock)
            continue
        return slot
    raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"expected one of {SLOTS} engine slots to be free, found none")


def make_groups(slot: Slot) -> dict[str, Path]:
    """Our directory in every hierarchy that can be used: kind → path. Raises HouseError."""
    found = _cgroup.survey().usable
    _remember(slot, [h.group / slot.name for h in found])
    try:
        return {h.kind: _cgroup.prepare(h, slot.name) for h in found}
    except OSError as error:
        raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"expected to make control groups: {error}") from None


def _remember(slot: Slot, groups: list[Path]) -> None:
    os.ftruncate(slot.lock, 0)
    os.pwrite(slot.lock, "".join(f"{path}\n" for path in groups).encode(), 0)


def _groups(slot: Slot) -> Iterator[Path]:
    """Where directories of ours may be that bear the slot's name: where its last holder made them, where we would."""
    told = os.pread(slot.lock, 1 << 16, 0).decode(errors="replace").splitlines()
    here = [hierarchy.group / slot.name for hierarchy in _cgroup.survey().usable]
    for path in dict.fromkeys([*map(Path, told), *here]):
        if path.name == slot.name:
            yield path


def sweep(slot: Slot) -> int:
    """Kill and remove whatever a dead engine left under this slot; returns how many things went."""
    gone = 0
    deadline = time.monotonic() + 4.0
    for parent in _groups(slot):
        for group in [*(p for p in parent.iterdir() if p.is_dir()), parent] if parent.is_dir() else []:
            gone += _empty(group, deadline)
        _cgroup.leave(parent)
    return gone


def _empty(group: Path, deadline: float) -> int:
    while True:
        with suppress(OSError):
            if (group / "cgroup.kill").exists():  # v2: all at once, and no fork escapes
                (group / "cgroup.kill").write_text("1")
            for pid in (group / "cgroup.procs").read_text().split():
                if int(pid) > 1:
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
        try:
            group.rmdir()
            return 1
        except FileNotFoundError:
            return 0
        except OSError:
            if time.monotonic() > deadline:
                raise HouseError(FaultKind.UNKNOWN, f"expected {group} to be empty within 4 s, it is not") from None
            time.sleep(0.01)


class Sweep(msgspec.Struct, frozen=True):
    """What a cleaning found: slots still in use, and how many leftovers went."""

    in_use: int
    removed: int


def clean() -> Sweep:
    """Sweep every slot that no living engine holds (`quintain doctor --clean`)."""
    in_use = removed = 0
    for path in sorted(directory().glob("slot-*.lock")):
        number = path.stem.removeprefix("slot-")
        slot = _try_lock_patiently(int(number)) if number.isdigit() else None
        if slot is None:
            in_use += 1
            continue
        removed += sweep(slot)
        os.close(slot.lock)
    return Sweep(in_use, removed)
