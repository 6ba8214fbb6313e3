"""A person's shell in the very state of an episode's step: its sandbox, and a bash that is where its shell was.

Covers: with a terminal a pty inside, sized as the person's; without one, whatever comes by stdin is run as a script.
Nothing that is done there is kept: the sandbox is gone when the shell ends. Does not cover: the job table of the
episode's shell; processes in the background live where the state was reached by running the commands again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import msgspec

from quintain.env import Enterable, Inside
from quintain.replay.again import TEARDOWN_SECONDS, Finder, steps_of
from quintain.rollout import Machine, Rules, command_limits, settle
from quintain.sandbox import Process
from quintain.tasks import Item
from quintain.types import Event, Limits, Opened, Ran

_NO_END = 86_400.0
_PIECE = 64 * 1024


@asynccontextmanager
async def entered(
    environment: Enterable, item: Item, log: Sequence[Event], *, step: int, attempt: int | None = None,
    files: Finder = lambda name: None, from_snapshot: bool = False,
) -> AsyncIterator[Inside]:
    """The place of an episode after its step `step` (0: as it began). With `from_snapshot` the files are as they were
    kept there. Raises ValueError for a step that is not there, and for a snapshot that was not kept; HouseError."""
    steps = steps_of(log, attempt=attempt)
    opened = steps.events[0]
    assert isinstance(opened, Opened)
    if not 0 <= step <= steps.last:
        raise ValueError(f"episode {opened.episode}: expected a step from 0 to {steps.last}, found {step}")
    events = steps.events[:steps.of(step).stop]
    rules = Rules(limits=item.task.limits, grading=item.task.grading, visible=environment.shows(item))
    machine = Machine.replayed(rules, events)
    snapshot = None
    if from_snapshot:
        name = next((event.files for event in reversed(events) if isinstance(event, Ran) and event.files), None)
        snapshot = files(name) if name is not None else None
        if snapshot is None:
            raise ValueError(f"episode {opened.episode}: no files were kept at step {step}: leave the snapshot out")
    episode = f"{opened.episode}~shell"
    wide = _unhurried(item)
    limits = (command_limits(machine.state.spent, item.task.limits, 0.0) if environment.remembers(item)
              else wide.task.limits.episode)
    try:
        yield await environment.enter(wide, machine.state.program, episode=episode, limits=limits, snapshot=snapshot)
    finally:
        await settle(environment.leave(episode), within=TEARDOWN_SECONDS)


def _unhurried(item: Item) -> Item:
    """The same task with a day's time: whoever looks around in it is no policy."""
    replace, limits = msgspec.structs.replace, item.task.limits
    episode = replace(limits.episode, wall_seconds=_NO_END, cpu_seconds=_NO_END)
    return replace(item, task=replace(item.task, limits=replace(limits, episode=episode)))


async def interact(inside: Inside) -> int:
    """Bash there, for whoever is at our stdin and stdout, until it ends; its exit code."""
    told = os.memfd_create("state", os.MFD_CLOEXEC)
    try:
        os.write(told, inside.state.encode("utf-8", "surrogateescape"))
        os.lseek(told, 0, os.SEEK_SET)
        if sys.stdin.isatty() and sys.stdout.isatty():
            return await _at_terminal(inside, told)
        return await _scripted(inside, told)
    finally:
        os.close(told)


async def _at_terminal(inside: Inside, told: int) -> int:
    rows, columns = _size()
    env = {**inside.env, "TERM": os.environ.get("TERM", "xterm")}
    process = await inside.sandbox.start(
        ["/bin/bash", "--noprofile", "--rcfile", "/proc/self/fd/3", "-i"], env=env, cwd=inside.workdir, stdin=None,
        channel=told, terminal=(rows, columns), limits=_long(),
    )
    loop = asyncio.get_running_loop()
    with _raw(sys.stdin.fileno()):
        async with asyncio.TaskGroup() as pumps:
            typing = pumps.create_task(_typed(process))
            resized = asyncio.Event()
            loop.add_signal_handler(signal.SIGWINCH, resized.set)
            sizing = pumps.create_task(_sized(process, resized))
            try:
                async for _, piece in process.output():
                    os.write(sys.stdout.fileno(), piece)
                outcome = await process.wait()
            finally:
                loop.remove_signal_handler(signal.SIGWINCH)
                typing.cancel()
                sizing.cancel()
    return outcome.exit_code if outcome.exit_code is not None else 128 + (outcome.signal or 0)


async def _scripted(inside: Inside, told: int) -> int:
    script = await asyncio.to_thread(sys.stdin.buffer.read)
    process = await inside.sandbox.start(
        ["/bin/bash", "--norc", "--noprofile"], env={**inside.env, "BASH_ENV": "/proc/self/fd/3"}, cwd=inside.workdir,
        stdin=script, channel=told, limits=_long(),
    )
    async for name, piece in process.output():
        os.write((sys.stdout if name == "stdout" else sys.stderr).fileno(), piece)
    outcome = await process.wait()
    return outcome.exit_code if outcome.exit_code is not None else 128 + (outcome.signal or 0)


async def _typed(process: Process) -> None:
    descriptor = sys.stdin.fileno()
    while not process.ended:
        await _readable(descriptor)
        data = os.read(descriptor, _PIECE)
        if not data:
            await process.end_input()
            return
        await process.send(data)


async def _readable(descriptor: int) -> None:
    """Until a read would not wait. Told once: an event that is set twice for one key would have the read wait."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()

    def tell() -> None:
        loop.remove_reader(descriptor)
        ready.set()

    loop.add_reader(descriptor, tell)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _sized(process: Process, resized: asyncio.Event) -> None:
    while True:
        await resized.wait()
        resized.clear()
        await process.resize(*_size())


def _size() -> tuple[int, int]:
    """Rows and columns of the person's terminal; of one that does not say, the usual ones."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.lines or 24, size.columns or 80


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """The person's own terminal hands every key on."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead is kept
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _long() -> Limits:
    """A person takes their time; everything else is clipped by the sandbox's own limits."""
    wide = 1 << 62
    return Limits(wall_seconds=_NO_END, cpu_seconds=wide, memory_bytes=wide, disk_bytes=wide, inodes=wide,
                  output_bytes=wide, processes=wide)
