"""What changed between two versions of a set of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from quintain.tasks.exam import Item
from quintain.tasks.taskset import Taskset
from quintain.types import TaskError

#: Digests of the rest: they differ whenever anything does.
_DIGESTS = ("version", "exam")
_SHOWN = 60


class Change(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    UNREADABLE = "unreadable"


class Difference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task that is not the same in both. `places` are the dotted names of what changed, each with its values or,
    for files, what became of them; of a task that cannot be read, why not. `before` and `after` are the versions."""

    task: str
    change: Change
    places: tuple[str, ...] = ()
    before: str = ""
    after: str = ""


def differences(one: Taskset, other: Taskset) -> Iterator[Difference]:
    """The tasks that differ, in the order of the first set and then of the second. A task whose version is the same is
    not looked into: same version, same task. Of one that cannot be read nobody knows, so it is told as well."""
    for id in dict.fromkeys((*one.ids, *other.ids)):
        before, after = _read(one, id), _read(other, id)
        known, now = (side.task.version if isinstance(side, Item) else "" for side in (before, after))
        broken = [f"{name} {side}" for name, side in (("before:", before), ("after:", after)) if isinstance(side, str)]
        if broken:
            yield Difference(task=id, change=Change.UNREADABLE, places=tuple(broken), before=known, after=now)
        elif after is None or before is None:
            change = Change.REMOVED if after is None else Change.ADDED
            yield Difference(task=id, change=change, before=known, after=now)
        elif isinstance(before, Item) and isinstance(after, Item) and before.task.version != after.task.version:
            yield Difference(task=id, change=Change.CHANGED, places=tuple(_places(before, after)), before=known,
                             after=now)


def _read(tasks: Taskset, id: str) -> Item | str | None:
    """The task, or why it cannot be read; None where there is none."""
    if id not in tasks:
        return None
    try:
        return tasks[id]
    except TaskError as error:
        return str(error)


def _places(before: Item, after: Item) -> Iterator[str]:
    for name in before.task.__struct_fields__:
        if name not in _DIGESTS:
            yield from _unlike(getattr(before.task, name), getattr(after.task, name), name)
    for name in before.exam.__struct_fields__:
        yield from _unlike(getattr(before.exam, name), getattr(after.exam, name), name)


def _unlike(before: object, after: object, name: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in after:
                yield f"{name}: {key} removed"
            elif key not in before:
                yield f"{name}: {key} added"
            elif before[key] != after[key]:
                yield f"{name}: {key} changed"
    elif isinstance(before, msgspec.Struct) and type(before) is type(after):
        for field in before.__struct_fields__:
            yield from _unlike(getattr(before, field), getattr(after, field), f"{name}.{field}")
    elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _unlike(one, other, f"{name}.{number}")
    else:
        yield f"{name}: {_shown(before)} → {_shown(after)}"


def _shown(value: object) -> str:
    if isinstance(value, dict | bytes):
        return "files" if isinstance(value, dict) else "other bytes"
    if isinstance(value, msgspec.Struct):
        return type(value).__name__
    if isinstance(value, tuple):
        return f"{len(value)} entries"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
