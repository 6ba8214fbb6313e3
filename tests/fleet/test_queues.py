"""Every queue keeps to one contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quintain.fleet import Job, Lease, MemoryQueue, NatsServer, Queue, Terms
from quintain.testing import QUEUE_CHECKS, QueueOpener, check_queue
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


class Unfenced(MemoryQueue):
    """Believes whoever says that it is at work."""

    async def extend(self, leases: Sequence[Lease[Job]]) -> tuple[Lease[Job], ...]:
        return tuple(leases)


def test_the_kit_accepts_ours_and_names_what_another_gets_wrong() -> None:
    asyncio.run(check_queue(in_memory()))
    queues: dict[str, Unfenced] = {}

    @asynccontextmanager
    async def unfenced(name: str, terms: Terms | None) -> AsyncIterator[Queue]:
        yield queues.setdefault(name, Unfenced(terms))

    with pytest.raises(AssertionError, match=r"a_lease_that_ran_out.*extend of a lease that another has"):
        asyncio.run(check_queue(unfenced))
