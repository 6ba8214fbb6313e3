"""A stack of layers seen as the one tree that a sandbox will see, without mounting anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from quintain.sandbox.image.words import ImageError

OPAQUE = "user.overlay.opaque"
MOST_LINKS = 40

Parts = tuple[str, ...]


class Found(NamedTuple):
    """Where a name lies: the layer's own path of it, and what it is there."""

    path: Path
    status: os.stat_result

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


def split(name: str) -> Parts:
    """The parts of a path below the root; `..` never leads above it. Raises ImageError for a NUL."""
    if "\0" in name:
        raise ImageError(f"expected a name without NUL, found {name!r}")
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(path: str | Path) -> bool:
    try:
        return os.getxattr(path, OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


class Stack:
    """Layers, lowest first, as overlayfs would show them; below them the parts of the host's own root that are shared.
    Nobody else may write to the layers meanwhile."""

    def __init__(self, layers: Sequence[str | Path], host: Sequence[Parts] = ()) -> None:
        self._layers = [Path(layer) for layer in layers]
        self._host = host

    def find(self, parts: Parts) -> Found | None:
        """The topmost entry with exactly this name, no link followed; `None` where there is none."""
        for layer in reversed(self._layers):
            found, hidden = _find_in(layer, parts)
            if found is not None or hidden:
                return found
        if any(parts[: len(part)] == part for part in self._host):
            return _find_in(Path("/"), parts)[0]
        return None

    def resolve(self, parts: Parts, *, last: bool = True) -> Parts:
        """The name with every link on the way followed, inside the root; parts that do not exist stay as they are.
        `last`: also follow a link in the last place. Raises ImageError after 40 links."""
        done: list[str] = []
        todo = list(parts)
        links = 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                del done[-1:]
                continue
            found = self.find((*done, part))
            if found is None or not found.is_link or not (todo or last):
                done.append(part)
                continue
            links += 1
            if links > MOST_LINKS:
                raise ImageError(f"expected at most {MOST_LINKS} links on the way to /{'/'.join(parts)}, found more")
            target = os.readlink(found.path)
            if target.startswith("/"):
                done = []
            todo = [p for p in target.split("/") if p not in ("", ".")] + todo
        return tuple(done)


def _find_in(layer: Path, parts: Parts) -> tuple[Found | None, bool]:
    """What one layer has under a name, and whether it hides what lower layers have there."""
    path, opaque = str(layer), False
    for i, part in enumerate(parts):
        path = f"{path}/{part}"
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None, opaque
        if is_whiteout(status):
            return None, True
        if i + 1 < len(parts):
            if not stat.S_ISDIR(status.st_mode):
                return None, True
            opaque = opaque or is_opaque(path)
        else:
            return Found(Path(path), status), True
    return Found(layer, os.lstat(layer)), True
