"""Tasks from one format into another, with a list of everything that did not come along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from quintain.tasks.base import WritableFormat
from quintain.tasks.exam import Item
from quintain.tasks.formats import known_formats
from quintain.tasks.formats.harbor_write import notes_of
from quintain.tasks.taskset import Taskset
from quintain.types import TaskError


class Converted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`written` are the ids that are there now; `notes` what was kept without a meaning, changed or lost ('ID: what');
    `refused` the tasks that are not there, and why."""

    format: str
    written: tuple[str, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def convert(tasks: Taskset, path: Path, *, format: str) -> Converted:
    """Write tasks in another format. A task that cannot be read, or that the format cannot say, is refused by itself;
    the others are written. Raises TaskError for a format that cannot be written and for a place that is taken."""
    formats = known_formats()
    chosen = formats.get(format)
    if not isinstance(chosen, WritableFormat):
        writable = ", ".join(sorted(name for name, found in formats.items() if isinstance(found, WritableFormat)))
        raise TaskError(f"expected a format that can be written ({writable}), found {format!r}")
    written: list[str] = []
    notes: list[str] = []
    refused: list[str] = []

    def readable() -> Iterator[Item]:
        for id in tasks.ids:
            try:
                item = tasks[id]
            except TaskError as error:
                refused.append(f"{id}: {error}")
            else:
                notes.extend(f"{id}: {note}" for note in notes_of(item))
                yield item

    if getattr(chosen, "one_file", False):
        notes += chosen.write(_counted(readable(), written), path)
        return Converted(format=format, written=tuple(written), notes=tuple(notes), refused=tuple(refused))
    if path.exists() and not path.is_dir():
        raise TaskError("expected a folder, or a place where nothing is yet", file=str(path))
    for item in readable():
        id = item.task.id
        try:
            _refuse_nested(id, written)
            notes += chosen.write([item], path)
        except TaskError as error:
            refused.append(f"{id}: {error}")
        else:
            written.append(id)
    return Converted(format=format, written=tuple(written), notes=tuple(notes), refused=tuple(refused))


def _counted(items: Iterator[Item], written: list[str]) -> Iterator[Item]:
    for item in items:
        written.append(item.task.id)
        yield item


def _refuse_nested(id: str, written: list[str]) -> None:
    for other in written:
        if other.startswith(f"{id}/") or id.startswith(f"{other}/"):
            raise TaskError(f"a task cannot lie inside another: {id!r} and {other!r}")
