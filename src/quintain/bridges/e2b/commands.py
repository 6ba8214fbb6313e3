"""The commands of one sandbox as E2B's `process.Process` service knows them: they live on when nobody listens, and who
connects later hears what comes from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from quintain.bridges.e2b import words
from quintain.bridges.e2b.connect import ConnectError, ending, envelope
from quintain.sandbox import Interactive, Process
from quintain.types import HouseError, Limits, Outcome, Status

_QUEUED = 64  # pieces of output that a listener may be behind before the command waits for it
_COMMANDS = 64
_WORKDIR = "/work"
_KEEP_ALIVE = envelope({"event": {"keepalive": {}}})


class Command:
    """One command, and whoever listens to it."""

    def __init__(self, process: Process, asked: words.Start) -> None:
        self.process = process
        self.asked = asked
        self._listeners: set[asyncio.Queue[bytes]] = set()

    @contextmanager
    def heard(self) -> Iterator[asyncio.Queue[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED)
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            while not queue.empty():  # whoever waits to put goes on
                queue.get_nowait()

    async def pump(self) -> None:
        """Pass its output on until it ends; the last thing that is told is how."""
        try:
            async for stream, data in self.process.output():
                name = "pty" if self.asked.pty is not None else stream
                await self._tell(envelope({"event": {"data": {name: words.packed(data)}}}))
            outcome = await self.process.wait()
        except HouseError:
            await self._tell(ending(ConnectError("unavailable", "the sandbox was not found: it has ended")))
            return
        if outcome.timed_out:
            await self._tell(ending(ConnectError("deadline_exceeded", "the command took longer than its timeout")))
            return
        await self._tell(envelope({"event": {"end": _end(outcome)}}))
        await self._tell(ending())

    async def _tell(self, content: bytes) -> None:
        for queue in tuple(self._listeners):
            if queue in self._listeners:
                await queue.put(content)

    def view(self) -> dict[str, object]:
        told: dict[str, object] = {"pid": self.process.pid, "config": msgspec.to_builtins(self.asked.process)}
        return told if self.asked.tag is None else {**told, "tag": self.asked.tag}


class Commands:
    """All commands of one sandbox. `crew` is where their output is passed on as long as the sandbox lives."""

    def __init__(
        self, box: Interactive, crew: asyncio.TaskGroup, env: Mapping[str, str], limits: Limits,
    ) -> None:
        self._box = box
        self._crew = crew
        self._env = dict(env)
        self._limits = limits
        self._commands: dict[int, Command] = {}
        self._pumps: set[asyncio.Task[None]] = set()

    def views(self) -> list[dict[str, object]]:
        return [command.view() for command in self._living()]

    def find(self, selector: words.Selector) -> Command:
        """Raises ConnectError for none that lives."""
        for command in self._living():
            if command.process.pid == selector.pid or (selector.tag and command.asked.tag == selector.tag):
                return command
        raise ConnectError("not_found", f"expected a command that runs, found {selector.pid or selector.tag}")

    async def start(
        self, asked: words.Start, *, seconds: float | None, idle_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """What is told of a new command, in envelopes. Raises ConnectError before the first for one that is not."""
        if len(self._living()) >= _COMMANDS:
            raise ConnectError("resource_exhausted", f"expected at most {_COMMANDS} commands at a time, found more")
        process = await self._process(asked, seconds)
        command = Command(process, asked)
        self._commands[process.pid] = command
        with command.heard() as queue:
            pump = self._crew.create_task(command.pump())
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)
            async for content in _told(process.pid, queue, idle_seconds):
                yield content

    async def connect(self, selector: words.Selector, *, idle_seconds: float) -> AsyncGenerator[bytes, None]:
        command = self.find(selector)
        with command.heard() as queue:
            async for content in _told(command.process.pid, queue, idle_seconds):
                yield content

    async def settle(self, seconds: float) -> None:
        """After the sandbox was let go: who listens hears the end, unless he does not read it within `seconds`."""
        if self._pumps:
            _, left = await asyncio.wait(self._pumps, timeout=seconds)
            for pump in left:
                pump.cancel()

    async def _process(self, asked: words.Start, seconds: float | None) -> Process:
        limits, terminal = self._limits, None
        if seconds is not None:
            limits = msgspec.structs.replace(limits, wall_seconds=min(seconds, limits.wall_seconds))
        if asked.pty is not None:
            terminal = (asked.pty.size.rows, asked.pty.size.cols)
        config = asked.process
        try:
            process = await self._box.start(
                [config.cmd, *config.args], env={**self._env, **config.envs}, cwd=config.cwd or _WORKDIR,
                limits=limits, stdin=None if asked.stdin or terminal else b"", terminal=terminal)
            if process.pid:
                return process
            outcome = await process.wait()
        except (ValueError, OSError) as error:
            raise ConnectError("invalid_argument", str(error)) from None
        raise ConnectError("invalid_argument", outcome.error_text or f"{config.cmd} cannot be started")

    def _living(self) -> list[Command]:
        self._commands = {pid: one for pid, one in self._commands.items() if not one.process.ended}
        return list(self._commands.values())


async def _told(pid: int, queue: asyncio.Queue[bytes], idle_seconds: float) -> AsyncGenerator[bytes, None]:
    yield envelope({"event": {"start": {"pid": pid}}})
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                content = await queue.get()
        except TimeoutError:
            content = _KEEP_ALIVE
        yield content
        if content[0]:  # the flag of a stream's end
            return


def _end(outcome: Outcome) -> dict[str, object]:
    """As Go tells it: -1 for a command that a signal ended."""
    if outcome.exit_code is not None:
        told: dict[str, object] = {"exitCode": outcome.exit_code, "exited": True,
                                   "status": f"exit status {outcome.exit_code}"}
    else:
        why = f"signal: {outcome.signal}" if outcome.signal else str(outcome.status.value)
        told = {"exitCode": -1, "exited": False, "status": why}
    return told if outcome.status is Status.OK else {**told, "error": str(told["status"])}
