"""A worker process whose episodes are work in a real shell: `python -m tests.fleet.shells FOLDER NAME [DIES_AT]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from quintain.env import ShellEnvironment
from quintain.fleet import Job, Worker
from quintain.rollout import Ticket
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, ScriptSuite
from quintain.types import Entry, Grading, Limits, Message, Scopes, Turn
from tests.fleet.players import CARE, parts

TURNS = 40
TEST = b"""#!/bin/bash
mkdir -p /logs/verifier
[ "$(wc -l < notes.txt)" = 39 ] && [ -s "$(tail -n 1 notes.txt | cut -d' ' -f1).d/deep" ] \\
  && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""


def item() -> Item:
    limits = Scopes(episode=Limits(turns=TURNS, wall_seconds=600.0, cpu_seconds=600.0))
    return Item.sealed(
        Exam(hidden=ScriptSuite(files={"test.sh": TEST})), files=None, id="notes", kind="shell", image="host+rw",
        instructions="Keep notes.", limits=limits, entry=Entry(path="solve.sh", language="shell"),
        grading=Grading.ON_SUBMIT,
    )


def ticket(job: Job) -> Ticket:
    return Ticket(item=item(), episode=job.id, group="notes", seed=1)


class NoteTaker:
    """Each turn changes files in the sandbox, by what it finds in them, and shows what all of them are; the last one
    hands them in."""

    name = "note-taker"

    def __init__(self, *, dies_at: int | None = None) -> None:
        self._dies_at = dies_at

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = sum(message.role == "assistant" for message in conversation) + 1
        if nth == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if nth == TURNS:
            return Turn(text="SUBMIT")
        command = (
            f"mkdir -p {nth}.d && echo $(cat notes.txt 2>/dev/null | cksum) > {nth}.d/deep && "
            f"echo {nth} $(cat */deep | cksum) >> notes.txt && cat notes.txt */deep | cksum"
        )
        return Turn(text=f"```bash\n{command}\n```\n", policy_version=str(nth))

    async def aclose(self) -> None:
        """Holds nothing."""


async def main(folder: Path, name: str, dies_at: int | None) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with parts(folder) as (queue, register, logs), NativeBackend() as backend:
        worker = Worker(
            name, queue, register, logs, environment=ShellEnvironment(backend, cache=folder / "cache"), ticket=ticket,
            slots=1, care=CARE, policy=NoteTaker(dies_at=dies_at),
        )
        await worker.work(told)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else None))
