"""A run with a health ledger: failed answers are diagnosed, suspicions are put to the author's answer, tasks move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from quintain.cli.wire import Skipped
from quintain.curate import Diagnosing, HealthLedger, HealthWatch, attend
from quintain.env import Environment
from quintain.grade import Oracle
from quintain.sandbox import Backend
from quintain.tasks import Taskset
from quintain.types import Event


class Tended(NamedTuple):
    """What a collector needs of it: where to play, whom to show each event, and whom to ask for admission."""

    environment: Environment
    watch: Callable[[Event], None]
    admits: Callable[[str], bool]


@asynccontextmanager
async def tended(
    environment: Environment, backend: Backend, tasks: Taskset, ledger: Path | None, *, run: str,
) -> AsyncIterator[Tended]:
    """Tasks that the ledger does not know yet, or knows by another version, go on probation. Without a ledger every
    task is admitted and nothing is watched."""
    if ledger is None:
        yield Tended(environment, lambda event: None, lambda task: True)
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
    try:
        async with asyncio.TaskGroup() as children:
            witness = children.create_task(attend(watch, Oracle(backend), lambda id: tasks[id]))
            try:
                yield Tended(Diagnosing(environment), watch.watch, watch.admits)
            finally:
                witness.cancel()
    finally:
        watch.close()
