"""Sandboxes whose walls another program builds: it starts our agent as their first process, which does the rest."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from quintain.sandbox import _layout
from quintain.sandbox._agent import Agent
from quintain.sandbox._agent_files import NativeFiles
from quintain.sandbox._engine import program
from quintain.sandbox._gauge import Gauge
from quintain.sandbox._ground import Ground, remove_tree
from quintain.sandbox._outcome import outcome_of
from quintain.sandbox._process import StartedProcess
from quintain.sandbox._running import Exit
from quintain.sandbox.base import ProcessInfo, Sandbox
from quintain.types import FaultKind, HouseError, KilledBy, Limits, Outcome, Status

READY_WITHIN_SECONDS = 30.0
GONE_WITHIN_SECONDS = 5.0
AGENT_AT = "/run/quintain-agent"  # where the agent lies inside
ENTER_GROUPS = 'for door in $1; do echo 0 > "$door" || exit 71; done; shift; exec "$@"'


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How one sandbox is started. Our agent finds its socket as the launcher's stdin, or connects to `listen` (a path
    on the host). `farewell` is run after the launcher has gone, for launchers that keep records; `folder` then goes."""

    argv: tuple[str, ...]
    listen: Path | None = None
    farewell: tuple[str, ...] = ()
    folder: Path | None = None


class LaunchedSandbox:
    """One sandbox behind a launcher. Made by `launched`."""

    def __init__(self, name: str, limits: Limits, gauge: Gauge, plan: Plan) -> None:
        self._name = name
        self._limits = limits
        self._gauge = gauge
        self._plan = plan
        self._agent: Agent | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the sandbox

    @property
    def id(self) -> str:
        return self._name

    @property
    def pid(self) -> int:
        """The host's number of the launcher's process; for tests of the walls."""
        return self._process.pid if self._process else 0

    @property
    def files(self) -> NativeFiles:
        return NativeFiles(self._reached())

    def _reached(self) -> Agent:
        if self._agent is None:
            raise HouseError(FaultKind.SANDBOX_LOST, "the sandbox was closed")
        return self._agent

    async def bring_up(self, doors: Sequence[str]) -> None:
        """Start the launcher inside the groups behind `doors` and wait for the agent. Raises HouseError."""
        words = ["/bin/sh", "-c", ENTER_GROUPS, "sh", " ".join(doors), *self._plan.argv] if doors else self._plan.argv
        try:
            if self._plan.listen is None:
                ours = await self._start_on_stdin(words)
            else:
                ours = await self._start_and_accept(words, self._plan.listen)
            ours.setblocking(False)
            self._agent = Agent(ours)
            async with asyncio.timeout(READY_WITHIN_SECONDS):
                await self._agent.wait_ready()
        except TimeoutError:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"{self._plan.argv[0]} brought no sandbox up within {READY_WITHIN_SECONDS:.0f} s",
            ) from None
        except (HouseError, OSError) as error:
            said = self._complaint()
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"{error}{': ' if said else ''}{said}") from None

    async def _spawn(self, words: Sequence[str], stdin: int) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *words, stdin=stdin, stdout=asyncio.subprocess.DEVNULL, stderr=self._errors, env={"PATH": os.defpath},
            cwd="/", start_new_session=True,
        )

    async def _start_on_stdin(self, words: Sequence[str]) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            await self._spawn(words, theirs.fileno())
        return ours

    async def _start_and_accept(self, words: Sequence[str], path: Path) -> socket.socket:
        """The door is open for one caller, before any program of the sandbox exists."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(str(path))
            os.chmod(path, 0o777)  # the engine may map users; the folder around it is ours alone
            door.listen(1)
            door.setblocking(False)
            await self._spawn(words, asyncio.subprocess.DEVNULL)
            async with asyncio.timeout(READY_WITHIN_SECONDS), asyncio.TaskGroup() as group:
                ended = group.create_task(self._gone())
                caller = group.create_task(asyncio.get_running_loop().sock_accept(door))
                done, _ = await asyncio.wait((ended, caller), return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                caller.cancel()
            os.unlink(path)
            if caller not in done:
                raise OSError(f"{self._plan.argv[0]} ended before its sandbox was up")
            return caller.result()[0]

    async def _gone(self) -> None:
        if self._process is not None:
            await self._process.wait()

    def _complaint(self) -> str:
        self._errors.seek(0)
        return self._errors.read(2048).decode("utf-8", "replace").strip()

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        if warm:
            raise ValueError("expected warm=False: this backend has no warm interpreter")
        limits = self._limits if limits is None else limits.within(self._limits)
        self._gauge.begin()
        try:
            done = await self._reached().run(
                argv, stdin=stdin, env={**_layout.default_environment(), **(env or {})}, cwd=cwd, limits=limits,
                channel=channel, warm=False, on_stdout=on_stdout, on_stderr=on_stderr,
            )
        except HouseError as error:
            return await self._lost(error)
        return await self._settle(limits, done)

    async def _settle(self, limits: Limits, done: Exit) -> Outcome:
        return outcome_of(done, limits, self._gauge.read())

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, stdin: bytes | None = b"", channel: int | None = None,
        terminal: tuple[int, int] | None = None, linger: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> StartedProcess:
        """See `Interactive.start`."""
        limits = self._limits if limits is None else limits.within(self._limits)
        agent = self._reached()
        if not agent.busy:
            self._gauge.begin()
        running = await agent.start(
            argv, stdin=stdin, env={**_layout.default_environment(), **(env or {})}, cwd=cwd, limits=limits,
            channel=channel, terminal=terminal, linger=linger, on_stdout=on_stdout, on_stderr=on_stderr,
        )
        return StartedProcess(running, agent, settle=functools.partial(self._settle, limits), lost=self._lost)

    async def processes(self) -> Sequence[ProcessInfo]:
        return await self._reached().processes()

    async def pause(self) -> None:
        await self._reached().freeze(True)

    async def resume(self) -> None:
        await self._reached().freeze(False)

    def let_go(self) -> None:
        if self._agent is not None:
            self._agent.close()

    async def _lost(self, error: HouseError) -> Outcome:
        """The agent is gone: the program's doing if the kernel says that memory ran out, else the house's fault."""
        with suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._gone()
        after = self._gauge.read()
        if after.oom_kills:
            return Outcome(
                status=Status.OUT_OF_MEMORY, signal=int(signal.SIGKILL), killed_by=KilledBy.OOM,
                peak_memory_bytes=after.peak_memory_bytes,
            )
        raise error

    async def close(self) -> None:
        """Idempotent. The agent ends when its socket closes, and everything inside with it; what lingers is killed."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None
        self._gauge.close()
        if self._process is not None:
            try:
                async with asyncio.timeout(GONE_WITHIN_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                await self._process.wait()
            self._process = None
            await self._take_leave()
        self._errors.close()
        if self._plan.folder is not None:
            remove_tree(self._plan.folder)

    async def _take_leave(self) -> None:
        if not self._plan.farewell:
            return
        process = await asyncio.create_subprocess_exec(
            *self._plan.farewell, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, env={"PATH": os.defpath}, cwd="/",
        )
        try:
            async with asyncio.timeout(GONE_WITHIN_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class Spare(msgspec.Struct, frozen=True):
    """What the launcher itself needs beyond the sandbox's limits, in the same groups."""

    memory_bytes: int
    processes: int


@asynccontextmanager
async def launched(
    ground: Ground, limits: Limits, count: int, *, name: str, spare: Spare | None, plan: Callable[[int], Plan],
) -> AsyncIterator[Sequence[Sandbox]]:
    """`count` sandboxes, all or none; `plan` says how the one at a place is started.

    `spare` is `None` when the launcher makes control groups of its own. Raises HouseError(SANDBOX_CREATE_FAILED).
    """
    if count < 1:
        raise ValueError(f"expected a count of at least 1, found {count}")
    program()
    async with AsyncExitStack() as stack:
        boxes: list[LaunchedSandbox] = []
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    place = ground.place()
                    doors = [] if spare is None else ground.fence(
                        place, limits, spare_bytes=spare.memory_bytes, spare_processes=spare.processes
                    )
                    stack.push_async_callback(ground.clear, place)
                    known = f"{name}-{ground.slot.number}-{place}"
                    box = LaunchedSandbox(known, limits, ground.gauge(place), plan(place))
                    stack.push_async_callback(box.close)
                    boxes.append(box)
                    group.create_task(box.bring_up(doors))
        except* HouseError as errors:
            raise errors.exceptions[0] from None
        yield boxes


def translate(operations: Sequence[str], folder: Path) -> list[tuple[str, str, str]]:
    """The image's operations as (ro | link, source, target) only; files are written below `folder` first.

    Devices are left out: each launcher has a /dev of its own.
    """
    steps = []
    for op, a, b in zip(*[iter(operations)] * 3, strict=True):
        if op == "file":
            place = folder / "files" / a
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(b)
            steps.append(("ro", str(place), f"/{a}"))
        elif op in ("ro", "copy"):
            steps.append(("ro", a, f"/{b}"))
        elif op == "link" and not b.startswith("dev/"):
            steps.append(("link", a, f"/{b}"))
    return steps
