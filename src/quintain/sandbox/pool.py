"""Sandboxes made before they are asked for: a hot pool over any backend.

A sandbox is handed out once and then destroyed; nothing of one tenant reaches the next. The pool parks between `floor`
and `ceiling` sandboxes: it grows with the demand it has just seen and shrinks only after a while (hysteresis).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from types import TracebackType

import msgspec

from quintain.sandbox.base import DEFAULT_LIMITS, Backend, Sandbox
from quintain.types import HouseError, Limits, Network

IDLE_SECONDS = 30.0  # how long demand must stay low before the pool shrinks
CHECK_SECONDS = 20.0  # how long a sandbox may stay parked without showing that it lives
BATCH = 16
SETTLE_SECONDS = 0.004  # how long nobody must have asked before the pool fills up: making one disturbs who was served


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the pool opened, and what is parked and in use now."""

    parked: int
    in_use: int
    hot: int
    cold: int
    replaced: int
    target: int


class _Parked(msgspec.Struct):
    sandbox: Sandbox
    stack: AsyncExitStack
    checked_at: float


class _Acquired:
    """A sandbox of a pool in its caller's hands; what `asynccontextmanager` would make of it, for less."""

    def __init__(self, take: Callable[[], Awaitable[_Parked]], give_back: Callable[[_Parked], None]) -> None:
        self._take, self._give_back = take, give_back
        self._item: _Parked | None = None

    async def __aenter__(self) -> Sandbox:
        if self._item is not None:
            raise RuntimeError("expected one use of an acquired sandbox, found a second")
        self._item = await self._take()
        return self._item.sandbox

    async def __aexit__(self, *exc: object) -> None:
        assert self._item is not None
        self._give_back(self._item)


class Pool:
    """Use as `async with Pool(backend, sandboxes=N) as pool`, then `async with pool.acquire() as sandbox`.

    `sandboxes` is how many may be alive at once; `floor` (kept ready always) and `ceiling` (ready at most) follow from
    it unless given. Acquiring waits when `sandboxes` are alive. Raises HouseError when the backend cannot make one.
    """

    def __init__(
        self, backend: Backend, *, sandboxes: int, image: str = "host", limits: Limits = DEFAULT_LIMITS,
        network: Network = Network.NONE, floor: int | None = None, ceiling: int | None = None,
    ) -> None:
        if sandboxes < 1:
            raise ValueError(f"expected at least 1 sandbox, found {sandboxes}")
        self._backend, self._image, self._limits, self._network = backend, image, limits, network
        self.floor = min(4, sandboxes) if floor is None else floor
        self.ceiling = max(self.floor, min(sandboxes, 256)) if ceiling is None else ceiling
        if not 0 <= self.floor <= self.ceiling <= sandboxes:
            raise ValueError(
                f"expected 0 <= floor <= ceiling <= sandboxes, found {self.floor}, {self.ceiling}, {sandboxes}"
            )
        self._room = asyncio.Semaphore(sandboxes)
        self._parked: deque[_Parked] = deque()
        self._target = self.floor
        self._demand_at = self._asked_at = 0.0
        self._in_use = self._hot = self._cold = self._replaced = 0
        self._wake = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._closing = False

    async def __aenter__(self) -> Pool:
        await self._tasks.__aenter__()
        self._keeper = self._tasks.create_task(self._keep_ready())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._keeper.cancel()
        while self._parked:
            self._destroy(self._parked.popleft())
        await self._tasks.__aexit__(kind, error, trace)

    @property
    def statistics(self) -> Statistics:
        return Statistics(
            parked=len(self._parked), in_use=self._in_use, hot=self._hot, cold=self._cold, replaced=self._replaced,
            target=self._target,
        )

    def acquire(self) -> AbstractAsyncContextManager[Sandbox]:
        """One fresh sandbox: parked if there is one, made on the spot if not. Destroyed behind the caller's back."""
        return _Acquired(self._take, self._give_back)

    async def _take(self) -> _Parked:
        if self._closing:
            raise RuntimeError("expected an open pool, found one that is closing")
        if self._parked:
            item = self._parked.popleft()
            self._hot += 1
        else:
            await self._room.acquire()
            item = (await self._make(1))[0]
            self._cold += 1
        self._in_use += 1
        self._demand_at = self._asked_at = time.monotonic()
        self._target = min(self.ceiling, max(self._target, self._in_use + self.floor))
        self._wake.set()
        return item

    def _give_back(self, item: _Parked) -> None:
        self._in_use -= 1
        self._destroy(item)

    async def _make(self, count: int) -> list[_Parked]:
        """`count` sandboxes for which room is held already; gives the room back when they cannot be made."""
        made: list[_Parked] = []
        try:
            for _ in range(count):
                stack = AsyncExitStack()
                opening = self._backend.open(self._image, limits=self._limits, network=self._network)
                [sandbox] = await stack.enter_async_context(opening)
                made.append(_Parked(sandbox, stack, time.monotonic()))
        except BaseException:
            for _ in range(count - len(made)):
                self._room.release()
            for item in made:
                self._destroy(item)
            raise
        return made

    def _destroy(self, item: _Parked) -> None:
        self._tasks.create_task(self._end(item))

    async def _end(self, item: _Parked) -> None:
        try:
            with suppress(HouseError):  # gone is gone: nobody is left to be told
                await item.stack.aclose()
        finally:
            self._room.release()
            self._wake.set()

    async def _keep_ready(self) -> None:
        pause = 0.0
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await asyncio.sleep(pause)
            if time.monotonic() - self._demand_at > IDLE_SECONDS:
                self._target = max(self.floor, self._target // 2)
                self._demand_at = time.monotonic()
            while len(self._parked) > self._target:
                self._destroy(self._parked.popleft())
            try:
                await self._refill()
                await self._check()
                pause = 0.0
            except HouseError:  # an acquirer will meet it too, and tell its caller; here: try again, ever more slowly
                pause = min(5.0, pause * 2 + 0.05)
                self._wake.set()

    async def _refill(self) -> None:
        """Up to the target; without hurry while half of the floor is there: who has just been served runs alone."""
        while len(self._parked) < self._target and not self._room.locked():
            quiet = time.monotonic() - self._asked_at
            if len(self._parked) > self.floor // 2 and quiet < SETTLE_SECONDS:
                await asyncio.sleep(SETTLE_SECONDS - quiet)
                continue
            await self._room.acquire()
            self._parked.extend(await self._make(1))

    async def _check(self) -> None:
        """Replace parked sandboxes that no longer answer."""
        now = time.monotonic()
        for item in [p for p in self._parked if now - p.checked_at > CHECK_SECONDS][:BATCH]:
            try:
                async with asyncio.timeout(2.0):
                    await item.sandbox.files.exists("/work")
                item.checked_at = now
            except (HouseError, TimeoutError):
                if item in self._parked:
                    self._parked.remove(item)
                    self._replaced += 1
                    self._destroy(item)
