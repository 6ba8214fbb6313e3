"""Small files that several processes keep together: read whole, replaced whole, set aside where damaged."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from quintain.types import FaultKind, HouseError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_BYTES = 16 * 1024 * 1024


def read_file(path: Path, kind: type[_T], empty: _T) -> _T:
    """What a file holds; `empty` where there is none. One that cannot be read as such is moved to PATH.damaged and told
    of in the log: a watch that cannot start again for a torn file would be worse than one that has forgotten. Raises
    HouseError(STORE_ERROR) where the disk fails."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES + 1)
    except FileNotFoundError:
        return empty
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot be read: {error.strerror}") from None
    try:
        if len(content) > _BYTES:
            raise ValueError(f"more than {_BYTES} bytes")
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        aside = path.with_name(path.name + ".damaged")
        with suppress(FileNotFoundError):
            os.replace(path, aside)
        _log.error("%s is damaged (%s): kept as %s, begun anew", path, error, aside.name)
        return empty


def write_file(path: Path, value: object) -> None:
    """Whole or not at all. Raises HouseError(STORE_ERROR)."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(value))
        os.replace(draft, path)
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While the block runs no other process has the lock of this file. The block must be short."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot be locked: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file is replaced; `None` where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
