"""What keeps bytes, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Blobs(Protocol):
    """Bytes by the sha256 of their content: the same bytes are kept once, and nothing can be overwritten.

    A digest is 64 lower-case hex digits. Raises HouseError(STORE_ERROR) for a digest that is none, for bytes that are
    not there, and for bytes that are no longer what they were.
    """

    def put(self, content: bytes) -> str: ...
    def get(self, digest: str) -> bytes: ...
    def delete(self, digest: str) -> None: ...
    def has(self, digest: str) -> bool: ...
    def digests(self) -> Iterator[str]: ...


class FileBlobs(Blobs, Protocol):
    """Blobs that also take and give whole files, in bounded memory whatever their size.

    `get_file` leaves `path` as it was unless all of the content was right.
    """

    def put_file(self, path: Path) -> str: ...
    def get_file(self, digest: str, path: Path) -> None: ...
