"""A task's directory as one value: every file below it, read and written without ever leaving it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from quintain.tasks.names import check_paths
from quintain.types import TaskError

#: A task is held in memory whole, so its directory has a bound.
MAX_TREE_BYTES = 256 * 1024 * 1024

#: What running tests leaves behind: no part of any task.
_LEFTOVERS = ("__pycache__", ".pytest_cache")


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """`files` maps paths relative to the task to their content; `folders` are all folders, empty ones included;
    `executable` the files that their owner may execute. `name` is where it came from, for error messages."""

    name: str
    files: dict[str, bytes]
    folders: frozenset[str] = frozenset()
    executable: frozenset[str] = frozenset()

    def below(self, folder: str) -> dict[str, bytes] | None:
        """The files in a folder, relative to it; None when there is no such folder."""
        inside = {path[len(folder) + 1:]: c for path, c in self.files.items() if path.startswith(folder + "/")}
        return inside if inside or folder in self.folders else None

    def children(self, folder: str) -> list[str]:
        """The names directly in a folder ('' for the top), sorted."""
        prefix = folder + "/" if folder else ""
        below = (path[len(prefix):] for path in (*self.files, *self.folders) if path.startswith(prefix))
        return sorted({path.split("/")[0] for path in below})

    def error(self, message: str, file: str, line: int | None = None) -> TaskError:
        return TaskError(message, file=f"{self.name}/{file}" if file else self.name, line=line)


def read_tree(root: Path, *, hidden: bool = False) -> Tree:
    """Everything below `root` except `__pycache__`, `.pytest_cache`, `*.pyc`, and (unless `hidden`) names at the top
    that begin with '.'; `.git` at the top is never read.

    Covers: a link to a file is read when it leads to a file inside `root`; a link that leads out or to a folder, a
    device, pipe or socket, and a name that is no UTF-8 are refused with TaskError; so is more than 256 MiB.
    Does not cover: someone who changes the directory while it is read.
    """
    files: dict[str, bytes] = {}
    folders: set[str] = set()
    executable: set[str] = set()
    left = MAX_TREE_BYTES
    for path, entry in _walk(root, "", root.resolve(), hidden):
        if entry.is_dir(follow_symlinks=False):
            folders.add(path)
            continue
        left -= entry.stat().st_size
        if left < 0:
            raise TaskError(f"expected at most {MAX_TREE_BYTES} bytes in a task", file=str(root))
        try:
            files[path] = Path(entry.path).read_bytes()
        except OSError as error:
            raise TaskError(f"cannot be read: {error.strerror}", file=entry.path) from error
        if entry.stat().st_mode & stat.S_IXUSR:
            executable.add(path)
    return Tree(name=str(root), files=files, folders=frozenset(folders), executable=frozenset(executable))


def _walk(folder: Path, prefix: str, root: Path, hidden: bool) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise TaskError(f"cannot be read: {error.strerror}", file=str(folder)) from error
    for entry in found:
        path = prefix + entry.name
        if is_leftover(path) or path == ".git" or (not (prefix or hidden) and entry.name.startswith(".")):
            continue
        _refuse_unfit(entry, root)
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), path + "/", root, hidden)


def _refuse_unfit(entry: os.DirEntry[str], root: Path) -> None:
    place = entry.path.encode(errors="backslashreplace").decode()
    try:
        entry.name.encode()
    except UnicodeEncodeError as error:
        raise TaskError("expected a file name in UTF-8", file=place) from error
    if entry.is_symlink():
        target = os.readlink(entry.path)
        inside = Path(os.path.realpath(entry.path)).is_relative_to(root)
        if not inside or not os.path.isfile(entry.path):  # a circle of links is none
            raise TaskError(f"expected a link to a file inside the task, found a link to {target!r}", file=place)
    elif not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
        kind = stat.filemode(entry.stat(follow_symlinks=False).st_mode)
        raise TaskError(f"expected a file or folder, found a special file ({kind})", file=place)


def is_leftover(path: str) -> bool:
    parts = path.split("/")
    return path.endswith(".pyc") or any(part in _LEFTOVERS for part in parts)


def write_tree(root: Path, tree: Tree) -> None:
    """Write a tree to a folder that does not exist yet; it appears whole or not at all. Raises TaskError for a path
    that cannot be written as it stands, OSError as the kernel said it."""
    check_paths(tree.files, name=tree.name)
    if leftovers := [path for path in tree.files if is_leftover(path)]:
        raise TaskError(f"caches are no part of a task, found {leftovers[0]!r}", file=tree.name)
    if root.exists():
        raise TaskError("expected a place where nothing is yet: a task is never written over", file=str(root))
    partial = root.with_name(f".{root.name}.partial-{os.getpid()}")
    for folder in ("", *sorted(tree.folders)):
        (partial / folder).mkdir(parents=True, exist_ok=True)
    for path, content in tree.files.items():
        (partial / path).parent.mkdir(parents=True, exist_ok=True)
        (partial / path).write_bytes(content)
        if path in tree.executable:
            (partial / path).chmod(0o755)
    partial.rename(root)
