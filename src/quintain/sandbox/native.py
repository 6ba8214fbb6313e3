"""Sandboxes out of Linux namespaces, without a daemon: the native backend.

Covers: own pid, mount, network (loopback only), ipc, uts and cgroup namespaces; read-only system; a private writable
tree bounded in bytes and inodes; memory, process and CPU limits (cgroup v1, v2, hybrid); a user of its own for each
sandbox, no capabilities, no_new_privs, a system-call filter; whole-tree kill; nothing of the house's environment or
descriptors.
Does not cover: flaws of the shared kernel itself, timing side channels, the bandwidth of disk and memory. Rootless: no
user of its own (one host user for all), groups only where they are delegated, and where they are not, memory is bounded
for each process only.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import msgspec

from quintain.sandbox import _layout, _wire
from quintain.sandbox._agent import Agent, Exit
from quintain.sandbox._cgroup import Gauge, Usage
from quintain.sandbox._engine import Cell, Engine
from quintain.sandbox._probe import probe_native
from quintain.sandbox._warm import Warm
from quintain.sandbox._wire import A
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, FileInfo, Sandbox
from quintain.types import FaultKind, HouseError, KilledBy, Limits, Network, Outcome, Status

DOWN_NEWS_WITHIN_SECONDS = 2.0
_KINDS = {"f": "file", "d": "directory", "l": "symlink", "o": "other"}


class NativeFiles:
    """The files of one native sandbox, served from within."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def read(self, path: str, *, max_bytes: int = 16 * 1024 * 1024) -> bytes:
        return (await self._agent.ask(A.READ, path, number=max_bytes))[0]

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._agent.ask(A.WRITE, path, number=mode, content=content)

    async def write_many(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            await self.write(path, content)

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        return _entries((await self._agent.ask(A.LIST, path, number=depth))[0])

    async def exists(self, path: str) -> bool:
        try:
            await self._agent.ask(A.STAT, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def remove(self, path: str) -> None:
        await self._agent.ask(A.REMOVE, path)

    async def make_dir(self, path: str) -> None:
        await self._agent.ask(A.MKDIR, path)


def _entries(data: bytes) -> list[FileInfo]:
    found, at = [], 0
    while at < len(data):
        kind, mode, size = _wire.ENTRY.unpack_from(data, at)
        stop = data.index(b"\0", at + _wire.ENTRY.size)
        path = data[at + _wire.ENTRY.size : stop].decode("utf-8", "surrogateescape")
        found.append(FileInfo(path=path, kind=_KINDS[chr(kind)], size_bytes=size, mode=mode))
        at = stop + 1
    return found


class NativeSandbox:
    """One sandbox of the native backend. Made by `NativeBackend.open`."""

    def __init__(self, cell: Cell, limits: Limits) -> None:
        assert cell.socket is not None and cell.engine.slot is not None
        self._cell = cell
        self._limits = limits
        self._agent = Agent(cell.socket)
        self._gauge = Gauge(cell.engine.directories, f"s{cell.place}")
        self.files = NativeFiles(self._agent)

    @property
    def id(self) -> str:
        return f"{self._cell.engine.slot.name if self._cell.engine.slot else 'closed'}-{self._cell.number}"

    @property
    def pid(self) -> int:
        """The host's number of the sandbox's first process; for reports and tests of the walls."""
        return self._cell.pid

    async def wait_ready(self) -> None:
        await self._agent.wait_ready()

    async def ping(self) -> None:
        await self._agent.ping()

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        limits = self._limits if limits is None else limits.within(self._limits)
        if warm and not self._cell.engine.warm:
            raise ValueError("expected a warm interpreter (NativeBackend(warm=Warm())), found a backend without")
        environment = {**_layout.default_environment(), **(env or {})}
        self._gauge.begin()
        try:
            done = await self._agent.run(
                argv, stdin=stdin, env=environment, cwd=cwd, limits=limits, channel=channel, warm=warm,
                on_stdout=on_stdout, on_stderr=on_stderr,
            )
        except HouseError as error:
            return await self._lost(error)
        if done.flags & _wire.EXIT_LEFTOVER:
            raise HouseError(FaultKind.SANDBOX_LOST, "processes of a command could not be killed within 5 s")
        return outcome_of(done, limits, self._gauge.read())

    async def _lost(self, error: HouseError) -> Outcome:
        """The agent is gone: the program's doing if the kernel says that memory ran out, else the house's fault."""
        with suppress(TimeoutError, HouseError):
            async with asyncio.timeout(DOWN_NEWS_WITHIN_SECONDS):
                down = await asyncio.shield(self._cell.down)
            kills = down.usage.oom_kills or 0
            if kills > self._gauge.oom_seen:
                return Outcome(
                    status=Status.OUT_OF_MEMORY, signal=int(signals.SIGKILL), killed_by=KilledBy.OOM,
                    peak_memory_bytes=down.usage.peak_memory_bytes, cpu_seconds=down.usage.cpu_seconds,
                )
        raise error

    def let_go(self) -> None:
        self._agent.close()

    async def close(self) -> None:
        self._agent.close()
        await self._cell.engine.close([self._cell])


def outcome_of(done: Exit, limits: Limits, after: Usage) -> Outcome:
    """What happened, from the agent's report and the readings of the groups since its start."""
    code = os.waitstatus_to_exitcode(done.wait_status)
    signal = -code if code < 0 else None
    killed_by: KilledBy | None = None
    if done.flags & _wire.EXIT_TIMED_OUT:
        killed_by = KilledBy.TIMEOUT
    elif after.oom_kills:
        killed_by = KilledBy.OOM
    elif done.flags & _wire.EXIT_CPU or signal == signals.SIGXCPU:
        killed_by = KilledBy.CPU
    elif done.flags & _wire.EXIT_KILLED:
        killed_by = KilledBy.USER
    stdout, stderr = done.stdout, done.stderr
    if done.flags & _wire.EXIT_NOT_STARTED:
        stderr = os.strerror(done.error).encode()
    return Outcome(
        status=_status(done, code, killed_by),
        exit_code=None if signal or done.flags & _wire.EXIT_NOT_STARTED else code,
        signal=signal, killed_by=killed_by, stdout=stdout, stderr=stderr,
        stdout_bytes=done.stdout_bytes, stderr_bytes=done.stderr_bytes,
        stdout_truncated=done.stdout_bytes > len(stdout), stderr_truncated=done.stderr_bytes > len(stderr),
        wall_seconds=done.wall_seconds, cpu_seconds=done.cpu_seconds,
        peak_memory_bytes=done.peak_rss_bytes if after.peak_memory_bytes is None else after.peak_memory_bytes,
        peak_processes=after.peak_processes,
    )


def _status(done: Exit, code: int, killed_by: KilledBy | None) -> Status:
    if done.flags & _wire.EXIT_NOT_STARTED:
        return Status.NOT_STARTED
    if killed_by is KilledBy.TIMEOUT:
        return Status.TIMED_OUT
    if killed_by is KilledBy.OOM and code != 0:
        return Status.OUT_OF_MEMORY
    if killed_by is KilledBy.CPU:
        return Status.CPU_LIMIT
    if code < 0:
        return Status.SIGNALLED
    return Status.FAILED if code else Status.OK


class NativeBackend:
    """Makes native sandboxes. `engines` spawner processes share the work (default: one per CPU, at most 4).

    `rootless` (default: unless root) uses a user namespace. `warm` keeps an interpreter ready to be forked.
    `loopback=False` shares one empty network namespace among all sandboxes: no interface at all, and cheaper.

    Use as `async with NativeBackend() as backend`, or call `aclose`.
    """

    name = "native"

    def __init__(
        self, *, engines: int | None = None, rootless: bool | None = None, warm: Warm | None = None,
        loopback: bool = True,
    ) -> None:
        self._warm = warm
        self._network = _wire.NET_LOOPBACK if loopback else _wire.NET_EMPTY
        self._count = engines or min(4, len(os.sched_getaffinity(0)))
        self._rootless = os.geteuid() != 0 if rootless is None else rootless
        self._engines: list[Engine] = []
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._turn = 0

    async def __aenter__(self) -> NativeBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._stack.aclose()
        self._engines.clear()

    def probe(self) -> Capabilities:
        found = probe_native(rootless=self._rootless)
        return msgspec.structs.replace(found, warm=self._warm is not None)

    async def _engines_for(self, image: str) -> list[Engine]:
        if image != "host":
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"expected image 'host', found {image!r}")
        async with self._starting:
            while len(self._engines) < self._count:
                engine = Engine(_layout.host_image(self._warm), rootless=self._rootless, warm=self._warm)
                self._engines.append(await self._stack.enter_async_context(engine))
        return self._engines

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    @asynccontextmanager
    async def _open(self, image: str, limits: Limits, count: int, network: Network) -> AsyncIterator[Sequence[Sandbox]]:
        if network is not Network.NONE:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED, f"expected network 'none' for this backend, found {network.value!r}"
            )
        if count < 1:
            raise ValueError(f"expected a count of at least 1, found {count}")
        engines = await self._engines_for(image)
        cells: list[Cell] = []
        boxes: list[NativeSandbox] = []
        try:
            for engine, share in self._shares(engines, count):
                cells += await engine.open(limits, share, self._network)
            boxes += [NativeSandbox(cell, limits) for cell in cells]
            for box in boxes:
                await box.wait_ready()
            yield boxes
        finally:
            for box in boxes:
                box.let_go()
            await _close_all(cells)

    def _shares(self, engines: list[Engine], count: int) -> list[tuple[Engine, int]]:
        """How many each engine makes; single ones go round."""
        n = len(engines)
        self._turn += 1
        shares = [count // n + (1 if i < count % n else 0) for i in range(n)]
        return [(engines[(self._turn + i) % n], share) for i, share in enumerate(shares) if share]


async def _close_all(cells: list[Cell]) -> None:
    by_engine: dict[int, list[Cell]] = {}
    for cell in cells:
        by_engine.setdefault(id(cell.engine), []).append(cell)
    for group in by_engine.values():
        await group[0].engine.close(group)
