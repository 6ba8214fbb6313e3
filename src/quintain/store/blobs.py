"""Content-addressed bytes on the local disk."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from quintain.types import FaultKind, HouseError

_CHUNK_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class LocalBlobs:
    """Blobs as files `root/ab/cdef…`, named by their sha256 and by nothing else: no name that a program chose ever
    becomes a file name here, so none can collide, escape, or differ only in case.

    Written beside and renamed, so a reader never sees half a blob; verified whenever it is read. With `sync` each new
    blob is flushed to the disk before it is named. Safe for many threads and processes at once.
    """

    def __init__(self, root: Path, *, sync: bool = False) -> None:
        self._root = root
        self._sync = sync

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        if self._is_whole(path, content):
            return digest
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(path, content)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot write a blob of {len(content)} bytes: {error}")
        return digest

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: expected a blob, found nothing")
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot read the blob: {error}")
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: expected content of sha256 {digest}, found {found}")
        return content

    def put_file(self, path: Path) -> str:
        """Keep what a file holds, in bounded memory."""
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                place = self._path(digest)
                if place.is_file() and place.stat().st_size == stream.tell():
                    with place.open("rb") as kept:
                        if hashlib.file_digest(kept, "sha256").hexdigest() == digest:
                            return digest
                stream.seek(0)
                place.parent.mkdir(parents=True, exist_ok=True)
                _place(stream, place, digest, sync=self._sync)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot keep the file: {error}")
        return digest

    def get_file(self, digest: str, path: Path) -> None:
        """Write the content to `path`, whole and verified, or not at all."""
        try:
            with self._path(digest).open("rb") as stream:
                _place(stream, path, digest, sync=self._sync)
        except FileNotFoundError:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._path(digest)}: expected a blob, found nothing")
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot write the blob: {error}")

    def has(self, digest: str) -> bool:
        return self._path(digest).is_file()

    def delete(self, digest: str) -> None:
        """Remove one blob; one that is not there is gone already."""
        try:
            self._path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{digest}: cannot delete the blob: {error}")

    def digests(self) -> Iterator[str]:
        """What is kept, sorted."""
        for path in sorted(self._root.glob("[0-9a-f][0-9a-f]/*")):
            digest = path.parent.name + path.name
            if _DIGEST.fullmatch(digest):
                yield digest

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise HouseError(FaultKind.STORE_ERROR, f"expected a sha256 of 64 hex digits, found {digest!r}")
        return self._root / digest[:2] / digest[2:]

    def _is_whole(self, path: Path, content: bytes) -> bool:
        """Whether exactly these bytes lie there: a damaged blob is written anew by the next `put` of it."""
        try:
            return path.stat().st_size == len(content) and path.read_bytes() == content
        except OSError:
            return False

    def _write(self, path: Path, content: bytes) -> None:
        descriptor, draft = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                if self._sync:
                    stream.flush()
                    os.fsync(stream.fileno())
            os.replace(draft, path)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
        if self._sync:
            _sync_folder(path.parent)


def _place(stream: IO[bytes], path: Path, digest: str, *, sync: bool) -> None:
    """Copy a stream to a file by way of one beside it. Raises HouseError when its content is not of that digest."""
    descriptor, draft = tempfile.mkstemp(prefix=".", dir=path.parent)
    found = hashlib.sha256()
    try:
        with os.fdopen(descriptor, "wb") as out:
            while chunk := stream.read(_CHUNK_BYTES):
                found.update(chunk)
                out.write(chunk)
            if found.hexdigest() != digest:
                what = f"expected content of sha256 {digest}, found {found.hexdigest()}"
                raise HouseError(FaultKind.STORE_ERROR, f"{stream.name}: {what}")
            if sync:
                out.flush()
                os.fsync(out.fileno())
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
