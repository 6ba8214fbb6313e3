"""A file of lines that never grows beyond its bound: when it is full it is put aside, and the oldest is forgotten."""

from __future__ import annotations

import os
from pathlib import Path


class Lines:
    """PATH, PATH.1, … up to `files` of `bytes_each`. Where the disk fails, lines are lost and counted in `lost`: what
    watches must not end what it watches. One process writes."""

    def __init__(self, path: Path, *, bytes_each: int = 32 * 1024 * 1024, files: int = 4) -> None:
        if bytes_each < 1 or files < 1:
            raise ValueError(f"expected at least 1 byte and 1 file, found {bytes_each} and {files}")
        self._path = path
        self._bytes_each = bytes_each
        self._files = files
        self._file: int | None = None
        self._size = 0
        self.lost = 0

    def write(self, line: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(line) > self._bytes_each:
                self._rotate()
            assert self._file is not None
            self._size += os.write(self._file, line)
        except OSError:
            self.lost += 1
            self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        self.close()
        for nth in range(self._files - 1, 0, -1):
            older = self._named(nth - 1)
            if older.exists():
                os.replace(older, self._named(nth))
        if self._files == 1:
            self._path.unlink(missing_ok=True)
        self._open()

    def _named(self, nth: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{nth}") if nth else self._path
