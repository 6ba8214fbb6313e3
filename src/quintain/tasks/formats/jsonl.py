"""Our own items as rows: one JSON object a line that holds a task and its exam whole, bytes in base64.

Whatever can be an item can be written, and reads back as the same item with the same version. For keeping a chosen set
in one file, and for handing one to another machine; a person writes task directories instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Item
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.names import check_id
from quintain.tasks.taskset import Taskset
from quintain.types import TaskError, content_digest


class ItemRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`format` says what the row is, so that a later one can be told from it."""

    format: Literal["quintain-item-1"] = "quintain-item-1"
    item: Item


class JsonlFormat:
    """Rows of whole items; read and written without loss."""

    name = "jsonl"
    about = "JSONL rows with format and item, as `quintain tasks convert --to jsonl` writes them"
    sets: tuple[PublicSet, ...] = ()
    one_file = True

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "format", "item")

    def read(self, path: Path) -> Taskset:
        return Taskset(RowSource(path, ItemRow, name=str(path), id_of=lambda row: row.item.task.id, build=_checked))

    def write(self, items: Iterable[Item], path: Path) -> tuple[str, ...]:
        """One row for each item, in a file that appears whole or not at all. Raises TaskError for a file that exists
        and for an id that comes twice."""
        if path.exists():
            raise TaskError("expected a place where nothing is yet: a file is never written over", file=str(path))
        encoder = msgspec.json.Encoder(order="deterministic")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
        seen: set[str] = set()
        try:
            with partial.open("wb") as file:
                for item in items:
                    if check_id(item.task.id) in seen:
                        message = f"task ids must be unique, found more than once: {item.task.id}"
                        raise TaskError(message, file=str(path))
                    seen.add(item.task.id)
                    file.write(encoder.encode(ItemRow(item=item)) + b"\n")
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
        return ()


def _checked(row: ItemRow) -> Item:
    """Raises ValueError for a row whose digests are not those of its content."""
    task, exam = row.item.task, row.item.exam
    if task.exam != exam.digest:
        raise ValueError(f"task.exam is {task.exam[:16]}..., its exam has {exam.digest[:16]}...: it was changed")
    version = content_digest(msgspec.structs.replace(task, version=""))
    if task.version != version:
        raise ValueError(f"task.version is {task.version[:16]}..., its content has {version[:16]}...: it was changed")
    return row.item
