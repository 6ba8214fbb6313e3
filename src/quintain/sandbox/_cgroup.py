"""Where this process may make control groups: v1, v2 and hybrid hierarchies, found by reading, not by guessing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from quintain.sandbox._wire import NOT_MEASURED

#: v1 controllers that a sandbox uses, and the letter under which the engine knows them.
V1_KINDS = {"memory": "m", "pids": "p", "cpu": "c", "cpuacct": "a"}
V2_NEEDED = ("memory", "pids", "cpu")


class Hierarchy(msgspec.Struct, frozen=True):
    """One mounted hierarchy: the letter of its kind ('u' for v2), its controllers, and our own group in it."""

    kind: str
    controllers: tuple[str, ...]
    group: Path


class Survey(msgspec.Struct, frozen=True):
    """What was found: the hierarchies that can be used, and what is missing with the reason."""

    usable: tuple[Hierarchy, ...]
    missing: dict[str, str]


def _mounts(proc: Path) -> Iterator[tuple[str, Path, Path, set[str]]]:
    """(type, mount point, root within the hierarchy, super options) of every cgroup mount."""
    for line in (proc / "self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = left.split(" ")
            yield kind, Path(_unescape(fields[4])), Path(_unescape(fields[3])), set(options.split(","))


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _own_groups(proc: Path) -> dict[str, str]:
    """Controller (or '' for v2) → our path in that hierarchy."""
    groups = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def survey(proc: Path = Path("/proc")) -> Survey:
    """Read /proc and say where groups can be made. Writes nothing."""
    usable: list[Hierarchy] = []
    missing: dict[str, str] = {}
    own = _own_groups(proc)
    seen: set[str] = set()
    for kind, point, root, options in _mounts(proc):
        if kind == "cgroup":
            for controller in sorted(options & set(V1_KINDS) - seen):
                group = _below(point, root, own.get(controller, "/"))
                if os.access(group, os.W_OK):
                    usable.append(Hierarchy(V1_KINDS[controller], (controller,), group))
                    seen.add(controller)
                else:
                    missing[controller] = f"{group} is not writable: run as root, or have it delegated to this user"
        else:
            group = _below(point, root, own.get("", "/"))
            found = _v2_controllers(group)
            if not set(V2_NEEDED) & set(found):
                continue  # the empty tree of a hybrid host
            absent = [c for c in V2_NEEDED if c not in found]
            if absent:
                missing.update(dict.fromkeys(absent, f"{group} does not offer it: delegate the controller"))
            elif os.access(group, os.W_OK):
                usable.append(Hierarchy("u", found, group))
                seen.update(V2_NEEDED, {"cpuacct"})
            else:
                why = f"{group} is not writable: run under `systemd-run --user --scope -p Delegate=yes`, or as root"
                missing.update(dict.fromkeys(V2_NEEDED, why))
    for controller in V1_KINDS:
        if controller not in seen and controller not in missing:
            missing[controller] = "no mounted hierarchy has this controller"
    return Survey(tuple(usable), {c: why for c, why in missing.items() if c not in seen})


def _below(point: Path, root: Path, own: str) -> Path:
    try:
        return point / Path(own).relative_to(root)
    except ValueError:
        return point


def _v2_controllers(group: Path) -> tuple[str, ...]:
    try:
        return tuple((group / "cgroup.controllers").read_text().split())
    except OSError:
        return ()


def prepare(hierarchy: Hierarchy, name: str) -> Path:
    """Make our directory in a hierarchy and hand the controllers down to it. Raises OSError."""
    directory = hierarchy.group / name
    if hierarchy.kind == "u":
        _hand_down(hierarchy.group)
    directory.mkdir(exist_ok=True)
    if hierarchy.kind == "u":
        _hand_down(directory)
    return directory


def _hand_down(group: Path) -> None:
    """Enable our controllers for the children of a v2 group; one with processes of its own is emptied first."""
    control = group / "cgroup.subtree_control"
    wanted = " ".join(f"+{c}" for c in V2_NEEDED)
    try:
        control.write_text(wanted)
    except OSError:
        house = group / "quintain-house"
        house.mkdir(exist_ok=True)
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (house / "cgroup.procs").write_text(pid)
        control.write_text(wanted)


class Usage(msgspec.Struct, frozen=True):
    """Readings of one sandbox's groups; `None` = not measured."""

    oom_kills: int | None = None
    peak_memory_bytes: int | None = None
    cpu_seconds: float | None = None
    peak_processes: int | None = None


class Gauge:
    """Reads the groups of one sandbox from outside while it lives. Paths are joined once: every command reads them."""

    def __init__(self, directories: dict[str, Path], group: str) -> None:
        at = {kind: f"{directory}/{group}/" for kind, directory in directories.items()}
        memory, unified, processes = at.get("m"), at.get("u"), at.get("p")
        self._oom = unified + "memory.events" if unified else memory + "memory.oom_control" if memory else None
        self._reset = memory + "memory.max_usage_in_bytes" if memory else None
        self._peak = unified + "memory.peak" if unified else self._reset
        self._processes = (unified or processes or "") + "pids.peak" if unified or processes else None
        self._oom_seen = 0
        self._fresh = True

    def begin(self) -> None:
        """Begin a new measurement of peak memory, where the kernel can (v1)."""
        if self._reset is not None and not self._fresh:
            with suppress(OSError):
                fd = os.open(self._reset, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, b"0")
                finally:
                    os.close(fd)
        self._fresh = False

    def read(self) -> Usage:
        """Readings since `begin`; `oom_kills` counts only those since the last reading."""
        total = _number(self._oom, b"oom_kill")
        kills = None if total is None else total - self._oom_seen
        self._oom_seen = total or self._oom_seen
        return Usage(kills, _number(self._peak), None, _number(self._processes))

    @property
    def oom_seen(self) -> int:
        return self._oom_seen


def _number(path: str | None, key: bytes | None = None) -> int | None:
    if path is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    if key is None:
        return int(text) if text.strip().isdigit() else None
    for line in text.splitlines():
        name, _, value = line.partition(b" ")
        if name == key:
            return int(value)
    return None


def measured(value: int) -> int | None:
    """The engine's word for a number that it could not read."""
    return None if value == NOT_MEASURED else value
