"""Directories that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def published(place: Path) -> Iterator[Path | None]:
    """A draft directory that becomes `place` when the block ends well; `None` when `place` is there already. Two that
    make the same place at once both succeed: the later draft is thrown away."""
    if place.is_dir():
        yield None
        return
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        draft.chmod(0o755)
        yield draft
        try:
            os.rename(draft, place)
        except OSError:
            if not place.is_dir():
                raise
    finally:
        if draft.exists():
            remove(draft)


def remove(tree: Path) -> None:
    """Remove a tree whatever its modes are (a user's own read-only directories included)."""
    for folder, names, _ in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                os.chmod(path, 0o700)
    shutil.rmtree(tree)
