"""A run that worker processes play: their work is ordered, watched, and gathered into the run's journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

import click
import msgspec

from quintain.cli.addresses import queue_of, register_of
from quintain.cli.engine import Keep
from quintain.cli.output import plain
from quintain.fleet import (
    EpisodeLogs,
    Full,
    Guard,
    Queue,
    Register,
    State,
    Terms,
    heed,
    open_queue,
    order,
)
from quintain.policy import Policy
from quintain.rollout import Siblings, Ticket, masked, tickets
from quintain.store import Run, Standing, standing
from quintain.tasks import Item
from quintain.types import (
    Broke,
    Closed,
    Episode,
    Event,
    Fault,
    FaultKind,
    Group,
    HouseError,
    Opened,
    Owner,
    Stop,
    fold,
)

_LOOK_SECONDS = 0.5
_LEASE_SECONDS = 10.0  # how long what a killed worker held stands still
_OVERLAP_SECONDS = 60.0  # what may have been written down late, by a clock that is not ours
_WITHDRAWN = "withdrawn: its task is not asked any more"

class Gathering:
    """Does by workers what a `rollout.Collector` does itself, for the same consumers: tasks in, groups out. Made by
    `crewed`. An episode is seen when it has ended, within a second; `admits` is asked again all the while: of a task
    that is not admitted any more, what nobody has begun is withdrawn, and what runs ends and comes out masked."""

    def __init__(
        self, run: Run, register: Register, queue: Queue, *, watch: Callable[[Event], None],
        admits: Callable[[str], bool],
    ) -> None:
        self._run = run
        self._logs = EpisodeLogs(run.path)
        self._register = register
        self._queue = queue
        self._watch = watch
        self._admits = admits
        self._since = 0.0
        self._seen: set[str] = set()

    @property
    def queue(self) -> Queue:
        return self._queue

    @asynccontextmanager
    async def collecting(
        self, items: Iterable[Item], policy: Policy, *, size: int, round: int = 0,
    ) -> AsyncIterator[AsyncIterator[Group]]:
        """See `Collector.collecting`. The policy is the workers' own."""
        yield self._collected(items, size=size, round=round)

    async def _collected(self, items: Iterable[Item], *, size: int, round: int) -> AsyncIterator[Group]:
        await self._take_in()  # what was settled while nobody gathered
        open_: dict[str, tuple[Ticket, Siblings]] = {}
        for item in items:
            members = tickets(item, size=size, seed=self._run.definition.seed, round=round)
            siblings = Siblings(members)
            group: Group | None = None
            for ticket in members:
                log = tuple(self._run.journal.read(ticket.episode))
                if standing(log) is Standing.FINISHED:
                    group = siblings.add(fold(log))
                elif self._admits(item.task.id):
                    open_[ticket.episode] = (ticket, siblings)
                else:
                    group = siblings.withdraw(ticket)
            if group is not None:
                yield self._fit(group)
            await self._ask([ticket for ticket in members if ticket.episode in open_])
        while open_:
            for group in [group async for group in self._ended(open_)]:
                yield self._fit(group)
            await self._withdraw(open_)
            if open_:
                await asyncio.sleep(_LOOK_SECONDS)

    def _fit(self, group: Group) -> Group:
        return group if self._admits(group.task) else masked(group)

    async def _ask(self, wanted: list[Ticket]) -> None:
        """Enrol and put what is to be played. What the house broke, or gave up, is tried again."""
        jobs = [order(ticket) for ticket in wanted]
        for ticket in wanted:
            self._bring(ticket)
            if await self._register.reopen(ticket.episode):
                await self._queue.revive([ticket.episode])
                self._seen.discard(ticket.episode)
        await self._register.enrol(jobs)
        with suppress(Full):  # what has no room now is put by those who keep the workers, when there is
            await self._queue.put(jobs)

    def _bring(self, ticket: Ticket) -> None:
        """What the run knows of an episode that was begun without workers, for the worker that goes on with it."""
        known = tuple(self._run.journal.read(ticket.episode))
        if len(self._logs.read(ticket.episode)) < len(known):
            with self._logs.open(ticket.episode) as log:
                for event in known[len(tuple(log.read(ticket.episode))):]:
                    log.append(event)

    async def _ended(self, open_: dict[str, tuple[Ticket, Siblings]]) -> AsyncIterator[Group]:
        """The groups that what has ended since the last look makes complete."""
        for id in await self._take_in():
            found = open_.pop(id, None)
            if found is None:
                continue
            ticket, siblings = found
            episode = await self._episode(ticket)
            group = siblings.add(episode) if episode is not None else siblings.withdraw(ticket)
            if group is not None:
                yield group

    async def _take_in(self) -> list[str]:
        """Append the events of episodes that have ended to the run's journal; the ids of those that are new."""
        found = []
        for id, seconds in await self._register.closed(since_seconds=self._since):
            self._since = max(self._since, seconds - _OVERLAP_SECONDS)
            if id in self._seen:
                continue
            self._seen.add(id)
            found.append(id)
            for event in await self._news(id):
                self._run.journal.append(event)
                self._watch(event)
            await asyncio.sleep(0)
        return found

    async def _news(self, id: str) -> Sequence[Event]:
        """What the run's journal does not have of an episode that has ended. Where its worker's log cannot be read from
        here, it was handed in with the result."""
        known = tuple(self._run.journal.read(id))
        sent = await self._register.log(id)
        if sent is None:
            log = self._logs.read(id)
            return log[len(known):] if log[:len(known)] == known else unheard(known, log)
        return unheard(known, msgspec.json.decode(sent, type=tuple[Event, ...]))

    async def _episode(self, ticket: Ticket) -> Episode | None:
        """What came of it; `None` where it was withdrawn before it began. What was given up ends in the journal too, by
        the house or by its task, so that it counts, says why, and is tried again when the run is resumed."""
        entry = await self._register.entry(ticket.episode)
        if entry is not None and entry.state is State.ABANDONED and entry.reason != _WITHDRAWN:
            click.echo(f"given up: {plain(ticket.episode)}: {plain(entry.reason, limit=500)}", err=True)
            known = tuple(self._run.journal.read(ticket.episode))
            for event in given_up(ticket, known, entry.reason, policy=self._run.definition.policy, now=time.time()):
                self._run.journal.append(event)
                self._watch(event)
        log = tuple(self._run.journal.read(ticket.episode))
        return fold(log) if log else None

    async def _withdraw(self, open_: dict[str, tuple[Ticket, Siblings]]) -> None:
        barred = {task for task in {ticket.item.task.id for ticket, _ in open_.values()} if not self._admits(task)}
        for id in [id for id, (ticket, _) in open_.items() if ticket.item.task.id in barred]:
            await self._register.withdraw(id, _WITHDRAWN)


def unheard(known: Sequence[Event], sent: Sequence[Event]) -> Sequence[Event]:
    """What of an episode's log that was kept elsewhere comes behind what is known here, its events numbered on. Mostly
    that is all of it, or what follows the part that was taken in when this process was killed."""
    def unnumbered(events: Sequence[Event]) -> list[Event]:
        return [msgspec.structs.replace(event, index=0) for event in events]

    old, new = unnumbered(known), unnumbered(sent)
    shared = next(n for n in range(min(len(old), len(new)), -1, -1) if old[len(old) - n:] == new[:n])
    return [msgspec.structs.replace(event, index=len(known) + nth) for nth, event in enumerate(sent[shared:])]


def given_up(
    ticket: Ticket, known: Sequence[Event], reason: str, *, policy: str, now: float,
) -> Sequence[Event]:
    """The events that end an episode which was given up, behind those that are known of it; none where it has ended."""
    if known and isinstance(known[-1], Closed):
        return ()
    id, task = ticket.episode, ticket.item.task
    is_tasks = reason.startswith("task:")
    fault = Fault(owner=Owner.TASK if is_tasks else Owner.HOUSE, message=reason,
                  kind=FaultKind.TASK_INVALID if is_tasks else FaultKind.UNKNOWN)
    found: list[Event] = []
    at = known[-1].at_seconds if known else 0.0
    if not known:
        found.append(Opened(
            episode=id, index=0, at_seconds=0.0, task=task.id, task_version=task.version, kind=task.kind,
            group=ticket.group, attempt=1, seed=ticket.seed, policy=policy, unix_seconds=now, conversation=()))
    if not (known and isinstance(known[-1], Broke)):
        found.append(Broke(episode=id, index=len(known) + len(found), at_seconds=at, fault=fault))
    found.append(Closed(episode=id, index=len(known) + len(found), at_seconds=at, stop=Stop.BROKEN))
    return found


@asynccontextmanager
async def crewed(
    run: Run, keep: Keep, *, watch: Callable[[Event], None], admits: Callable[[str], bool] = lambda task: True,
    queue: str | None = None, register: str | None = None, guard: Guard | None = None,
) -> AsyncIterator[Gathering]:
    """Workers, as `keep` has them, and what they are to play. Any of them may be killed, and this process too: a run
    that is resumed goes on with what each episode had come to. `guard` may stop kinds of work meanwhile."""
    opened = await open_queue(queue_of(run.path, queue), Terms(lease_seconds=_LEASE_SECONDS))
    try:
        rows = await Register.open(register_of(run.path, register))
        try:
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(_kept(keep(rows, opened, told)))
                if guard is not None:
                    group.create_task(heed(opened, guard, told=told, hear=_hear, kept=run.path / "stopped.json"))
                try:
                    yield Gathering(run, rows, opened, watch=watch, admits=admits)
                finally:
                    told.set()
        except* HouseError as errors:
            raise errors.exceptions[0] from None
        finally:
            await rows.aclose()
    finally:
        await opened.aclose()


async def _kept(keeping: Awaitable[object]) -> None:
    await keeping


def _hear(kind: str, why: str) -> None:
    click.echo(f"{plain(kind)}: {'stopped, ' + plain(why) if why else 'handed out again'}", err=True)
