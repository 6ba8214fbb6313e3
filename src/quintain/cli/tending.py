"""A run with a health ledger: failed answers are diagnosed, suspicions are put to the author's answer, tasks move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import click

from quintain.cli.output import plain
from quintain.cli.wire import Skipped, cache_folder, images_backend
from quintain.curate import Diagnosing, HealthLedger, HealthWatch, Site, attend, review, weight_of
from quintain.env import Environment, TerminalWorld
from quintain.sandbox import Backend
from quintain.tasks import Taskset
from quintain.types import Event

#: How often a run looks which tasks are due to be looked at again (after a week, or by another verifier).
LOOK_SECONDS = 3600.0


class Tended(NamedTuple):
    """What a collector needs of it: where to play, whom to show each event, and whom to ask for admission; `weight` is
    how much of its weight a task is drawn with."""

    environment: Environment
    watch: Callable[[Event], None]
    admits: Callable[[str], bool]
    weight: Callable[[str], float]


@asynccontextmanager
async def tended(
    environment: Environment, backend: Backend, tasks: Taskset, ledger: Path | None, *, run: str,
    bases: Mapping[str, str] | None = None,
) -> AsyncIterator[Tended]:
    """Tasks that the ledger does not know yet, or knows by another version, go on probation. Without a ledger every
    task is admitted and nothing is watched."""
    if ledger is None:
        yield Tended(environment, lambda event: None, lambda task: True, lambda task: 1.0)
        return
    kept = HealthLedger(ledger)
    answered: set[str] = set()
    found = []
    for item in Skipped().readable(tasks):
        found.append(item.task)
        if item.exam.oracle is not None:
            answered.add(item.task.id)
    kept.admit(found, evidence=f"asked by the run {run}", by=run)
    watch = HealthWatch(kept, has_oracle=answered.__contains__, by=run)

    def weight(task: str) -> float:
        standing = kept.standings.get(task)
        return weight_of(standing) if standing is not None and watch.admits(task) else 0.0

    images = images_backend(backend)
    try:
        world = TerminalWorld(images, cache=cache_folder(), bases=bases)
        site = Site(backend, at_once=2, world=world)
        async with asyncio.TaskGroup() as children:
            witness = children.create_task(attend(watch, site, lambda id: tasks[id]))
            looking = children.create_task(_looking(kept, site, tasks, run=run))
            try:
                yield Tended(Diagnosing(environment), watch.watch, watch.admits, weight)
            finally:
                witness.cancel()
                looking.cancel()
    finally:
        watch.close()
        if images is not backend:
            await images.aclose()


async def _looking(ledger: HealthLedger, site: Site, tasks: Taskset, *, run: str) -> None:
    """For ever: at the beginning, and then now and again, look at the tasks that are due."""
    while True:
        for looked in await review(ledger, site, Skipped().readable(tasks), now_unix_seconds=time.time(), by=run):
            if looked.trouble:
                click.echo(f"{plain(looked.task)}: {plain(looked.trouble, limit=500)}", err=True)
        await asyncio.sleep(LOOK_SECONDS)
