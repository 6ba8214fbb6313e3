"""The files of a sandbox as a user of the SDK reads, writes and watches them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Literal, overload

import msgspec

from quintain.sandbox.base import FileInfo, InteractiveFiles

READ_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
WATCH_DEPTH = 64


class Change(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    REMOVED = "removed"


class FileEvent(msgspec.Struct, frozen=True):
    """One change below a watched directory; `path` is absolute inside the sandbox."""

    change: Change
    path: str


class Watch:
    """What changed in a directory since the last asking, found by comparing two listings: a file that came and went in
    between, or changed twice, is seen once or not at all."""

    def __init__(self, files: InteractiveFiles, path: str, depth: int) -> None:
        self._files = files
        self._path = path
        self._depth = depth
        self._seen: dict[str, tuple[str, int, float | None]] = {}

    async def start(self) -> None:
        self._seen = await self._look()

    async def _look(self) -> dict[str, tuple[str, int, float | None]]:
        listed = await self._files.list(self._path, depth=self._depth)
        return {f.path: (f.kind, 0 if f.kind == "directory" else f.size_bytes, f.modified_seconds) for f in listed}

    async def get_new_events(self) -> list[FileEvent]:
        """In order of path. Raises FileNotFoundError when the directory itself is gone."""
        now, before = await self._look(), self._seen
        self._seen = now
        events = [FileEvent(Change.REMOVED, path) for path in before.keys() - now.keys()]
        for path, state in now.items():
            if path not in before:
                events.append(FileEvent(Change.CREATED, path))
            elif before[path] != state and state[0] != "directory":
                events.append(FileEvent(Change.MODIFIED, path))
        return sorted(events, key=lambda e: e.path)


class Filespace:
    """`sandbox.files`. Everything happens inside the walls with the program's own rights: no link leads out. Relative
    paths start at /work. Errors are the kernel's: FileNotFoundError, IsADirectoryError, PermissionError, OSError."""

    def __init__(self, files: InteractiveFiles) -> None:
        self._files = files

    @overload
    async def read(self, path: str, *, format: Literal["text"] = ...) -> str: ...
    @overload
    async def read(self, path: str, *, format: Literal["bytes"]) -> bytes: ...

    async def read(self, path: str, *, format: Literal["text", "bytes"] = "text") -> str | bytes:
        """The whole file, up to 64 MiB. As text it must be UTF-8 (UnicodeDecodeError); `stream` has no bound."""
        data = await self._files.read_piece(path, offset=0, size=READ_BYTES + 1)
        if len(data) > READ_BYTES:
            raise OSError(27, f"expected at most {READ_BYTES} bytes (use stream)", path)
        return data if format == "bytes" else data.decode()

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The file in pieces of 1 MiB."""
        offset = 0
        while True:
            data = await self._files.read_piece(path, offset=offset, size=PIECE_BYTES)
            if data:
                yield data
            if len(data) < PIECE_BYTES:
                return
            offset += len(data)

    async def write(self, path: str, data: str | bytes, *, mode: int = 0o644) -> None:
        """Replace or create a file, and the directories above it."""
        await self._files.write(path, data.encode() if isinstance(data, str) else data, mode=mode)

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        for path, data in files.items():
            await self.write(path, data)

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        return await self._files.list(path, depth=depth)

    async def exists(self, path: str) -> bool:
        return await self._files.exists(path)

    async def get_info(self, path: str) -> FileInfo:
        """Of the link itself, where it is one."""
        return await self._files.info(path)

    async def remove(self, path: str) -> None:
        """A file, or a directory with all that is in it."""
        await self._files.remove(path)

    async def rename(self, old_path: str, new_path: str) -> FileInfo:
        await self._files.rename(old_path, new_path)
        return await self._files.info(new_path)

    async def make_dir(self, path: str) -> bool:
        """Makes the directories above it too; False when it was there already."""
        there = await self._files.exists(path)
        await self._files.make_dir(path)
        return not there

    async def watch_dir(self, path: str, *, recursive: bool = False) -> Watch:
        """From now on `get_new_events` tells what has changed. It compares listings; nothing runs in between."""
        watch = Watch(self._files, path, WATCH_DEPTH if recursive else 1)
        await watch.start()
        return watch
