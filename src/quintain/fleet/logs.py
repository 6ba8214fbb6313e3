"""The journals of episodes that may change hands: a file for each, so that whoever goes on finds all that was done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from quintain.store import Journal, LocalBlobs, Mode
from quintain.types import Event


class EpisodeLogs:
    """A folder of journals and their blobs, shared by the workers of one host. Whoever opens an episode's journal is
    alone with it until it is closed, or its process dies (a lock of the kernel's): a worker that lost its lease and
    does not know it yet cannot be written over, nor write over another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "episodes"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._blobs = LocalBlobs(folder / "blobs")

    def open(self, episode: str) -> Journal:
        """To go on with it. Raises HouseError(STORE_ERROR) while another process has it."""
        return Journal(self._path(episode), self._blobs, mode=Mode.WRITE)

    def read(self, episode: str) -> Sequence[Event]:
        """All that is known of an episode; nothing for one that never began."""
        path = self._path(episode)
        if not path.exists():
            return ()
        with Journal(path, self._blobs) as journal:
            return tuple(journal.read(episode))

    def _path(self, episode: str) -> Path:
        name = hashlib.sha256(episode.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        return self._folder / f"{name}.jsonl"
