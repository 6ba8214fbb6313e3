"""The house's end of the socket to the agent inside one sandbox: runs and file requests, many at a time."""

from __future__ import annotations

import array
import asyncio
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from quintain.sandbox import _wire
from quintain.sandbox._wire import A
from quintain.types import FaultKind, HouseError, Limits

GRACE_SECONDS = 10.0  # beyond a command's own deadline, before the house stops believing in its sandbox
READY_WITHIN_SECONDS = 60.0


class Request:
    """What one request has brought in so far."""

    def __init__(self, done: asyncio.Future[bytes]) -> None:
        self.done = done
        self.parts: dict[int, list[bytes]] = {}
        self.listen: dict[int, Callable[[bytes], None]] = {}

    def take(self, op: int, body: bytes) -> None:
        if op in (A.EXIT, A.REPLY, A.PONG):
            if not self.done.done():
                self.done.set_result(body)
            return
        self.parts.setdefault(op, []).append(body)
        if op in self.listen:
            self.listen[op](body)

    def bytes_of(self, op: int) -> bytes:
        return b"".join(self.parts.get(op, ()))


class Exit(msgspec.Struct, frozen=True):
    """How a run ended, as the agent measured it."""

    wait_status: int
    error: int
    flags: int
    wall_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int


class Agent:
    """Speaks to PID 1 of one sandbox. `gone` is set when the socket has closed."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._requests: dict[int, Request] = {}
        self._next = 1
        self._sending = asyncio.Lock()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self.gone = asyncio.Event()
        loop.add_reader(sock.fileno(), self._on_readable)

    async def wait_ready(self) -> None:
        """Raises HouseError(SANDBOX_CREATE_FAILED) naming the step that failed."""
        try:
            async with asyncio.timeout(READY_WITHIN_SECONDS):
                await self._ready
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "the sandbox did not get ready within 60 s") from None

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._vanish("the sandbox was closed")

    def _vanish(self, why: str) -> None:
        self.gone.set()
        if not self._ready.done():
            self._ready.set_exception(HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"before it was ready, {why}"))
            self._ready.exception()
        for request in self._requests.values():
            if not request.done.done():
                request.done.set_exception(HouseError(FaultKind.SANDBOX_LOST, why))
                request.done.exception()

    def _on_readable(self) -> None:
        for _ in range(64):
            try:
                data = self._socket.recv(_wire.FRAME_BYTES + 4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
                self._vanish("its agent ended")
                return
            op, number = _wire.FRAME.unpack_from(data)
            body = data[_wire.FRAME.size :]
            if op == A.READY and not self._ready.done():
                self._ready.set_result(None)
            elif op == A.BROKEN and not self._ready.done():
                error, where = _wire.BROKEN.unpack_from(body)
                text = f"{where.rstrip(bytes(1)).decode()}: {os.strerror(error)}"
                self._ready.set_exception(HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"cannot {text}"))
                self._ready.exception()
            elif number in self._requests:
                self._requests[number].take(op, body)

    async def _send(self, message: bytes, fd: int | None = None) -> None:
        ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        while True:
            if self.gone.is_set():
                raise HouseError(FaultKind.SANDBOX_LOST, "its agent ended")
            try:
                self._socket.sendmsg([message], ancillary)
                return
            except BlockingIOError:
                await self._wait_writable()
            except OSError as error:
                raise HouseError(FaultKind.SANDBOX_LOST, f"its agent cannot be reached: {error}") from None

    async def _wait_writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable: asyncio.Future[None] = loop.create_future()

        def now() -> None:
            if not writable.done():
                writable.set_result(None)

        loop.add_writer(self._socket.fileno(), now)
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await writable
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent has not read for 10 s") from None
        finally:
            if self._socket.fileno() >= 0:
                loop.remove_writer(self._socket.fileno())

    def _new(self) -> tuple[int, Request]:
        if self.gone.is_set():
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent ended")
        number, self._next = self._next, self._next + 1
        self._requests[number] = request = Request(asyncio.get_running_loop().create_future())
        return number, request

    async def _submit(self, op: A, number: int, body: bytes, *, stdin: bytes = b"", channel: int | None = None) -> None:
        room = _wire.FRAME_BYTES - _wire.FRAME.size
        async with self._sending:
            for at in range(0, len(stdin), room):
                await self._send(_wire.FRAME.pack(A.STDIN, number) + stdin[at : at + room])
            whole = max(0, (len(body) - 1) // room) * room
            for at in range(0, whole, room):
                await self._send(_wire.FRAME.pack(A.PART, number) + body[at : at + room])
            await self._send(_wire.FRAME.pack(op, number) + body[whole:], channel)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], cwd: str, limits: Limits,
        channel: int | None, warm: bool, on_stdout: Callable[[bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> Exit:
        """Raises HouseError(SANDBOX_LOST), ValueError for what no kernel can execute (NUL bytes, no argv)."""
        strings = [cwd, *argv, *(f"{k}={v}" for k, v in env.items())]
        if not argv:
            raise ValueError("expected at least one word of argv, found none")
        if any("\0" in s for s in strings):
            raise ValueError("expected argv, env and cwd without NUL characters, found one")
        flags = (_wire.RUN_CHANNEL if channel is not None else 0) | (_wire.RUN_WARM if warm else 0)
        head = _wire.RUN.pack(
            max(1, math.ceil(limits.wall_seconds * 1000)), max(1, math.ceil(limits.cpu_seconds * 1000)),
            limits.output_bytes, limits.disk_bytes, flags, len(argv), len(env), 0,
        )
        body = head + b"".join(s.encode("utf-8", "surrogateescape") + b"\0" for s in strings)
        number, request = self._new()
        if on_stdout:
            request.listen.update({A.OUT: on_stdout, A.OUT_TAIL: on_stdout})
        if on_stderr:
            request.listen.update({A.ERR: on_stderr, A.ERR_TAIL: on_stderr})
        try:
            await self._submit(A.RUN, number, body, stdin=stdin, channel=channel)
            async with asyncio.timeout(limits.wall_seconds + GRACE_SECONDS):
                answer = await request.done
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not report the end of a command in time") from None
        except asyncio.CancelledError:
            if not self.gone.is_set():
                with suppress(OSError):
                    self._socket.send(_wire.FRAME.pack(A.KILL, number))
            raise
        finally:
            del self._requests[number]
        return _exit_of(answer, request)

    async def ping(self) -> None:
        """One round trip to the agent. Raises HouseError(SANDBOX_LOST)."""
        number, request = self._new()
        try:
            await self._send(_wire.FRAME.pack(A.PING, number))
            async with asyncio.timeout(GRACE_SECONDS):
                await request.done
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not answer a ping within 10 s") from None
        finally:
            del self._requests[number]

    async def ask(self, op: A, path: str, *, number: int = 0, content: bytes = b"") -> tuple[bytes, int]:
        """One file request → (data, size). Raises OSError as the kernel inside said it."""
        if "\0" in path or not path:
            raise ValueError(f"expected a path without NUL characters, found {path!r}")
        mine, request = self._new()
        name = path.encode("utf-8", "surrogateescape")
        try:
            await self._submit(op, mine, _wire.NUMBER.pack(number) + name + b"\0" + content)
            async with asyncio.timeout(GRACE_SECONDS * 3):
                answer = await request.done
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not answer a file request in time") from None
        finally:
            del self._requests[mine]
        error, _, size = _wire.REPLY.unpack_from(answer)
        if error:
            raise OSError(error, os.strerror(error), path)
        return request.bytes_of(A.DATA), size


def _exit_of(answer: bytes, request: Request) -> Exit:
    if len(answer) < _wire.EXIT.size:  # a REPLY: the agent had no room for the command
        raise HouseError(FaultKind.SANDBOX_LOST, f"its agent refused the command: {os.strerror(answer[0])}")
    status, error, flags, _, wall, cpu, rss, out, err = _wire.EXIT.unpack_from(answer)
    return Exit(
        status, error, flags, wall / 1e9, cpu / 1e9, rss,
        request.bytes_of(A.OUT) + request.bytes_of(A.OUT_TAIL), request.bytes_of(A.ERR) + request.bytes_of(A.ERR_TAIL),
        out, err,
    )
