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
import functools
import os
import signal as signals
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import msgspec

from quintain.sandbox import _gateway, _root, _snapshots, _wire
from quintain.sandbox._agent import Agent
from quintain.sandbox._agent_files import NativeFiles
from quintain.sandbox._crews import Crews
from quintain.sandbox._engine import Cell, Engine
from quintain.sandbox._gateway import Door, Gateway, check_allow
from quintain.sandbox._gauge import Gauge
from quintain.sandbox._outcome import outcome_of
from quintain.sandbox._probe import probe_native
from quintain.sandbox._process import StartedProcess
from quintain.sandbox._running import Exit
from quintain.sandbox._warm import Warm
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, ProcessInfo, Sandbox, Snapshot
from quintain.sandbox.image import Image, Images, Ran
from quintain.types import MEBIBYTE, FaultKind, HouseError, KilledBy, Limits, Network, Outcome, Status

DOWN_NEWS_WITHIN_SECONDS = 2.0
FEW = 4  # who asks for so many will run programs in them at once
MANY = 64  # more get their control groups with their first program: until then they hold the agent alone
CPU_PERCENT = 100  # of one CPU: what a sandbox may use over time
IMAGES = ("host", "dir:PATH", "oci:LAYOUT[:TAG]", "build:CONTEXT", "+rw")
BUILD_LIMITS = Limits(
    wall_seconds=900.0, cpu_seconds=1800.0, memory_bytes=4096 * MEBIBYTE, disk_bytes=4096 * MEBIBYTE, inodes=500_000,
    processes=256,
)  # of each RUN of a Dockerfile


class NativeSandbox:
    """One sandbox of the native backend. Made by `NativeBackend.open`."""

    def __init__(
        self, cell: Cell, limits: Limits, *, image: Image,
        restore: Callable[..., AbstractAsyncContextManager[Sequence[Sandbox]]],
    ) -> None:
        assert cell.socket is not None and cell.engine.slot is not None
        self._cell = cell
        self._limits = limits
        self._image = image
        self._restore = restore
        self._agent = Agent(cell.socket)
        self._gauge = Gauge(cell.engine.directories, f"s{cell.place}", cell.engine.readings)
        self._door: Door | None = None
        self._joining = asyncio.Lock()
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
        try:
            if self._cell.bare:
                await self._join()
            self._begin()
            done = await self._agent.run(
                argv, stdin=stdin, env=self._environment(env), cwd=cwd, limits=limits, channel=channel, warm=warm,
                on_stdout=on_stdout, on_stderr=on_stderr,
            )
        except HouseError as error:
            return await self._lost(error)
        return await self._settle(limits, done)

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        outward = _gateway.environment() if self._door is not None else {}
        return {**_root.environment(self._image), **outward, **(env or {})}

    async def _settle(self, limits: Limits, done: Exit) -> Outcome:
        if done.flags & _wire.EXIT_LEFTOVER:
            raise HouseError(FaultKind.SANDBOX_LOST, "processes of a command could not be killed within 5 s")
        denied = await self._door.news() if self._door is not None else {}
        return outcome_of(done, limits, self._gauge.read(), denied)

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, stdin: bytes | None = b"", channel: int | None = None,
        terminal: tuple[int, int] | None = None, linger: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> StartedProcess:
        """See `Interactive.start`. What is measured of memory, CPU and denials is the sandbox's while it ran."""
        limits = self._limits if limits is None else limits.within(self._limits)
        await self._join()
        if not self._agent.busy:
            self._begin()
        running = await self._agent.start(
            argv, stdin=stdin, env=self._environment(env), cwd=cwd, limits=limits, channel=channel, terminal=terminal,
            linger=linger, on_stdout=on_stdout, on_stderr=on_stderr,
        )
        return StartedProcess(
            running, self._agent, settle=functools.partial(self._settle, limits), lost=self._lost
        )

    async def processes(self) -> Sequence[ProcessInfo]:
        """All but the agent and its wardens; as root also not those that made themselves undumpable."""
        return await self._agent.processes()

    async def pause(self) -> None:
        """SIGSTOP for every process, at once; time limits stand still. A frozen v1 group could not be killed when the
        house dies, so this is no control group's freezer; a program's parent can see that it was stopped."""
        await self._agent.freeze(True)

    async def resume(self) -> None:
        await self._agent.freeze(False)

    @property
    def workdir(self) -> str:
        """Where the image says that commands start (WORKDIR), or /work; for `cwd`."""
        return self._image.workdir or "/work"

    async def snapshot(self) -> Snapshot:
        """See `Forking.snapshot`."""
        await self._join()
        return await _snapshots.save(self._agent, self._limits, self._image)

    async def restore(self, snapshot: Snapshot) -> None:
        """Take on the files of a snapshot; once, before anything has run here."""
        await self._join()
        await _snapshots.restore(self._agent, self._limits, snapshot)

    @asynccontextmanager
    async def fork(self, count: int = 1, *, limits: Limits | None = None) -> AsyncIterator[Sequence[Sandbox]]:
        """See `Forking.fork`."""
        kept = await self.snapshot()
        async with self._restore(kept, limits=limits or self._limits, count=count) as boxes:
            yield boxes

    async def open_door(self, gateway: Gateway, network: Network, allow: Sequence[str]) -> None:
        """Give it the way out that `network` and `allow` describe. Raises HouseError."""
        try:
            listener = await self._agent.listen(_gateway.PROXY_PORT)
        except OSError as error:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"cannot listen on its loopback: {error}") from None
        self._door = await gateway.open_door(self.id, listener, network, allow)

    async def denied(self) -> dict[str, int]:
        """All that was refused at its way out so far: 'host:port' → how often."""
        return await self._door.total() if self._door is not None else {}

    async def shut_door(self) -> None:
        if self._door is not None:
            door, self._door = self._door, None
            with suppress(HouseError):  # with the gateway its doors are shut
                await door.close()

    async def _join(self) -> None:
        """Before whatever runs with a program's rights: the control groups of a sandbox that was opened among many."""
        if not self._cell.bare:
            return
        async with self._joining:
            if self._cell.bare:
                fds, accounts = await self._cell.engine.groups_of(self._cell)
                try:
                    await self._agent.join(fds, accounts)
                finally:
                    for fd in fds:
                        os.close(fd)
                self._cell.bare = False

    def bound_cpu(self) -> None:
        """See `Gauge.bound_cpu`; where the groups served before, they have their quota. Raises HouseError."""
        bounded = self._cell.engine.bounded
        try:
            if self._cell.place not in bounded:
                self._gauge.bound_cpu(CPU_PERCENT)
                bounded.add(self._cell.place)
        except OSError as error:
            raise HouseError(FaultKind.SANDBOX_LOST, f"its CPU quota cannot be set: {error}") from None

    def _begin(self) -> None:
        self.bound_cpu()
        self._gauge.begin()

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
        self._gauge.close()

    async def close(self) -> None:
        self._agent.close()
        await self._cell.engine.close([self._cell])


class NativeBackend:
    """Makes native sandboxes. `engines` spawner processes share the work (default: one per CPU, at most 4).

    `rootless` (default: unless root) uses a user namespace. `warm` keeps an interpreter ready to be forked.
    `loopback=False` shares one empty network namespace among all sandboxes: no interface at all, and cheaper.
    `cache` is where layers of images are kept (default: below $XDG_CACHE_HOME); the engines of at most `images` images
    are kept running beyond those in use.
    `terminals` gives each sandbox a devpts of its own, for `start(terminal=...)`; one more mount each.

    A sandbox with a network other than NONE still has nothing but its loopback: there listens an HTTP proxy (http_proxy
    and https_proxy are set) that lives outside, judges name and address, and counts what it refuses (`_proxy`).

    Use as `async with NativeBackend() as backend`, or call `aclose`.
    """

    name = "native"

    def __init__(
        self, *, engines: int | None = None, rootless: bool | None = None, warm: Warm | None = None,
        loopback: bool = True, terminals: bool = False, cache: Path | None = None, images: int = 8,
    ) -> None:
        self._warm = warm
        self._network = _wire.NET_LOOPBACK if loopback else _wire.NET_EMPTY
        self._rootless = os.geteuid() != 0 if rootless is None else rootless
        self._flags = _wire.OPEN_TERMINALS if terminals else 0
        self._gateway = Gateway()
        count = engines or min(4, len(os.sched_getaffinity(0)))
        self._crews = Crews(count=count, rootless=self._rootless, warm=warm, most=images)
        self._images = Images(cache, self._build_step)
        self._turn = 0

    async def __aenter__(self) -> NativeBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._gateway.aclose()
        await self._crews.aclose()

    @property
    def engines_running(self) -> int:
        return self._crews.engines

    def probe(self) -> Capabilities:
        found = probe_native(rootless=self._rootless)
        networks = tuple(Network) if self._network == _wire.NET_LOOPBACK else (Network.NONE,)
        return msgspec.structs.replace(
            found, warm=self._warm is not None, networks=networks, snapshot=True, images=IMAGES
        )

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        allow: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        check_allow(network, allow)
        return self._open(image, limits, count, network, allow)

    def restore(
        self, snapshot: Snapshot, *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        allow: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """See `Snapshots.restore`."""
        check_allow(network, allow)
        return self._restore(snapshot, limits, count, network, allow)

    @asynccontextmanager
    async def _restore(
        self, snapshot: Snapshot, limits: Limits, count: int, network: Network, allow: Sequence[str],
    ) -> AsyncIterator[Sequence[Sandbox]]:
        image = await self._images.find(snapshot.image)
        if image.digest != snapshot.image_digest:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"expected {snapshot.image} with digest {snapshot.image_digest!r}, found {image.digest!r} here",
            )
        async with self._opened(image, limits, count, network, allow) as boxes:
            for box in boxes:
                await box.restore(snapshot)
            yield boxes

    async def _build_step(self, image: Image, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Ran:
        async with self._opened(image, BUILD_LIMITS, 1, Network.NONE, ()) as [box]:
            outcome = await box.run(argv, env=env, cwd=cwd)
            said = outcome.text + outcome.error_text
            if outcome.status is not Status.OK:
                how = f"exit code {outcome.exit_code}" if outcome.exit_code else outcome.status.value.replace("_", " ")
                return Ran(problem=f"found {how}", output=said, changes=b"")
            return Ran(problem="", output=said, changes=(await box.snapshot()).content)

    @asynccontextmanager
    async def _open(
        self, image: str, limits: Limits, count: int, network: Network, allow: Sequence[str],
    ) -> AsyncIterator[Sequence[Sandbox]]:
        async with self._opened(await self._images.find(image), limits, count, network, allow) as boxes:
            yield boxes

    @asynccontextmanager
    async def _opened(
        self, image: Image, limits: Limits, count: int, network: Network, allow: Sequence[str],
    ) -> AsyncIterator[list[NativeSandbox]]:
        if network is not Network.NONE and self._network != _wire.NET_LOOPBACK:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"expected network 'none' from a backend without loopback, found {network.value!r}",
            )
        if count < 1:
            raise ValueError(f"expected a count of at least 1, found {count}")
        again = functools.partial(self.restore, network=network, allow=allow)
        cells: list[Cell] = []
        boxes: list[NativeSandbox] = []
        async with self._crews.use(image) as engines:
            try:
                flags = self._flags | (_wire.OPEN_BARE if count > MANY else 0)
                for engine, share in self._shares(engines, count):
                    cells += await engine.open(limits, share, self._network, flags)
                boxes += [NativeSandbox(cell, limits, image=image, restore=again) for cell in cells]
                for box in boxes:
                    await box.wait_ready()
                    if count <= FEW:
                        box.bound_cpu()  # who asks for few will run in them, and should not wait for it then
                    if network is not Network.NONE:
                        await box.open_door(self._gateway, network, allow)
                yield boxes
            finally:
                for box in boxes:
                    box.let_go()
                    await box.shut_door()
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
