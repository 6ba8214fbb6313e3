"""What ends a process whose event loop hangs: a worker that cannot beat its leases must not go on as if it could."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

#: How a process ends whose event loop stood still.
STALLED = 70
_LOOKS = 4  # in the time that is allowed


def _leave() -> None:
    faulthandler.dump_traceback(file=sys.stderr)
    os._exit(STALLED)  # no tidying: nothing here can be relied on, and what we held will be handed out again


@asynccontextmanager
async def watchdog(seconds: float, *, bark: Callable[[], object] = _leave) -> AsyncIterator[None]:
    """While the block runs, a thread looks whether the event loop turns. When it has not for `seconds`, it shows on
    stderr where every thread is, and ends the process with exit code STALLED. `bark` is done instead, where given."""
    seen = [time.monotonic()]
    over = threading.Event()

    def look() -> None:
        while not over.wait(seconds / _LOOKS):
            if time.monotonic() - seen[0] > seconds:
                bark()
                return

    async def turn() -> None:
        while True:
            seen[0] = time.monotonic()
            await asyncio.sleep(seconds / _LOOKS)

    async with asyncio.TaskGroup() as group:
        turning = group.create_task(turn())
        thread = threading.Thread(target=look, name="quintain-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            turning.cancel()
