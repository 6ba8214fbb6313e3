"""`quintain worker`: play episodes of a run, taken from its queue, beside other workers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.addresses import queue_of, register_of
from quintain.cli.exits import DONE
from quintain.cli.room import room_for, size
from quintain.cli.run import PATIENCE, Parts
from quintain.cli.watching import Watching, sentry_of
from quintain.cli.wire import open_house
from quintain.curate import Diagnosing
from quintain.fleet import (
    QUARANTINED,
    Care,
    EpisodeLogs,
    Job,
    Left,
    Order,
    Register,
    Room,
    Worker,
    open_queue,
    watchdog,
)
from quintain.rollout import Ticket
from quintain.store import Definition, Run
from quintain.types import TaskError

if TYPE_CHECKING:
    from quintain.tasks import Taskset

#: An event loop that stands still for so long cannot keep its leases.
STILL_SECONDS = 60.0


@click.command("worker")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--queue", metavar="WHERE", envvar="QUINTAIN_QUEUE",
              help="A file, or nats://[TOKEN@]HOST[:PORT][/NAME] [default: in the run's folder].")
@click.option("--register", metavar="WHERE", envvar="QUINTAIN_REGISTER",
              help="A file, or postgresql://…[?schema=NAME] [default: in the run's folder].")
@click.option("--slots", type=click.IntRange(min=1), help="Episodes at once [default: the run's sandboxes].")
@click.option("--memory", type=size, metavar="SIZE",
              help="Of its sandboxes at once, as in 8GiB [default: what is free].")
@click.option("--cpus", type=click.FloatRange(min=0, min_open=True), help="Of them at once [default: one a slot].")
@click.option("--tokens", type=click.IntRange(min=1), help="Of inference that they may hold at once [default: any].")
@click.option("--share", type=click.IntRange(min=1), default=1, show_default=True,
              help="It is one of so many workers of this host, and takes its part of the free memory.")
@click.option("--name", help="What it is called in the register [default: the host and the process].")
@click.option("--apart", is_flag=True,
              help="RUN lies on this host alone: hand in each episode's log with its result.")
@click.option("--metrics", type=click.IntRange(0, 65535), metavar="PORT",
              help="Serve its own /metrics on this port of 127.0.0.1 (0: a free one).")
@click.pass_context
def command(
    ctx: click.Context, run: Path, queue: str | None, register: str | None, slots: int | None, memory: int | None,
    cpus: float | None, tokens: int | None, share: int, name: str | None, apart: bool, metrics: int | None,
) -> None:
    """Play episodes of RUN, a run folder, until told to end (SIGTERM or Ctrl-C): what runs then is given back after
    half a minute, and whoever takes it goes on with it. `quintain run --workers` starts workers itself. Episodes are
    taken as far as their tasks' limits fit into what the worker has, beside its slots.

    Exit codes: 0 told to end, 3 this host has no sandboxes, 70 its event loop hung, 75 too many failures of the house
    in a row.

    \b
    Examples:
      quintain worker runs/first
      quintain worker runs/first --queue nats://localhost:4222 --register postgresql://db/quintain --slots 32
    """
    run = run.resolve()
    with Run.open(run) as opened:
        asked = opened.definition
    parts = Parts.of(asked, slots or asked.sandboxes)
    room = room_for(parts.sandboxes, share=share, memory_bytes=memory, cpus=cpus, tokens=tokens,
                    elsewhere=asked.backend == "agent-sandbox")
    Watching(port=metrics).check()
    left = asyncio.run(_work(run, asked, parts, queue_of(run, queue), register_of(run, register),
                             name or f"{socket.gethostname()}-{os.getpid()}", apart, room, metrics))
    ctx.exit(QUARANTINED if left is Left.QUARANTINED else DONE)


async def _work(
    run: Path, asked: Definition, parts: Parts, where: str, register_where: str, name: str, apart: bool,
    room: Room, port: int | None,
) -> Left:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    bases = msgspec.json.decode(asked.options.get("bases", "{}"), type=dict[str, str])
    queue = await open_queue(where)
    register = await Register.open(register_where)
    try:
        async with watchdog(STILL_SECONDS), sentry_of(
            run, name, socket.gethostname(), parts.tasks, run_name=run.name, port=port,
        ) as sentry, open_house(
            parts.backend, bases=bases, meter=sentry.metered,
        ) as environment:
            worker = Worker(
                name, queue, register, EpisodeLogs(run), policy=parts.policy,
                environment=Diagnosing(environment) if "health" in asked.options else environment,
                ticket=lambda job: _ticket(parts.tasks, job), slots=parts.sandboxes, care=Care(patience=PATIENCE),
                apart=apart, room=room, sentry=sentry,
            )
            return await worker.work(told)
    finally:
        await parts.policy.aclose()
        await register.aclose()
        await queue.aclose()


def _ticket(tasks: Taskset, job: Job) -> Ticket:
    try:
        told = msgspec.json.decode(job.body, type=Order)
        return Ticket(item=tasks[told.task], episode=job.id, group=told.group, seed=told.seed)
    except (msgspec.MsgspecError, KeyError) as error:
        raise TaskError(f"the order of {job.id!r} names no task of this run: {error}") from error
