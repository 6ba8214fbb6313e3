"""A hot pool hands out each sandbox once, keeps some ready, and never makes more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from quintain.sandbox import DEFAULT_LIMITS, NativeBackend, Pool, Sandbox
from quintain.types import FaultKind, HouseError, Limits, Network


class Counting:
    """A backend that counts what it has open; wraps the native one."""

    name = "counting"

    def __init__(self, inner: NativeBackend, *, failures: int = 0) -> None:
        self.inner = inner
        self.alive = self.most = self.made = 0
        self.failures = failures

    def probe(self) -> object:
        return self.inner.probe()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        **more: object,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    @asynccontextmanager
    async def _open(
        self, image: str, limits: Limits, count: int, network: Network
    ) -> AsyncIterator[Sequence[Sandbox]]:
        if self.failures:
            self.failures -= 1
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "planned")
        self.alive += count
        self.made += count
        self.most = max(self.most, self.alive)
        try:
            async with self.inner.open(image, limits=limits, count=count, network=network) as boxes:
                yield boxes
        finally:
            self.alive -= count


async def until(condition: object, within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - a pool tells nobody when it has refilled
            await asyncio.sleep(0.01)


def test_a_sandbox_is_used_once_and_the_next_tenant_sees_nothing() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as backend, Pool(backend, sandboxes=4, floor=2, ceiling=2) as pool:
            seen = []
            for _ in range(4):
                async with pool.acquire() as box:
                    seen.append(box.id)
                    found = await box.run(["sh", "-c", "find /work /tmp /dev/shm -mindepth 1; pgrep -c sleep"])
                    assert found.text.split() == ["0"], found
                    await box.run(["sh", "-c", "echo mark > /tmp/mark; echo mark > /work/mark; (setsid sleep 60 &)"])
            assert len(set(seen)) == 4

    asyncio.run(main())


def test_the_pool_parks_its_floor_and_grows_with_demand() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as inner:
            backend = Counting(inner)
            async with Pool(backend, sandboxes=8, floor=1, ceiling=4) as pool:  # type: ignore[arg-type]
                await until(lambda: pool.statistics.parked == 1)
                async with pool.acquire(), pool.acquire(), pool.acquire():
                    await until(lambda: pool.statistics.parked == 4)
                assert pool.statistics.target == 4
                assert pool.statistics.hot + pool.statistics.cold == 3
            assert backend.alive == 0

    asyncio.run(main())


def test_never_more_than_the_dial_are_alive_and_waiting_ends() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as inner:
            backend = Counting(inner)
            done = 0

            async def use(pool: Pool) -> None:
                nonlocal done
                async with pool.acquire() as box:
                    await box.run(["true"])
                    done += 1

            async with (
                Pool(backend, sandboxes=3, floor=1, ceiling=2) as pool,  # type: ignore[arg-type]
                asyncio.timeout(30), asyncio.TaskGroup() as group,
            ):
                for _ in range(20):
                    group.create_task(use(pool))
            assert done == 20
            assert backend.most <= 3
            assert backend.alive == 0

    asyncio.run(main())


def test_a_backend_that_fails_for_a_while_does_not_stop_the_pool() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as inner:
            backend = Counting(inner, failures=3)
            async with Pool(backend, sandboxes=4, floor=2, ceiling=2) as pool:  # type: ignore[arg-type]
                await until(lambda: pool.statistics.parked == 2)
                async with pool.acquire() as box:
                    assert (await box.run(["echo", "fine"])).text == "fine\n"

    asyncio.run(main())


def test_a_parked_sandbox_that_died_is_replaced_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from quintain.sandbox import pool as room

    monkeypatch.setattr(room, "CHECK_SECONDS", 0.2)

    async def main() -> None:
        async with NativeBackend(engines=1) as backend, Pool(backend, sandboxes=4, floor=1, ceiling=1) as pool:
            await until(lambda: pool.statistics.parked == 1)
            os.kill(pool._parked[0].sandbox.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            await until(lambda: pool.statistics.replaced == 1)
            async with pool.acquire() as box:
                assert (await box.run(["true"])).exit_code == 0

    asyncio.run(main())


@pytest.mark.parametrize(("sandboxes", "floor", "ceiling"), [(0, None, None), (2, 3, None), (4, 3, 2), (2, 1, 3)])
def test_a_dial_that_contradicts_itself_is_refused(sandboxes: int, floor: int | None, ceiling: int | None) -> None:
    with pytest.raises(ValueError, match="expected"):
        Pool(NativeBackend(), sandboxes=sandboxes, floor=floor, ceiling=ceiling)
