"""Worker processes for tests: `python -m tests.fleet.players FOLDER NAME [TURNS_BEFORE_DEATH]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from quintain.fleet import QUARANTINED, Care, EpisodeLogs, Job, Left, Order, Queue, Register, SqliteQueue, Terms, Worker
from quintain.rollout import Patience, Ticket
from quintain.tasks import Item
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Limits, Message, Scopes, Turn

TURNS = 40
CARE = Care(drain_seconds=0.2, pause_seconds=0.0, patience=Patience(attempts=1, pause_seconds=0.0))


def item(id: str) -> Item:
    """A task of forty turns; its last one solves it."""
    return fake_item(id, limits=Scopes(episode=Limits(turns=TURNS, wall_seconds=600.0, cpu_seconds=600.0)))


def ticket(job: Job) -> Ticket:
    told = msgspec.json.decode(job.body, type=Order)
    return Ticket(item=item(told.task), episode=job.id, group=told.group, seed=told.seed)


class Patient:
    """Says something new each time, and the right thing in its last turn. Notes each turn in a file, and kills its
    process in the middle of one, if it is to."""

    name = "patient"

    def __init__(self, notes: Path, *, dies_at: int | None = None, pause_seconds: float = 0.0) -> None:
        self._notes = notes
        self._dies_at = dies_at
        self._pause_seconds = pause_seconds

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = sum(message.role == "assistant" for message in conversation) + 1
        with self._notes.open("a") as file:
            file.write(f"{task} {nth}\n")
        await asyncio.sleep(self._pause_seconds)
        if nth == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return Turn(text="right" if nth == TURNS else f"wrong {nth}", policy_version=str(nth))

    async def aclose(self) -> None:
        """Holds nothing."""


@asynccontextmanager
async def parts(folder: Path, terms: Terms | None = None) -> AsyncIterator[tuple[Queue, Register, EpisodeLogs]]:
    queue = await SqliteQueue.open(folder / "queue.db", terms)
    register = await Register.open(folder / "register.db")
    try:
        yield queue, register, EpisodeLogs(folder)
    finally:
        await register.aclose()
        await queue.aclose()


async def main(folder: Path, name: str, dies_at: int | None) -> int:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with parts(folder) as (queue, register, logs):
        worker = Worker(name, queue, register, logs, environment=FakeEnvironment(), ticket=ticket, slots=2, care=CARE,
                        policy=Patient(folder / "turns", dies_at=dies_at))
        return QUARANTINED if await worker.work(told) is Left.QUARANTINED else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else None)))
