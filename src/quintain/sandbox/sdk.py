"""Sandboxes as a user of an SDK knows them: one object that runs commands, holds files, keeps shells.

`quintain.sdk` is the face. This `Sandbox` is not the protocol `quintain.sandbox.Sandbox`: it is made over one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import NamedTuple, Protocol, cast

from quintain.sandbox._commands import CommandError, CommandHandle, CommandInfo, CommandResult, Commands, limits_for
from quintain.sandbox._filespace import Change, FileEvent, Filespace
from quintain.sandbox._sessions import Session, Sessions
from quintain.sandbox.base import Backend, Forking, Interactive, Networked, ProcessInfo, Snapshot, Snapshots
from quintain.sandbox.base import Sandbox as ProtocolSandbox
from quintain.sandbox.native import NativeBackend
from quintain.types import MEBIBYTE, HouseError, Limits, Network

#: Of a sandbox that an SDK user makes: it lives longer and does more than one program of an exercise.
SANDBOX_LIMITS = Limits(
    wall_seconds=24 * 3600.0, cpu_seconds=24 * 3600.0, memory_bytes=1024 * MEBIBYTE, disk_bytes=512 * MEBIBYTE,
    inodes=65_536, processes=256,
)
DEFAULT_TIMEOUT_SECONDS = 3600.0

__all__ = [
    "Change", "CommandError", "CommandHandle", "CommandInfo", "CommandResult", "Commands", "DEFAULT_TIMEOUT_SECONDS",
    "FileEvent", "Filespace", "Pty", "SANDBOX_LIMITS", "Sandbox", "Session", "Sessions",
    "Snapshot",
]


class _Counting(Protocol):
    async def denied(self) -> dict[str, int]: ...


class _Same(NamedTuple):
    """What a fork has in common with its origin, besides the files."""

    env: dict[str, str]
    limits: Limits
    network: Network
    allow: tuple[str, ...]
    timeout: float | None


class Pty:
    """`sandbox.pty`: programs that want a terminal."""

    def __init__(self, box: Interactive, env: Mapping[str, str], commands: Commands) -> None:
        self._box = box
        self._env = dict(env)
        self._commands = commands

    async def create(
        self, size: tuple[int, int] = (24, 80), *, cmd: Sequence[str] = (), cwd: str = "/work",
        env: Mapping[str, str] | None = None, timeout: float | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> CommandHandle:
        """A program (default: the shell, interactive) on a terminal of `size` = (rows, columns).

        Its output is all stdout, `on_data` gets it raw; write to it with `send_stdin`, resize it with `resize`. Raises
        OSError when the program cannot be started, or the backend makes no terminals (`NativeBackend(terminals=True)`).
        """
        argv = tuple(cmd) or (await self._commands.shell(), "-i")
        process = await self._box.start(
            argv, cwd=cwd, env={"TERM": "xterm-256color", **self._env, **(env or {})}, limits=limits_for(timeout),
            stdin=None, terminal=size, on_stdout=on_data,
        )
        if not process.pid:
            outcome = await process.wait()
            raise OSError(f"cannot start {argv[0]!r} on a terminal: {outcome.error_text}")
        return self._commands.keep(
            CommandHandle(process, CommandInfo(pid=process.pid, command=" ".join(argv), cwd=cwd))
        )


class _Engine:
    """The backend that a sandbox and its forks share; closed by the last of them where it is our own."""

    def __init__(self, backend: Backend, *, ours: bool) -> None:
        self.backend = backend
        self._ours = ours
        self._users = 0

    def enter(self) -> None:
        self._users += 1

    async def leave(self) -> None:
        self._users -= 1
        if self._ours and not self._users:
            await self.backend.aclose()

    def opening(
        self, image: str | Snapshot, limits: Limits, network: Network, allow: Sequence[str]
    ) -> AbstractAsyncContextManager[Sequence[ProtocolSandbox]]:
        """What opens one; says what the backend lacks with ValueError."""
        if isinstance(image, Snapshot):
            if not hasattr(self.backend, "restore"):
                raise ValueError(f"expected a backend that restores snapshots, found {self.backend.name!r}")
            return cast(Snapshots, self.backend).restore(image, limits=limits, network=network, allow=allow)
        if network is Network.NONE and not allow:
            return self.backend.open(image, limits=limits)
        if network not in self.backend.probe().networks:
            raise ValueError(f"expected a backend with network {network.value!r}, found {self.backend.name!r}")
        return cast(Networked, self.backend).open(image, limits=limits, network=network, allow=allow)


class Sandbox:
    """One sandbox; made by `await Sandbox.create(...)`, ended by `kill` or at the end of `async with`.

    After its `timeout` (seconds from now; `set_timeout` renews it) everything inside is killed; whoever waits then gets
    HouseError(SANDBOX_LOST).
    """

    def __init__(self, box: Interactive, stack: AsyncExitStack, engine: _Engine, same: _Same) -> None:
        self._box = box
        self._stack = stack
        self._engine = engine
        self._same = same
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.commands = Commands(box, same.env)
        self.files = Filespace(box.files)
        self.sessions = Sessions(box, same.env)
        self.pty = Pty(box, same.env, self.commands)

    @classmethod
    async def create(
        cls, image: str | Snapshot = "host", *, timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
        env: Mapping[str, str] | None = None, limits: Limits = SANDBOX_LIMITS, network: Network = Network.NONE,
        allow: Sequence[str] = (), backend: Backend | None = None,
    ) -> Sandbox:
        """Open one, of an image or with the files of a snapshot. Without `backend` it brings an engine of its own (some
        tens of milliseconds); share one `NativeBackend(terminals=True)` among many. `allow`: see `Networked.open`.

        Raises HouseError, and ValueError for what the backend does not offer.
        """
        engine = _Engine(backend or NativeBackend(engines=1, terminals=True), ours=backend is None)
        same = _Same(dict(env or {}), limits, network, tuple(allow), timeout)
        return await cls._open(engine, image, same)

    @classmethod
    async def _open(cls, engine: _Engine, image: str | Snapshot, same: _Same) -> Sandbox:
        async with AsyncExitStack() as stack:
            engine.enter()
            stack.push_async_callback(engine.leave)
            opening = engine.opening(image, same.limits, same.network, same.allow)
            [box] = await stack.enter_async_context(opening)
            if not hasattr(box, "start"):
                raise ValueError(f"expected a backend with interactive sandboxes, found {engine.backend.name!r}")
            sandbox = cls(cast(Interactive, box), stack.pop_all(), engine, same)
        if same.timeout is not None:
            sandbox.set_timeout(same.timeout)
        return sandbox

    async def snapshot(self) -> Snapshot:
        """What its files are now: `Sandbox.create(snapshot)` opens others with the same, here or on another host."""
        if not hasattr(self._box, "snapshot"):
            raise ValueError(f"expected a backend that takes snapshots, found {self._engine.backend.name!r}")
        return await cast(Forking, self._box).snapshot()

    async def fork(self, count: int = 1) -> list[Sandbox]:
        """`count` others with the same files, limits, network and environment; processes and memory are not carried
        over. They live on when this one ends. Raises HouseError, all or none."""
        snapshot = await self.snapshot()
        async with AsyncExitStack() as undo:
            made: list[Sandbox] = []
            for _ in range(count):
                made.append(await self._open(self._engine, snapshot, self._same))
                undo.push_async_callback(made[-1].kill)
            undo.pop_all()
        return made

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    @property
    def sandbox_id(self) -> str:
        return self._box.id

    def set_timeout(self, seconds: float) -> None:
        """It ends so many seconds from now. Raises ValueError for what is not positive."""
        if not seconds > 0:
            raise ValueError(f"expected a timeout greater than 0, found {seconds!r}")
        if self._timer is not None:
            self._timer.cancel()
        if not self._over:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._over = True
        self._box.let_go()

    async def is_running(self) -> bool:
        if self._over:
            return False
        try:
            return await self._box.files.exists("/work")
        except HouseError:
            return False

    async def kill(self) -> bool:
        """End it and wait until nothing is left; False when it had ended before."""
        was_over, self._over = self._over, True
        if self._timer is not None:
            self._timer.cancel()
        await self._stack.aclose()
        return not was_over

    async def pause(self) -> None:
        """Stop everything inside; time limits of its commands stand still, its own timeout does not."""
        await self._box.pause()

    async def resume(self) -> None:
        await self._box.resume()

    async def processes(self) -> Sequence[ProcessInfo]:
        """Whatever runs inside, started by us or not."""
        return await self._box.processes()

    async def denied(self) -> dict[str, int]:
        """What was refused at its way out so far: 'host:port' → how often; empty without a network."""
        counting = cast(_Counting, self._box)
        return await counting.denied() if hasattr(self._box, "denied") else {}
