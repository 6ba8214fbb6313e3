"""The engine of one machine: worker processes that are started, watched, started again, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from quintain.fleet.base import Queue
from quintain.fleet.ending import end_process, told_within
from quintain.fleet.entries import Tally
from quintain.fleet.register import Register, reconcile
from quintain.rollout import settle
from quintain.types import FaultKind, HouseError

_log = logging.getLogger(__name__)

#: How a worker process ends that has put itself into quarantine.
QUARANTINED = 75
#: How one ends that can never do what it was started for: nobody starts it again, and the crew ends.
CANNOT = 78
_SLACK_SECONDS = 5.0


class Crew(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How worker processes are kept. One that ends is started again after a pause, which doubles from
    `pause_seconds.0` to `pause_seconds.1` while they die young; one in quarantine rests for the longest. When all is
    over they are told (SIGTERM), and after `drain_seconds` killed. All is over too when the queue or the register could
    not be reached or read for `patience_seconds`."""

    workers: int = 2
    pause_seconds: tuple[float, float] = (0.2, 60.0)
    young_seconds: float = 3.0
    drain_seconds: float = 60.0
    look_seconds: float = 1.0
    reconcile_seconds: float = 30.0
    patience_seconds: float = 600.0


async def supervise(
    command: Callable[[int], Sequence[str]], register: Register, queue: Queue, *, told: asyncio.Event,
    crew: Crew | None = None, over: Callable[[Tally], bool] = lambda tally: not tally.open,
    env: Mapping[str, str] | None = None,
) -> Tally:
    """Keep workers at it until it is `over` (no episode is open), or `told` is set, and then end them. `command` gives
    the words that start the nth one, `env` what it finds in its environment besides ours. What the queue forgot is put
    again, now and then. Where `setpriv` is installed, workers end with this process, however it ends. Raises HouseError
    when one says that it can never do its work (exit code CANNOT), or when `crew.patience_seconds` are over."""
    crew = crew or Crew()
    lost: HouseError | None = None
    async with asyncio.TaskGroup() as group:
        kept = [group.create_task(keep(command(nth), crew, told, env=env)) for nth in range(crew.workers)]
        looked, heard = -crew.reconcile_seconds, time.monotonic()
        tally = await register.tally()
        while not told.is_set():
            try:
                if time.monotonic() - looked > crew.reconcile_seconds:
                    await _put_what_is_missing(register, queue)
                    looked = time.monotonic()
                tally = await register.tally()
            except HouseError as error:
                _log.warning("no news of the episodes: %s", error)
                if time.monotonic() - heard > crew.patience_seconds:
                    lost = error
                    told.set()
            else:
                heard = time.monotonic()
                if over(tally):
                    told.set()
            await told_within(told, crew.look_seconds)
    if lost is not None:
        raise HouseError(lost.kind, f"no news of the episodes for {crew.patience_seconds:g} s: {lost.message}")
    if any(task.result() == CANNOT for task in kept):
        raise HouseError(FaultKind.UNKNOWN, f"expected workers, found one that cannot work: {' '.join(command(0))}")
    return tally


async def _put_what_is_missing(register: Register, queue: Queue) -> None:
    """By the counts first: to go through all that is open costs a while where there is much."""
    open_, count = (await register.tally()).open, (await queue.stats()).count
    if open_ > count.total - count.dead:
        await reconcile(register, queue)


async def keep(
    command: Sequence[str], crew: Crew, told: asyncio.Event, *, env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> int | None:
    """One place of a crew, whoever fills it, until `told` is set: how the last process ended. Sets it when that was
    CANNOT."""
    least, most = crew.pause_seconds
    pause = least
    setpriv = shutil.which("setpriv")
    dying = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    code: int | None = None
    while not told.is_set():
        born = time.monotonic()
        code = await _live(await asyncio.create_subprocess_exec(
            *dying, *command, stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **(env or {})}, cwd=cwd,
        ), crew, told)
        if code == CANNOT:
            told.set()
        if told.is_set():
            break
        is_old = time.monotonic() - born > crew.young_seconds
        pause = most if code == QUARANTINED else least if is_old else min(2 * pause, most)
        _log.warning("a worker ended with %s; another follows in %.1f s", code, pause)
        await told_within(told, pause)
    return code


async def _live(process: asyncio.subprocess.Process, crew: Crew, told: asyncio.Event) -> int | None:
    """Until it ends, or is told to."""
    try:
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(process.wait())
            telling = group.create_task(told.wait())
            await asyncio.wait({ended, telling}, return_when=asyncio.FIRST_COMPLETED)
            telling.cancel()
            ended.cancel()
    finally:
        await settle(_ended(process, crew.drain_seconds), within=crew.drain_seconds + _SLACK_SECONDS)
    return process.returncode


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> None:
    if not await end_process(process, seconds):
        _log.warning("worker %d did not end within %g s: killed", process.pid, seconds)
