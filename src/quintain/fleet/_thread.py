"""One thread that owns a database connection, so that the event loop never waits for a disk or a lock."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from quintain.types import FaultKind, HouseError

_T = TypeVar("_T")

#: How long one process waits for another's transaction before it says that the file is locked.
BUSY_SECONDS = 60.0


def open_database(path: Path, *, power_safe: bool) -> sqlite3.Connection:
    """A connection in WAL mode, for the thread that calls this. Raises HouseError(STORE_ERROR)."""
    made: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256)
        made.execute("pragma journal_mode = wal")
        made.execute(f"pragma synchronous = {'full' if power_safe else 'normal'}")
        made.execute("pragma foreign_keys = on")
        made.execute("pragma wal_autocheckpoint = 4000")  # pages; each checkpoint waits for the disk
    except (OSError, sqlite3.Error) as error:
        if made is not None:
            made.close()
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot open: {error}") from error
    return made


class Thread:
    """Runs calls one after another in a thread of its own. Errors of the database come out as HouseError(STORE_ERROR)
    that names `where`."""

    def __init__(self, where: str, errors: tuple[type[Exception], ...]) -> None:
        self._where = where
        self._errors = errors
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="quintain-store")

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Raises HouseError(STORE_ERROR) after `close`."""
        try:
            return self._pool.submit(call)
        except RuntimeError:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._where}: closed already") from None

    async def run(self, call: Callable[[], _T], *, undo: Callable[[_T], object] | None = None) -> _T:
        """The result of a call. Where the caller is cancelled meanwhile, the call is finished still, and `undo` (in the
        same thread) is given what came of it."""
        future = self.submit(call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if undo is not None and not future.cancelled():
                undoing = undo
                self._pool.submit(lambda: undoing(future.result()))
            raise
        except self._errors as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._where}: {error}") from error

    async def aclose(self, last: Callable[[], object]) -> None:
        """Run one last call after all that were asked for, and end the thread; a second time does nothing."""
        try:
            future = self._pool.submit(last)
        except RuntimeError:
            return
        self._pool.shutdown(wait=False)
        await asyncio.wrap_future(future)
