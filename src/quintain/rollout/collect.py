"""Many episodes at once: tasks in, groups out, and never more in hand than was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

from quintain.env import Environment
from quintain.policy import Policy
from quintain.rollout.driver import Driver, Patience
from quintain.rollout.group import Siblings, Ticket, masked, tickets
from quintain.rollout.line import Clearance, Clears, Line
from quintain.tasks import Item
from quintain.types import Event, Group, HouseError, TaskError


class Collector:
    """Plays `size` episodes of each task and gives out each group when it is complete.

    `append` keeps an event (`Journal.append`); `past` tells what is known of an episode (`Journal.read`), so a run that
    was cut short is finished with no episode lost or doubled. `watch` is called with each new event once it is kept;
    it must be quick. `concurrency` episodes run at once, and as many finished groups may wait for their consumer: a
    slow consumer slows the collection down.

    `admits` is asked by task id before each episode and again when a group is given out: of a task that it does not
    admit (any more) nothing is begun, and what was begun before comes out with masked rewards. `clears` is asked before
    each episode whether it may begin now; what may not waits behind the others, and is not lost.
    """

    def __init__(
        self, environment: Environment, append: Callable[[Event], None], *, seed: int = 0, concurrency: int = 8,
        past: Callable[[str], Iterable[Event]] = lambda episode: (), watch: Callable[[Event], None] | None = None,
        patience: Patience | None = None, admits: Callable[[str], bool] = lambda task: True,
        clears: Clears = lambda item: Clearance.GO,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, found {concurrency}")
        self._environment = environment
        self._append = append
        self._seed = seed
        self._concurrency = concurrency
        self._past = past
        self._watch = watch
        self._patience = patience
        self._admits = admits
        self._clears = clears

    @asynccontextmanager
    async def collecting(
        self, items: Iterable[Item], policy: Policy, *, size: int, round: int = 0,
    ) -> AsyncIterator[AsyncIterator[Group]]:
        """`async with collector.collecting(items, policy, size=8) as groups: async for group in groups: …`

        Leaving the block ends whatever still runs, within the driver's teardown deadline. Raises what `append` or
        `items` raise, and TaskError for a task id that comes twice.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, found {size}")
        work = _siblings(items, size=size, seed=self._seed, round=round)
        driver = Driver(self._environment, policy, self._keep, patience=self._patience)
        ready: asyncio.Queue[Group | None] = asyncio.Queue(maxsize=self._concurrency)
        try:
            async with asyncio.TaskGroup() as children:
                crew = children.create_task(self._crew(driver, work, ready))
                try:
                    yield self._drain(ready)
                finally:
                    crew.cancel()
        except BaseExceptionGroup as errors:
            raise _cause(errors) from None

    async def collect(
        self, items: Iterable[Item], policy: Policy, *, size: int, round: int = 0,
    ) -> AsyncIterator[Group]:
        """The same as a plain iterator. Where you may leave the loop early, use `collecting`, or `aclosing` this."""
        async with self.collecting(items, policy, size=size, round=round) as groups:
            async for group in groups:
                try:
                    yield group
                except GeneratorExit:  # told to stop: the block below us cannot carry that one
                    break

    async def _crew(
        self, driver: Driver, work: Iterator[tuple[Ticket, Siblings]], ready: asyncio.Queue[Group | None],
    ) -> None:
        line = Line(work, self._clears)
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._concurrency):
                workers.create_task(self._work(driver, line, ready))
        await ready.put(None)

    async def _work(
        self, driver: Driver, line: Line, ready: asyncio.Queue[Group | None],
    ) -> None:
        while (entry := await line.next()) is not None:  # one line for all: each takes the next
            ticket, siblings = entry
            if self._admits(ticket.item.task.id):
                episode = await driver.play(ticket, tuple(self._past(ticket.episode)))
                group = siblings.add(episode)
            else:
                group = siblings.withdraw(ticket)
                await asyncio.sleep(0)  # a long row of such tasks must not hold up the episodes that are played
            line.done(entry)
            if group is not None:
                await ready.put(group)

    async def _drain(self, ready: asyncio.Queue[Group | None]) -> AsyncIterator[Group]:
        while (group := await ready.get()) is not None:
            yield group if self._admits(group.task) else masked(group)

    def _keep(self, event: Event) -> None:
        self._append(event)
        if self._watch is not None:
            self._watch(event)


def _siblings(
    items: Iterable[Item], *, size: int, seed: int, round: int,
) -> Iterator[tuple[Ticket, Siblings]]:
    seen: set[str] = set()
    for item in items:
        if item.task.id in seen:
            raise TaskError(f"expected each task once, found {item.task.id!r} twice")
        seen.add(item.task.id)
        members = tickets(item, size=size, seed=seed, round=round)
        siblings = Siblings(members)
        yield from ((ticket, siblings) for ticket in members)


def _cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that matters: the house's or a task's if there is one, else the first."""
    known = errors.subgroup((HouseError, TaskError))
    leaf: BaseException = known or errors
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    return leaf
