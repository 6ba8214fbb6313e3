"""A run that worker processes play: their work is ordered, watched, and gathered into the run's journal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from quintain.cli.worker import queue_of, register_of
from quintain.fleet import Crew, EpisodeLogs, Queue, Register, State, Terms, open_queue, order, supervise
from quintain.rollout import Ticket, tickets
from quintain.store import Run, Standing, standing
from quintain.tasks import Item
from quintain.types import Event

_LOOK_SECONDS = 0.5
_LEASE_SECONDS = 10.0  # how long what a killed worker held stands still
_OVERLAP_SECONDS = 60.0  # what may have been written down late, by a clock that is not ours


class Gathered(NamedTuple):
    """Where the parts of a run's work lie."""

    run: Run
    logs: EpisodeLogs
    register: Register
    watch: Callable[[Event], None]


async def collect_by_workers(
    run: Run, items: Iterable[Item], watch: Callable[[Event], None], *, workers: int, sandboxes: int,
) -> None:
    """Every episode that is not finished yet, played by `workers` processes that share the sandboxes. Any of them may
    be killed, and this process too: a run that is resumed goes on with what each episode had come to."""
    queue = await open_queue(queue_of(run.path), Terms(lease_seconds=_LEASE_SECONDS))
    register = await Register.open(register_of(run.path))
    gathered = Gathered(run, EpisodeLogs(run.path), register, watch)
    try:
        await _ask(gathered, queue, items)
        told = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            gathering = group.create_task(_gather(gathered, told))
            slots = -(-sandboxes // workers)
            await supervise(lambda nth: _words(run, nth, slots), register, queue, told=told, crew=Crew(workers=workers))
            await gathering
        await _abandoned(gathered)
    finally:
        await register.aclose()
        await queue.aclose()


def _words(run: Run, nth: int, slots: int) -> list[str]:
    return [sys.executable, "-m", "quintain", "worker", str(run.path), "--slots", str(slots), "--name", f"worker-{nth}"]


async def _ask(gathered: Gathered, queue: Queue, items: Iterable[Item]) -> None:
    """Enrol what is to be played. What the house broke, or gave up, is tried again."""
    run = gathered.run
    await _take_in(gathered, 0.0, set())  # what was settled while nobody gathered
    for item in items:
        open_ = [one for one in tickets(item, size=run.definition.size, seed=run.definition.seed)
                 if standing(tuple(run.journal.read(one.episode))) is not Standing.FINISHED]
        for ticket in open_:
            _bring(gathered, ticket)
            if await gathered.register.reopen(ticket.episode):
                await queue.revive([ticket.episode])
        await gathered.register.enrol([order(ticket) for ticket in open_])


def _bring(gathered: Gathered, ticket: Ticket) -> None:
    """What the run knows of an episode that was begun without workers, for the worker that goes on with it."""
    known = tuple(gathered.run.journal.read(ticket.episode))
    if len(gathered.logs.read(ticket.episode)) < len(known):
        with gathered.logs.open(ticket.episode) as log:
            for event in known[len(tuple(log.read(ticket.episode))):]:
                log.append(event)


async def _gather(gathered: Gathered, told: asyncio.Event) -> None:
    """Take in what is settled, as it comes."""
    since, seen = 0.0, set[str]()
    while True:
        is_over = told.is_set()
        since = await _take_in(gathered, since, seen)
        if is_over:
            return
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await told.wait()
        except TimeoutError:
            pass


async def _take_in(gathered: Gathered, since: float, seen: set[str]) -> float:
    """Append the events of episodes that have ended to the run's journal; from when on to ask the next time."""
    latest = since
    for id, seconds in await gathered.register.closed(since_seconds=since):
        latest = max(latest, seconds - _OVERLAP_SECONDS)
        if id in seen:
            continue
        seen.add(id)
        known = len(tuple(gathered.run.journal.read(id)))
        for event in gathered.logs.read(id)[known:]:
            gathered.run.journal.append(event)
            gathered.watch(event)
        await asyncio.sleep(0)
    return latest


async def _abandoned(gathered: Gathered) -> None:
    for id, _ in await gathered.register.closed():
        entry = await gathered.register.entry(id)
        if entry is not None and entry.state is State.ABANDONED:
            click.echo(f"given up: {id}: {entry.reason}", err=True)
