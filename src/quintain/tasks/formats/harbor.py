"""Harbor's task directory, which most of the field reads: read and written.

    org-task/
      task.toml       schema 1.0 to 1.4      environment/   Dockerfile and its context
      instruction.md  what is asked          tests/         test.sh, which writes /logs/verifier/reward.json or .txt
      solution/       solve.sh: the oracle   steps/NAME/    the same once more for each step of a task in steps

A directory that was read is written again as it was, file by file, unknown keys and all. Tasks of another origin are
written as a directory that judges them the same way, as far as Harbor can say it; what it cannot is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Item
from quintain.tasks.formats.harbor_config import parse_config
from quintain.tasks.formats.harbor_task import item_of, read_task
from quintain.tasks.formats.harbor_write import render
from quintain.tasks.formats.tree import read_tree, write_tree
from quintain.tasks.names import check_id
from quintain.tasks.notes import Note
from quintain.tasks.taskset import Taskset
from quintain.types import TaskError

#: What beside a task.toml tells a Harbor directory from our own.
_MARKS = ("instruction.md", "environment", "steps", "solution")


class HarborFormat:
    """Directories with task.toml and instruction.md; read and written."""

    name = "harbor"
    about = "a Harbor task directory (task.toml, instruction.md, tests/test.sh), or a folder of such directories"
    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and next(_harbor_folders(path), None) is not None

    def read(self, path: Path) -> Taskset:
        return Taskset(HarborTasks(path))

    def notes(self, path: Path) -> dict[str, tuple[Note, ...]]:
        """By task: what of its directory has no effect here. Raises TaskError as reading does."""
        return HarborTasks(path).notes()

    def write(self, items: Iterable[Item], path: Path) -> tuple[str, ...]:
        """One directory for each item, at its id below `path`. Raises TaskError for a suite that Harbor cannot run."""
        said: list[str] = []
        for item in items:
            id = check_id(item.task.id)
            tree, notes = render(item)
            target = path / id
            target.parent.mkdir(parents=True, exist_ok=True)
            write_tree(target, tree)
            said += [f"{id}: {note}" for note in notes]
        return tuple(said)


class HarborTasks:
    """The tasks of one directory, or of all directories below a folder. An id is the name in `[task]`, or where the
    directory lies below the folder."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = root

    def ids(self) -> Sequence[str]:
        return tuple(self._folders)

    def item(self, id: str) -> Item:
        folder = self._folders[id]
        return item_of(read_task(read_tree(folder, hidden=True)), default_id=id)

    def notes(self) -> dict[str, tuple[Note, ...]]:
        return {id: read_task(read_tree(folder, hidden=True)).notes for id, folder in self._folders.items()}

    @cached_property
    def _folders(self) -> dict[str, Path]:
        folders: dict[str, Path] = {}
        for folder in _harbor_folders(self._root):
            below = folder.relative_to(self._root).as_posix()
            default = self._root.resolve().name if below == "." else below
            id = _said_id(folder / "task.toml") or check_id(default, file=str(folder))
            if id in folders:
                raise TaskError(f"task id {id!r} is already used by {folders[id]}", file=str(folder / "task.toml"))
            folders[id] = folder
        if not folders:
            raise TaskError("expected a task.toml with an instruction.md beside it, in it or below it, found none",
                            file=self.name)
        return folders


def _harbor_folders(root: Path) -> Iterator[Path]:
    """The directories with a task.toml and one of the marks, sorted; none inside another, and no link is followed."""
    for folder, inner, files in os.walk(root):
        if "task.toml" in files:
            script = Path(folder, "tests", "test.sh").exists()
            if script or any(mark in files or mark in inner for mark in _MARKS):
                yield Path(folder)
            inner.clear()
        inner[:] = sorted(name for name in inner if not name.startswith("."))


def _said_id(file: Path) -> str | None:
    """The name in a task.toml, if it says one. One that cannot be read is refused when its task is asked for, so that
    it does not spoil the others."""
    try:
        table = parse_config(file.read_bytes(), str(file)).config.task
        return check_id(table.name) if table else None
    except (OSError, TaskError):
        return None
