"""How a process that we started is ended, and how long we wait to be told to."""

from __future__ import annotations

import asyncio


async def end_process(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """SIGTERM, and SIGKILL for what has not ended after so many seconds. Whether it ended without."""
    if process.returncode is not None:
        return True
    process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return True


async def told_within(told: asyncio.Event, seconds: float) -> None:
    """Until it is told, or so long."""
    try:
        async with asyncio.timeout(seconds):
            await told.wait()
    except TimeoutError:
        pass
