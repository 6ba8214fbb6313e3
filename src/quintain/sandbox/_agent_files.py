"""The files of one sandbox, served from within by its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from quintain.sandbox import _wire
from quintain.sandbox._agent import Agent
from quintain.sandbox._wire import A
from quintain.sandbox.base import FileInfo

WRITE_BYTES = 8 * 1024 * 1024  # one request's worth; larger files are appended piece by piece
_KINDS = {"f": "file", "d": "directory", "l": "symlink", "o": "other"}


class NativeFiles:
    """The files of one native sandbox, served from within."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def read(self, path: str, *, max_bytes: int = 16 * 1024 * 1024) -> bytes:
        return (await self._agent.ask(A.READ, path, number=max_bytes))[0]

    async def read_piece(self, path: str, *, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` on; shorter only at the file's end."""
        pieces: list[bytes] = []
        while size > 0:
            want = min(size, _wire.PIECE_BYTES)
            data, _ = await self._agent.ask(A.READ_AT, path, number=offset, content=_wire.NUMBER.pack(want))
            pieces.append(data)
            offset, size = offset + len(data), size - len(data)
            if len(data) < want:
                break
        return b"".join(pieces)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._agent.ask(A.WRITE, path, number=mode, content=content[:WRITE_BYTES])
        for at in range(WRITE_BYTES, len(content), WRITE_BYTES):
            piece = content[at : at + WRITE_BYTES]
            await self._agent.ask(A.WRITE, path, number=mode | _wire.WRITE_APPEND, content=piece)

    async def info(self, path: str) -> FileInfo:
        return _entries((await self._agent.ask(A.STAT, _absolute(path)))[0])[0]

    async def rename(self, path: str, to: str) -> None:
        if "\0" in to or not to:
            raise ValueError(f"expected a path without NUL characters, found {to!r}")
        await self._agent.ask(A.RENAME, path, content=to.encode("utf-8", "surrogateescape") + b"\0")

    async def write_many(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            await self.write(path, content)

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        return _entries((await self._agent.ask(A.LIST, _absolute(path), number=depth))[0])

    async def exists(self, path: str) -> bool:
        try:
            await self._agent.ask(A.STAT, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def remove(self, path: str) -> None:
        await self._agent.ask(A.REMOVE, path)

    async def make_dir(self, path: str) -> None:
        await self._agent.ask(A.MKDIR, path)


def _absolute(path: str) -> str:
    """Without './', which a listing would repeat; '..' stays for the kernel."""
    return str(PurePosixPath("/work", path)) if path else path


def _entries(data: bytes) -> list[FileInfo]:
    found, at = [], 0
    while at < len(data):
        kind, mode, size, modified = _wire.ENTRY.unpack_from(data, at)
        stop = data.index(b"\0", at + _wire.ENTRY.size)
        path = data[at + _wire.ENTRY.size : stop].decode("utf-8", "surrogateescape")
        found.append(FileInfo(
            path=path, kind=_KINDS[chr(kind)], size_bytes=size, mode=mode, modified_seconds=modified / 1e9
        ))
        at = stop + 1
    return found
