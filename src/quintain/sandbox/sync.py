"""The SDK without asyncio: the same names, answered from a private event loop in a thread of its own.

Callbacks are called from that thread. A sandbox that is never killed ends with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from quintain.sandbox._commands import CommandHandle, CommandInfo, CommandResult
from quintain.sandbox._filespace import FileEvent, Watch
from quintain.sandbox._sessions import Session
from quintain.sandbox.base import FileInfo, ProcessInfo, Snapshot
from quintain.sandbox.sdk import DEFAULT_TIMEOUT_SECONDS, SANDBOX_LIMITS, Sandbox
from quintain.types import Limits, Network

T = TypeVar("T")


class Loop:
    """An event loop in a thread, until closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="quintain-sdk", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait; an interrupt here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, act: Callable[[], None]) -> None:
        async def now() -> None:
            act()

        self.do(now())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.do(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncHandle:
    """A command in the background; see `CommandHandle`."""

    def __init__(self, loop: Loop, handle: CommandHandle) -> None:
        self._loop = loop
        self._handle = handle

    @property
    def pid(self) -> int:
        return self._handle.pid

    def wait(self, *, check: bool = False) -> CommandResult:
        return self._loop.do(self._handle.wait(check=check))

    def kill(self) -> None:
        self._loop.do(self._handle.kill())

    def send_signal(self, number: int) -> None:
        self._loop.do(self._handle.send_signal(number))

    def send_stdin(self, data: str | bytes) -> None:
        self._loop.do(self._handle.send_stdin(data))

    def close_stdin(self) -> None:
        self._loop.do(self._handle.close_stdin())

    def resize(self, rows: int, columns: int) -> None:
        self._loop.do(self._handle.resize(rows, columns))

    def output(self) -> Iterator[tuple[Literal["stdout", "stderr"], str]]:
        pieces = self._handle.output()

        async def piece() -> tuple[Literal["stdout", "stderr"], str] | None:
            return await anext(pieces, None)

        while (found := self._loop.do(piece())) is not None:
            yield found


class SyncCommands:
    """See `Commands`."""

    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._commands = sandbox.commands

    @overload
    def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = ..., cwd: str = ...,
        env: Mapping[str, str] | None = ..., timeout: float | None = ...,
        on_stdout: Callable[[str], None] | None = ..., on_stderr: Callable[[str], None] | None = ...,
        background: Literal[False] = ..., check: bool = ...,
    ) -> CommandResult: ...

    @overload
    def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = ..., cwd: str = ...,
        env: Mapping[str, str] | None = ..., timeout: float | None = ...,
        on_stdout: Callable[[str], None] | None = ..., on_stderr: Callable[[str], None] | None = ...,
        background: Literal[True], check: bool = ...,
    ) -> SyncHandle: ...

    def run(
        self, cmd: str | Sequence[str], *, stdin: str | bytes | bool = False, cwd: str = "/work",
        env: Mapping[str, str] | None = None, timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None, on_stderr: Callable[[str], None] | None = None,
        background: bool = False, check: bool = False,
    ) -> CommandResult | SyncHandle:
        if background:
            handle = self._loop.do(self._commands.run(
                cmd, stdin=stdin, cwd=cwd, env=env, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr,
                background=True, check=check,
            ))
            return SyncHandle(self._loop, handle)
        return self._loop.do(self._commands.run(
            cmd, stdin=stdin, cwd=cwd, env=env, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr, check=check,
        ))

    def list(self) -> list[CommandInfo]:
        return self._loop.do(self._commands.list())

    def connect(self, pid: int) -> SyncHandle:
        return SyncHandle(self._loop, self._loop.do(self._commands.connect(pid)))

    def kill(self, pid: int) -> bool:
        return self._loop.do(self._commands.kill(pid))


class SyncWatch:
    """See `Watch`."""

    def __init__(self, loop: Loop, watch: Watch) -> None:
        self._loop = loop
        self._watch = watch

    def get_new_events(self) -> list[FileEvent]:
        return self._loop.do(self._watch.get_new_events())


class SyncFiles:
    """See `Filespace`."""

    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._files = sandbox.files

    @overload
    def read(self, path: str, *, format: Literal["text"] = ...) -> str: ...
    @overload
    def read(self, path: str, *, format: Literal["bytes"]) -> bytes: ...

    def read(self, path: str, *, format: Literal["text", "bytes"] = "text") -> str | bytes:
        if format == "bytes":
            return self._loop.do(self._files.read(path, format="bytes"))
        return self._loop.do(self._files.read(path))

    def write(self, path: str, data: str | bytes, *, mode: int = 0o644) -> None:
        self._loop.do(self._files.write(path, data, mode=mode))

    def write_files(self, files: Mapping[str, str | bytes]) -> None:
        self._loop.do(self._files.write_files(files))

    def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        return self._loop.do(self._files.list(path, depth=depth))

    def exists(self, path: str) -> bool:
        return self._loop.do(self._files.exists(path))

    def get_info(self, path: str) -> FileInfo:
        return self._loop.do(self._files.get_info(path))

    def remove(self, path: str) -> None:
        self._loop.do(self._files.remove(path))

    def rename(self, old_path: str, new_path: str) -> FileInfo:
        return self._loop.do(self._files.rename(old_path, new_path))

    def make_dir(self, path: str) -> bool:
        return self._loop.do(self._files.make_dir(path))

    def watch_dir(self, path: str, *, recursive: bool = False) -> SyncWatch:
        return SyncWatch(self._loop, self._loop.do(self._files.watch_dir(path, recursive=recursive)))


class SyncSession:
    """See `Session`."""

    def __init__(self, loop: Loop, session: Session) -> None:
        self._loop = loop
        self._session = session

    def run(
        self, cmd: str, *, stdin: str | bytes = b"", timeout: float | None = 60.0,
        on_stdout: Callable[[str], None] | None = None, on_stderr: Callable[[str], None] | None = None,
        check: bool = False,
    ) -> CommandResult:
        return self._loop.do(self._session.run(
            cmd, stdin=stdin, timeout=timeout, on_stdout=on_stdout, on_stderr=on_stderr, check=check
        ))

    def close(self) -> None:
        self._loop.do(self._session.close())


class SyncSessions:
    """See `Sessions`."""

    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._sessions = sandbox.sessions

    def create(
        self, name: str | None = None, *, cwd: str = "/work", env: Mapping[str, str] | None = None
    ) -> SyncSession:
        return SyncSession(self._loop, self._loop.do(self._sessions.create(name, cwd=cwd, env=env)))


class SyncPty:
    """See `Pty`."""

    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._pty = sandbox.pty

    def create(
        self, size: tuple[int, int] = (24, 80), *, cmd: Sequence[str] = (), cwd: str = "/work",
        env: Mapping[str, str] | None = None, timeout: float | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> SyncHandle:
        made = self._pty.create(size, cmd=cmd, cwd=cwd, env=env, timeout=timeout, on_data=on_data)
        return SyncHandle(self._loop, self._loop.do(made))


class SyncSandbox:
    """One sandbox with an engine and an event loop of its own; see `Sandbox`. Use `with SyncSandbox.create() as s`."""

    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._sandbox = sandbox
        self._over = False
        self.commands = SyncCommands(loop, sandbox)
        self.files = SyncFiles(loop, sandbox)
        self.sessions = SyncSessions(loop, sandbox)
        self.pty = SyncPty(loop, sandbox)

    @classmethod
    def create(
        cls, image: str | Snapshot = "host", *, timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
        env: Mapping[str, str] | None = None, limits: Limits = SANDBOX_LIMITS, network: Network = Network.NONE,
        allow: Sequence[str] = (),
    ) -> SyncSandbox:
        """Raises HouseError, ValueError."""
        loop = Loop()
        try:
            return cls(loop, loop.do(Sandbox.create(
                image, timeout=timeout, env=env, limits=limits, network=network, allow=allow
            )))
        except BaseException:
            loop.close()
            raise

    def __enter__(self) -> SyncSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def sandbox_id(self) -> str:
        return self._sandbox.sandbox_id

    def set_timeout(self, seconds: float) -> None:
        self._loop.call(lambda: self._sandbox.set_timeout(seconds))

    def is_running(self) -> bool:
        return not self._over and self._loop.do(self._sandbox.is_running())

    def kill(self) -> bool:
        """End it and its loop; False when it had ended before."""
        if self._over:
            return False
        self._over = True
        try:
            return self._loop.do(self._sandbox.kill())
        finally:
            self._loop.close()

    def pause(self) -> None:
        self._loop.do(self._sandbox.pause())

    def resume(self) -> None:
        self._loop.do(self._sandbox.resume())

    def snapshot(self) -> Snapshot:
        """`SyncSandbox.create(snapshot)` opens another with the same files: the sync face's fork."""
        return self._loop.do(self._sandbox.snapshot())

    def processes(self) -> Sequence[ProcessInfo]:
        return self._loop.do(self._sandbox.processes())

    def denied(self) -> dict[str, int]:
        return self._loop.do(self._sandbox.denied())
