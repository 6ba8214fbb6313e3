"""What is evaluated on is never trained on: tasks known by their content, whatever they are called.

Covers: a task that was renamed, tagged, given other limits or another image is the same task; so are texts that differ
in white space and case. Does not cover: a task that was rephrased, or asks for the same function in other words
(`quintain admit --held-out` looks for those by likeness).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from quintain.types import Task, TaskError, content_digest


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks by their content: digest → the id that it had. `name` says what they are listed for, and `why` in which
    way: they are evaluated on, or trained on."""

    name: str
    why: str
    contents: dict[str, str]


def content_of(task: Task) -> str:
    """A digest of what is asked: the kind, the instructions (white space and case aside), the files, and where the
    answer goes."""
    words = " ".join(task.instructions.casefold().split())
    return content_digest((task.kind, words, task.files, task.entry))


def listed(tasks: Iterable[Task], *, name: str, why: str) -> Listed:
    """The list of some tasks."""
    return Listed(name=name, why=why, contents={content_of(task): task.id for task in tasks})


def in_both(tasks: Iterable[Task], other: Listed) -> list[tuple[str, str]]:
    """(id here, id there) of each task that is on the list."""
    found = ((task.id, other.contents.get(content_of(task))) for task in tasks)
    return [(here, there) for here, there in found if there is not None]


def read_list(path: Path) -> Listed:
    """Raises TaskError for a file that is no such list."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Listed)
    except (OSError, msgspec.MsgspecError) as error:
        raise TaskError(f"expected a list of tasks, as quintain eval and quintain train write it: {error}",
                        file=str(path)) from None


def write_list(path: Path, tasks: Listed) -> None:
    """Write it whole or not at all; what the file listed before stays on it. Raises TaskError for a file that is
    something else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = read_list(path).contents if path.exists() else {}
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(
            msgspec.structs.replace(tasks, contents={**before, **tasks.contents}))))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
