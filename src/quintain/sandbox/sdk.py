"""Sandboxes as a user of an SDK knows them: one object that runs commands, holds files, keeps shells.

`quintain.sdk` is the face. This `Sandbox` is not the protocol `quintain.sandbox.Sandbox`: it is made over one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, cast

from quintain.sandbox._commands import CommandError, CommandHandle, CommandInfo, CommandResult, Commands, limits_for
from quintain.sandbox._filespace import Change, FileEvent, Filespace
from quintain.sandbox._sessions import Session, Sessions
from quintain.sandbox.base import Backend, Interactive, Networked, ProcessInfo
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
]


class _Counting(Protocol):
    async def denied(self) -> dict[str, int]: ...


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


class Sandbox:
    """One sandbox; made by `await Sandbox.create(...)`, ended by `kill` or at the end of `async with`.

    After its `timeout` (seconds from now; `set_timeout` renews it) everything inside is killed; whoever waits then gets
    HouseError(SANDBOX_LOST).
    """

    def __init__(self, box: Interactive, stack: AsyncExitStack, *, env: Mapping[str, str]) -> None:
        self._box = box
        self._stack = stack
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self.commands = Commands(box, env)
        self.files = Filespace(box.files)
        self.sessions = Sessions(box, env)
        self.pty = Pty(box, env, self.commands)

    @classmethod
    async def create(
        cls, image: str = "host", *, timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
        env: Mapping[str, str] | None = None, limits: Limits = SANDBOX_LIMITS, network: Network = Network.NONE,
        allow: Sequence[str] = (), backend: Backend | None = None,
    ) -> Sandbox:
        """Open one. Without `backend` it brings an engine of its own (some tens of milliseconds); share one
        `NativeBackend(terminals=True)` among many. `allow`: see `Networked.open`. Raises HouseError, ValueError.
        """
        stack = AsyncExitStack()
        try:
            if backend is None:
                backend = await stack.enter_async_context(NativeBackend(engines=1, terminals=True))
            if network is Network.NONE and not allow:
                opening = backend.open(image, limits=limits)
            elif network in backend.probe().networks:
                opening = cast(Networked, backend).open(image, limits=limits, network=network, allow=allow)
            else:
                raise ValueError(f"expected a backend with network {network.value!r}, found {backend.name!r}")
            [box] = await stack.enter_async_context(opening)
            if not hasattr(box, "start"):
                raise ValueError(f"expected a backend with interactive sandboxes, found {backend.name!r}")
        except BaseException:
            await stack.aclose()
            raise
        sandbox = cls(cast(Interactive, box), stack, env=env or {})
        if timeout is not None:
            sandbox.set_timeout(timeout)
        return sandbox

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
