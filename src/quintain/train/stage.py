"""Where episodes are played for a trainer that knows no asyncio: a private event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from quintain.policy import Policy
from quintain.tasks import Item
from quintain.types import Episode, Group

T = TypeVar("T")


class Player(Protocol):
    """Who plays episodes: `rollout.Collector` is one."""

    def collecting(
        self, items: Iterable[Item], policy: Policy, *, size: int, round: int = 0,
    ) -> AbstractAsyncContextManager[AsyncIterator[Group]]: ...


class Stage:
    """`with Stage(opened) as stage: stage.play(items, policy)`, from any thread.

    `opened` makes the async context that gives the player, with the sandboxes and the environment below it; it is
    entered once, in the loop's thread, and left when the block ends. Raises what `opened` raises.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Player]]) -> None:
        self._opened = opened
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready: concurrent.futures.Future[Player] = concurrent.futures.Future()
        self._over: asyncio.Event | None = None
        self._rounds = 0
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("expected a stage that was not opened yet: a stage lives once")
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="quintain-stage", daemon=True)
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._over is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)
        if self._thread is not None:
            self._thread.join()

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._opened() as player:
                self._ready.set_result(player)
                await self._over.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    @property
    def player(self) -> Player:
        """Use it in the stage's loop only, by `start` or `do`."""
        return self._ready.result(timeout=0)

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin something in the loop. Raises RuntimeError for a stage that is not open."""
        if self._loop is None or self._over is None or self._over.is_set():
            work.close()
            raise RuntimeError("expected an open stage: use it inside `with Stage(...) as stage:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and wait; an interrupt here cancels it there."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def round(self) -> int:
        """A number that was not given before: episodes of another round have other names and seeds."""
        with self._counting:
            self._rounds += 1
            return self._rounds

    def play(self, items_B: Sequence[Item], policy: Policy, *, round: int | None = None) -> list[Episode]:
        """One episode for each item, all at once as far as the player goes, in the order of the items; an item that is
        there several times is one group. Raises ValueError where the player gives fewer episodes than were asked."""
        return self.do(self.playing(items_B, policy, round=round))

    async def playing(self, items_B: Sequence[Item], policy: Policy, *, round: int | None = None) -> list[Episode]:
        """The same within the loop."""
        counts = Counter(item.task.id for item in items_B)
        by_size: dict[int, dict[str, Item]] = {}
        for item in items_B:
            by_size.setdefault(counts[item.task.id], {})[item.task.id] = item
        nth, found = self.round() if round is None else round, dict[str, list[Episode]]()

        async def collect(size: int, items: Iterable[Item]) -> None:
            async with self.player.collecting(items, policy, size=size, round=nth) as groups:
                async for group in groups:
                    found[group.task] = list(group.episodes)

        async with asyncio.TaskGroup() as crew:
            for size, items in by_size.items():
                crew.create_task(collect(size, list(items.values())))
        lacking = {task: count for task, count in counts.items() if len(found.get(task, ())) < count}
        if lacking:
            raise ValueError(f"expected so many episodes of each task, found fewer (was one suspended?): {lacking}")
        return [found[item.task.id].pop(0) for item in items_B]
