"""Every queue keeps to one contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quintain.fleet import MemoryQueue, Queue, SqliteQueue, Terms
from quintain.testing import QUEUE_CHECKS, QueueOpener


def in_memory() -> QueueOpener:
    queues: dict[str, MemoryQueue] = {}

    @asynccontextmanager
    async def open(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        yield queues.setdefault(name, MemoryQueue(terms))

    return open


def in_files(folder: Path) -> QueueOpener:
    @asynccontextmanager
    async def open(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        queue = await SqliteQueue.open(folder / f"{name}.db", terms)
        try:
            yield queue
        finally:
            await queue.aclose()

    return open


@pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
def test_memory(check: Callable[[QueueOpener], Awaitable[None]]) -> None:
    asyncio.run(check(in_memory()))


@pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
def test_sqlite(check: Callable[[QueueOpener], Awaitable[None]], tmp_path: Path) -> None:
    asyncio.run(check(in_files(tmp_path)))
