"""Teardown that a cancellation cannot cut short, and that cannot take for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

_T = TypeVar("_T")

#: How long work that was told to stop may take to do so before it is left behind.
GRACE_SECONDS = 1.0


async def settle(work: Coroutine[object, object, _T], *, within: float) -> _T:
    """Let `work` end within `within` seconds, whatever happens to its caller meanwhile.

    A cancellation of the caller waits until the work has ended and is raised then. Raises TimeoutError when the work
    was not done in time: it is cancelled, given GRACE_SECONDS, and then left behind.
    """
    loop = asyncio.get_running_loop()
    # The one task that is born outside a TaskGroup: a group's children are cancelled with their parent, and not to be
    # is the purpose here. It has an owner (this call) and a deadline.
    task = loop.create_task(work)
    cancelled = await _wait(task, loop.time() + within)
    if not task.done():
        task.cancel()
        cancelled = await _wait(task, loop.time() + GRACE_SECONDS) or cancelled
        if cancelled:
            raise asyncio.CancelledError
        raise TimeoutError(f"expected it to settle within {within:g} s")
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen: the cancellation goes first
        raise asyncio.CancelledError
    return task.result()


async def _wait(task: asyncio.Task[_T], until: float) -> bool:
    """Wait for a task until a loop time; whether we were cancelled meanwhile."""
    cancelled = False
    loop = asyncio.get_running_loop()
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
