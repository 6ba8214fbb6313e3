"""Commands as a user of the SDK starts, watches and steers them."""

from __future__ import annotations

import asyncio
import codecs
import signal as signals
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, overload

import msgspec

from quintain.sandbox.base import Interactive, Process
from quintain.types import KilledBy, Limits, Outcome, Status

DEFAULT_TIMEOUT_SECONDS = 60.0


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. A non-zero exit is a result, not an error.

    `exit_code` is `None` when a signal ended it or it never began (`status` says which). Text is decoded as UTF-8, what
    is none becomes U+FFFD; `outcome` has the bytes. `None` in a measure: not measured. Memory, processes, CPU and
    denials are the whole sandbox's while the command ran; disk is what the writable tree holds at its end.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    status: Status
    signal: int | None
    timed_out: bool
    oom_killed: bool
    killed_by: KilledBy | None
    stdout_truncated: bool
    stderr_truncated: bool
    wall_seconds: float
    cpu_seconds: float | None
    peak_memory_bytes: int | None
    peak_processes: int | None
    disk_used_bytes: int | None
    denials: dict[str, int]
    outcome: Outcome

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @classmethod
    def of(cls, outcome: Outcome) -> CommandResult:
        return cls(
            stdout=outcome.text, stderr=outcome.error_text, exit_code=outcome.exit_code, status=outcome.status,
            signal=outcome.signal, timed_out=outcome.timed_out, oom_killed=outcome.oom_killed,
            killed_by=outcome.killed_by, stdout_truncated=outcome.stdout_truncated,
            stderr_truncated=outcome.stderr_truncated, wall_seconds=outcome.wall_seconds,
            cpu_seconds=outcome.cpu_seconds, peak_memory_bytes=outcome.peak_memory_bytes,
            peak_processes=outcome.peak_processes, disk_used_bytes=outcome.disk_used_bytes, denials=outcome.denials,
            outcome=outcome,
        )


class CommandError(Exception):
    """A command that was to be checked did not end well; `result` tells how."""

    def __init__(self, command: str, result: CommandResult) -> None:
        how = f"exit code {result.exit_code}" if result.exit_code is not None else result.status.value
        if result.signal is not None:
            how += f" (signal {result.signal})"
        last = result.stderr.strip()[-500:]
        super().__init__(f"{command!r} ended with {how}" + (f": {last}" if last else ""))
        self.command = command
        self.result = result


class CommandInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs: `pid` inside the sandbox, as it was asked for."""

    pid: int
    command: str
    cwd: str


def checked(command: str, result: CommandResult, check: bool) -> CommandResult:
    """The result; raises CommandError when it is to be checked and is not OK."""
    if check and not result.ok:
        raise CommandError(command, result)
    return result


class Decoded:
    """Passes text on to a listener as it comes, never a split character."""

    def __init__(self, listener: Callable[[str], None]) -> None:
        self._listener = listener
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __call__(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if text:
            self._listener(text)

    def finish(self) -> None:
        """A character that never became whole."""
        text = self._decoder.decode(b"", True)
        if text:
            self._listener(text)


class CommandHandle:
    """A command in the background. It ends by itself, by its timeout, by `kill`, or with its sandbox."""

    def __init__(self, process: Process, info: CommandInfo, listeners: Sequence[Decoded] = ()) -> None:
        self._process = process
        self._listeners = listeners
        self.info = info

    @property
    def pid(self) -> int:
        return self.info.pid

    @property
    def ended(self) -> bool:
        return self._process.ended

    async def wait(self, *, check: bool = False) -> CommandResult:
        """How it ended. Raises CommandError when `check` and not OK; HouseError when the sandbox is gone."""
        outcome = await self._process.wait()
        for listener in self._listeners:
            listener.finish()
        return checked(self.info.command, CommandResult.of(outcome), check)

    async def kill(self) -> None:
        """SIGKILL for its whole tree, whatever session or parent its processes have chosen."""
        await self._process.kill()

    async def send_signal(self, number: int = signals.SIGTERM) -> None:
        """To its process group."""
        await self._process.signal(number)

    async def send_stdin(self, data: str | bytes) -> None:
        """Waits while 256 KiB are not yet read. What comes after the command closed its stdin is lost."""
        await self._process.send(data.encode() if isinstance(data, str) else data)

    async def close_stdin(self) -> None:
        await self._process.end_input()

    async def resize(self, rows: int, columns: int) -> None:
        """Of its terminal, where it has one (`pty.create`)."""
        await self._process.resize(rows, columns)

    async def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], str]]:
        """Text as it comes, for one reader; the command waits when its reader falls 256 KiB behind."""
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        async for name, data in self._process.output():
            text = decoders[name].decode(data)
            if text:
                yield ("stdout" if name == "stdout" else "stderr"), text
        for name, decoder in decoders.items():
            text = decoder.decode(b"", True)
            if text:
                yield ("stdout" if name == "stdout" else "stderr"), text


class Commands:
    """`sandbox.commands`: several can run at a time, each with a process tree of its own."""

    def __init__(self, box: Interactive, env: Mapping[str, str]) -> None:
        self._box = box
        self._env = dict(env)
        self._handles: dict[int, CommandHandle] = {}
        self._shell: str | None = None

    @overload
    async def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = ..., cwd: str = ...,
        env: Mapping[str, str] | None = ..., timeout: float | None = ...,
        on_stdout: Callable[[str], None] | None = ..., on_stderr: Callable[[str], None] | None = ...,
        background: Literal[False] = ..., check: bool = ...,
    ) -> CommandResult: ...

    @overload
    async def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = ..., cwd: str = ...,
        env: Mapping[str, str] | None = ..., timeout: float | None = ...,
        on_stdout: Callable[[str], None] | None = ..., on_stderr: Callable[[str], None] | None = ...,
        background: Literal[True], check: bool = ...,
    ) -> CommandHandle: ...

    async def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = False, cwd: str = "/work",
        env: Mapping[str, str] | None = None, timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None, on_stderr: Callable[[str], None] | None = None,
        background: bool = False, check: bool = False,
    ) -> CommandResult | CommandHandle:
        """Run a shell command line (bash where there is one) or the words of a program.

        `stdin`: what the command reads, or True for a pipe that stays open (`CommandHandle.send_stdin`). `timeout` in
        seconds: 60 by default, in the background none but the sandbox's own; at its end the whole tree is killed and
        the output so far kept. `check=True` raises CommandError unless it ends OK; with `background=True` give it to
        `wait`. Cancelling kills it. Raises HouseError when the sandbox is gone.
        """
        if background and check:
            raise ValueError("expected check=True at CommandHandle.wait, found it beside background=True")
        if stdin is True and not background:
            raise ValueError("expected background=True with an open stdin: nobody else could write to it")
        if timeout is None and not background:
            timeout = DEFAULT_TIMEOUT_SECONDS
        handle = await self._start(
            cmd, stdin=None if stdin is True else b"" if stdin is False else stdin, cwd=cwd, env=env, timeout=timeout,
            on_stdout=on_stdout, on_stderr=on_stderr,
        )
        if background:
            return handle
        try:
            return await handle.wait(check=check)
        except asyncio.CancelledError:
            await handle.kill()
            raise
        finally:
            self._handles.pop(handle.pid, None)

    async def _start(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | None, cwd: str, env: Mapping[str, str] | None,
        timeout: float | None, on_stdout: Callable[[str], None] | None, on_stderr: Callable[[str], None] | None,
    ) -> CommandHandle:
        argv = [await self.shell(), "-c", cmd] if isinstance(cmd, str) else list(cmd)
        listeners = [Decoded(on_stdout) if on_stdout else None, Decoded(on_stderr) if on_stderr else None]
        process = await self._box.start(
            argv, stdin=stdin.encode() if isinstance(stdin, str) else stdin, cwd=cwd, env={**self._env, **(env or {})},
            limits=limits_for(timeout), on_stdout=listeners[0], on_stderr=listeners[1],
        )
        info = CommandInfo(pid=process.pid, command=cmd if isinstance(cmd, str) else " ".join(cmd), cwd=cwd)
        return self.keep(CommandHandle(process, info, [x for x in listeners if x is not None]))

    def keep(self, handle: CommandHandle) -> CommandHandle:
        if handle.pid:
            self._handles[handle.pid] = handle
        return handle

    async def shell(self) -> str:
        """The sandbox's shell: bash, or sh where there is none."""
        if self._shell is None:
            self._shell = "/bin/bash" if await self._box.files.exists("/bin/bash") else "/bin/sh"
        return self._shell

    async def list(self) -> list[CommandInfo]:
        """The commands that this SDK object started and that still run."""
        self._handles = {pid: handle for pid, handle in self._handles.items() if not handle.ended}
        return [handle.info for handle in self._handles.values()]

    async def connect(self, pid: int) -> CommandHandle:
        """The handle of a command in the background. Raises KeyError when there is none of that pid."""
        if pid not in self._handles:
            raise KeyError(f"expected the pid of a command that was started here, found {pid}")
        return self._handles[pid]

    async def kill(self, pid: int) -> bool:
        """Kill a command and its tree; False when no such command runs."""
        if pid not in {info.pid for info in await self.list()}:
            return False
        await self._handles[pid].kill()
        return True


def limits_for(timeout: float | None) -> Limits | None:
    """Only the wall clock is narrower than the sandbox's own limits. Raises ValueError for what is not positive."""
    if timeout is None:
        return None
    return Limits(
        wall_seconds=timeout, cpu_seconds=_OPEN, memory_bytes=_OPEN, disk_bytes=_OPEN, inodes=_OPEN,
        output_bytes=_OPEN, processes=_OPEN,
    )


_OPEN = 1 << 62  # clipped by the sandbox's own
