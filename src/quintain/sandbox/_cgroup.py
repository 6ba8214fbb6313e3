"""Where this process may make control groups: v1, v2 and hybrid hierarchies, found by reading, not by guessing."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

#: v1 controllers that a sandbox uses, and the letter under which the engine knows them.
V1_KINDS = {"memory": "m", "pids": "p", "cpu": "c", "cpuacct": "a"}
V2_NEEDED = ("memory", "pids", "cpu")
#: Where the processes of a v2 group go before it hands its controllers down: beside children with controllers the
#: kernel allows no process in the group itself (admin-guide/cgroup-v2.rst, "No Internal Process Constraint").
HOUSE = "quintain-house"
TRIES = 20


class Hierarchy(msgspec.Struct, frozen=True):
    """One mounted hierarchy: the letter of its kind ('u' for v2), its controllers that we use, our own group in it."""

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
            group = _outside(_below(point, root, own.get("", "/")))
            found = tuple(c for c in V2_NEEDED if c in _v2_controllers(group) and c not in seen)
            if not found:
                continue  # the empty tree of a hybrid host
            why = _v2_obstacle(group, found) if _holds(root, own.get("", "/")) else (
                f"the tree at {point} begins above this cgroup namespace: mount cgroup2 anew inside it")
            if why is None:
                usable.append(Hierarchy("u", found, group))
                seen.update(found, {"cpuacct"})
            why = why or f"{group} does not offer it: delegate the controller"
            missing.update(dict.fromkeys(V2_NEEDED, why))
    for controller in V1_KINDS:
        if controller not in seen and controller not in missing:
            missing[controller] = "no mounted hierarchy has this controller"
    return Survey(tuple(usable), {c: why for c, why in missing.items() if c not in seen})


def _holds(root: Path, own: str) -> bool:
    """Whether the mounted part of a hierarchy shows our own group; seen from a namespace, what is above is '/..'."""
    return Path(own).is_relative_to(root)


def _below(point: Path, root: Path, own: str) -> Path:
    return point / Path(own).relative_to(root) if _holds(root, own) else point


def _outside(group: Path) -> Path:
    """The group that we were in before an engine, ours or an ancestor's, emptied it."""
    return group.parent if group.name == HOUSE else group


def _v2_obstacle(group: Path, found: Sequence[str]) -> str | None:
    """Why no groups can be made there, or `None`. Without memory there is no use in it: the rest has rlimits."""
    if "memory" not in found:
        return f"{group} does not offer memory: delegate the controller"
    for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
        if not os.access(path, os.W_OK):
            return (f"{path} is not writable: run under `systemd-run --user --scope -p Delegate=yes`, or as root; in a "
                    "container, mount the tree of cgroups writable")
    return None


def _v2_controllers(group: Path) -> tuple[str, ...]:
    try:
        return tuple((group / "cgroup.controllers").read_text().split())
    except OSError:
        return ()


def prepare(hierarchy: Hierarchy, name: str) -> Path:
    """Make our directory in a hierarchy and hand the controllers down to it. Raises OSError."""
    directory = hierarchy.group / name
    if hierarchy.kind == "u":
        _hand_down(hierarchy.group, hierarchy.controllers)
    directory.mkdir(exist_ok=True)
    if hierarchy.kind == "u":
        _hand_down(directory, hierarchy.controllers)
    return directory


def _hand_down(group: Path, controllers: Sequence[str]) -> None:
    """Enable controllers for the children of a v2 group; processes of its own move to its child `HOUSE` first."""
    control = group / "cgroup.subtree_control"
    if set(controllers) <= set(control.read_text().split()):
        return
    root = not (group / "cgroup.events").exists()  # the hierarchy's real root may have both processes and children
    for left in reversed(range(TRIES)):
        if not root:
            _move_processes(group, group / HOUSE)
        try:
            control.write_text(" ".join(f"+{c}" for c in controllers))
            return
        except OSError as error:  # EBUSY: somebody forked meanwhile
            if error.errno != errno.EBUSY or not left:
                raise


def _move_processes(group: Path, house: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError, FileNotFoundError):  # it ended, or somebody swept the empty house
            house.mkdir(exist_ok=True)
            (house / "cgroup.procs").write_text(pid)


def leave(directory: Path) -> None:
    """Undo what `prepare` did beside our directory, where nobody needs it any more: a group that hands controllers down
    would let no process in again."""
    with suppress(OSError):
        (directory.parent / HOUSE).rmdir()
        control = directory.parent / "cgroup.subtree_control"
        control.write_text(" ".join(f"-{c}" for c in control.read_text().split() if c in V2_NEEDED))
