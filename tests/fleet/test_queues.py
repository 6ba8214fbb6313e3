"""Every queue keeps to one contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from quintain.fleet import NatsServer
from quintain.testing import QUEUE_CHECKS, QueueOpener
from tests.fleet.servers import in_files, in_memory, nats_running, on_server

each_check = pytest.mark.parametrize("check", QUEUE_CHECKS, ids=lambda check: check.__name__)
Check = Callable[[QueueOpener], Awaitable[None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_running(tmp_path_factory.mktemp("nats")) as server:
        yield server


@each_check
def test_memory(check: Check) -> None:
    asyncio.run(check(in_memory()))


@each_check
def test_sqlite(check: Check, tmp_path: Path) -> None:
    asyncio.run(check(in_files(tmp_path)))


@each_check
def test_nats(check: Check, server: NatsServer) -> None:
    asyncio.run(check(on_server(server)))
