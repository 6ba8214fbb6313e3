"""The house's end of the socket to the agent inside one sandbox: runs and file requests, many at a time."""

from __future__ import annotations

import array
import asyncio
import errno
import functools
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from quintain.sandbox import _wire
from quintain.sandbox._running import GRACE_SECONDS, Exit, Running
from quintain.sandbox._wire import A
from quintain.sandbox.base import ProcessInfo
from quintain.types import FaultKind, HouseError, Limits

READY_WITHIN_SECONDS = 60.0


class Request:
    """What one request has brought in so far; an answer may carry a descriptor, which is then the asker's."""

    def __init__(self, done: asyncio.Future[bytes]) -> None:
        self.done = done
        self.fd: int | None = None
        self._data: list[bytes] = []

    def take(self, op: int, body: bytes, fds: tuple[int, ...] = ()) -> None:
        if op in (A.REPLY, A.PONG):
            if fds and self.fd is None:
                self.fd, fds = fds[0], fds[1:]
            if not self.done.done():
                self.done.set_result(body)
        elif op == A.DATA:
            self._data.append(body)
        for fd in fds:
            os.close(fd)

    def fail(self, error: HouseError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()

    @property
    def data(self) -> bytes:
        return b"".join(self._data)


class Agent:
    """Speaks to PID 1 of one sandbox. `gone` when the socket has closed."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._requests: dict[int, Request | Running] = {}
        self._unsent: deque[bytes] = deque()
        self._paused_at: float | None = None
        self._next = 1
        self._sending = asyncio.Lock()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self.gone = False
        loop.add_reader(sock.fileno(), self._on_readable)

    async def wait_ready(self) -> None:
        """Raises HouseError(SANDBOX_CREATE_FAILED) naming the step that failed."""
        try:
            if not self._ready.done():
                async with asyncio.timeout(READY_WITHIN_SECONDS):
                    await self._ready
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "the sandbox did not get ready within 60 s") from None
        self._ready.result()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
        self._vanish("the sandbox was closed")

    def _vanish(self, why: str) -> None:
        self.gone = True
        if not self._ready.done():
            self._ready.set_exception(HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"before it was ready, {why}"))
            self._ready.exception()
        for request in list(self._requests.values()):
            request.fail(HouseError(FaultKind.SANDBOX_LOST, why))

    def _on_readable(self) -> None:
        for _ in range(64):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    _wire.FRAME_BYTES + 4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                data, ancillary = b"", []
            if not data:
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
                self._vanish("its agent ended")
                return
            op, number = _wire.FRAME.unpack_from(data)
            body = data[_wire.FRAME.size :]
            if op == A.READY and not self._ready.done():
                self._ready.set_result(None)
                return  # nothing follows that was not asked for
            if op == A.BROKEN and not self._ready.done():
                error, where = _wire.BROKEN.unpack_from(body)
                text = f"{where.rstrip(bytes(1)).decode()}: {os.strerror(error)}"
                self._ready.set_exception(HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"cannot {text}"))
                self._ready.exception()
            elif number in self._requests:
                self._requests[number].take(op, body, _descriptors(ancillary) if ancillary else ())
                if op == A.EXIT and len(self._requests) == 1:
                    return
            else:
                for fd in _descriptors(ancillary):
                    os.close(fd)

    async def _send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        while not self._sent(message, fds):
            await self._wait_writable()

    def _sent(self, message: bytes, fds: Sequence[int]) -> bool:
        """Whether there was room. Raises HouseError(SANDBOX_LOST)."""
        if self.gone:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent ended")
        try:
            if fds:
                self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
            else:
                self._socket.send(message)
        except BlockingIOError:
            return False
        except OSError as error:
            raise HouseError(FaultKind.SANDBOX_LOST, f"its agent cannot be reached: {error}") from None
        return True

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

    # ---- what a Running says ----
    async def tell(self, op: A, number: int, body: bytes = b"") -> None:
        await self._send(_wire.FRAME.pack(op, number) + body)

    def tell_soon(self, op: A, number: int, body: bytes = b"") -> None:
        """From where nobody can wait: now if the socket has room, else in a moment. Dropped when the agent is gone."""
        self._unsent.append(_wire.FRAME.pack(op, number) + body)
        self._send_unsent()

    def _send_unsent(self) -> None:
        while self._unsent and not self.gone:
            try:
                self._socket.send(self._unsent[0])
            except BlockingIOError:
                asyncio.get_running_loop().call_later(0.002, self._send_unsent)
                return
            except OSError:
                self._unsent.clear()
                return
            self._unsent.popleft()

    def _number(self) -> int:
        if self.gone:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent ended")
        number, self._next = self._next, self._next + 1
        return number

    def _new(self) -> tuple[int, Request]:
        number = self._number()
        self._requests[number] = request = Request(asyncio.get_running_loop().create_future())
        return number, request

    async def _submit(self, op: A, number: int, body: bytes, *, stdin: bytes = b"", channel: int | None = None) -> None:
        room = _wire.FRAME_BYTES - _wire.FRAME.size
        if not stdin and len(body) <= room and not self._sending.locked():
            frame = _wire.FRAME.pack(op, number) + body
            if self._sent(frame, () if channel is None else (channel,)):
                return
        async with self._sending:
            for at in range(0, len(stdin), room):
                await self._send(_wire.FRAME.pack(A.STDIN, number) + stdin[at : at + room])
            whole = max(0, (len(body) - 1) // room) * room
            for at in range(0, whole, room):
                await self._send(_wire.FRAME.pack(A.PART, number) + body[at : at + room])
            await self._send(_wire.FRAME.pack(op, number) + body[whole:], () if channel is None else (channel,))

    async def run(
        self, argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], cwd: str, limits: Limits,
        channel: int | None, warm: bool, on_stdout: Callable[[bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None, flags: int = 0,
    ) -> Exit:
        """Raises HouseError(SANDBOX_LOST), ValueError for what no kernel can execute (NUL bytes, no argv)."""
        flags |= (_wire.RUN_WARM if warm else 0) | (_wire.RUN_STREAM if on_stdout or on_stderr else 0)
        running = self._begin(limits, flags, on_stdout, on_stderr)
        try:
            body = _request_of(argv, env, cwd, limits, flags | (_wire.RUN_CHANNEL if channel is not None else 0))
            await self._submit(A.RUN, running.number, body, stdin=stdin, channel=channel)
            return await running.done  # nobody else waits for it
        except asyncio.CancelledError:
            self.tell_soon(A.KILL, running.number)
            raise
        finally:
            running.hold_clock()
            del self._requests[running.number]

    def _begin(
        self, limits: Limits, flags: int, on_stdout: Callable[[bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> Running:
        number = self._number()
        running = Running(
            self, number, limits, streaming=bool(flags & _wire.RUN_STREAM), on_stdout=on_stdout, on_stderr=on_stderr
        )
        self._requests[number] = running
        return running

    async def start(
        self, argv: Sequence[str], *, stdin: bytes | None, env: Mapping[str, str], cwd: str, limits: Limits,
        channel: int | None, terminal: tuple[int, int] | None, linger: bool,
        on_stdout: Callable[[bytes], None] | None, on_stderr: Callable[[bytes], None] | None,
    ) -> Running:
        """A command under a warden of its own, begun. Raises as `run`."""
        if terminal is not None and not all(0 < n < 65536 for n in terminal):
            raise ValueError(f"expected a terminal of 1 to 65535 rows and columns, found {terminal}")
        flags = _wire.RUN_STREAM | _wire.RUN_WARDEN | (_wire.RUN_CHANNEL if channel is not None else 0)
        flags |= _wire.RUN_INPUT if stdin is None and terminal is None else 0
        flags |= (_wire.RUN_TERMINAL if terminal else 0) | (_wire.RUN_LINGER if linger else 0)
        running = self._begin(limits, flags, on_stdout, on_stderr)
        running.lingers, running.forget = linger, functools.partial(self._requests.pop, running.number, None)
        try:
            body = _request_of(argv, env, cwd, limits, flags, terminal)
            await self._submit(A.RUN, running.number, body, stdin=stdin or b"", channel=channel)
            async with asyncio.timeout(GRACE_SECONDS):
                assert running.started is not None  # it streams
                await asyncio.shield(running.started)
        except TimeoutError:
            self._abandon(running)
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not start a command within 10 s") from None
        except BaseException:
            self.tell_soon(A.KILL, running.number)
            self._abandon(running)
            raise
        return running

    def _abandon(self, running: Running) -> None:
        running.hold_clock()
        running.forget()

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return any(isinstance(r, Running) and not r.done.done() for r in self._requests.values())

    async def freeze(self, stop: bool) -> None:
        """Stop everything inside but the agent, or let it go on; deadlines stand still in between."""
        now = asyncio.get_running_loop().time()
        runnings = [r for r in self._requests.values() if isinstance(r, Running)]
        await self.request(A.FREEZE, _wire.NUMBER.pack(int(stop)))
        if stop and self._paused_at is None:
            self._paused_at = now
            for running in runnings:
                running.hold_clock()
        elif not stop and self._paused_at is not None:
            for running in runnings:
                running.release_clock(asyncio.get_running_loop().time() - self._paused_at)
            self._paused_at = None

    async def processes(self) -> list[ProcessInfo]:
        data, _ = await self.request(A.PROCESSES)
        found, at = [], 0
        while at < len(data):
            pid, parent, state, size, resident = _wire.PROCESS.unpack_from(data, at)
            at += _wire.PROCESS.size
            words = data[at : at + size].rstrip(b"\0").split(b"\0")
            at += size
            argv = tuple(w.decode("utf-8", "surrogateescape") for w in words)
            found.append(ProcessInfo(pid=pid, parent=parent, state=chr(state), argv=argv, resident_bytes=resident))
        return found

    async def listen(self, port: int) -> socket.socket:
        """A socket that listens on the sandbox's own loopback, ours to accept from. Raises OSError."""
        _, fd = await self.request(A.LISTEN, _wire.NUMBER.pack(port))
        if fd is None:
            raise OSError(errno.EPROTO, "the agent answered without a socket")
        return socket.socket(fileno=fd)

    async def request(self, op: A, body: bytes = b"") -> tuple[bytes, int | None]:
        """One question that is neither a command nor about a file → (data, descriptor). Raises OSError, HouseError."""
        number, request = self._new()
        try:
            await self._send(_wire.FRAME.pack(op, number) + body)
            async with asyncio.timeout(GRACE_SECONDS):
                answer = await request.done
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not answer within 10 s") from None
        finally:
            del self._requests[number]
        error = _wire.REPLY.unpack_from(answer)[0]
        if error:
            raise OSError(error, os.strerror(error))
        return request.data, request.fd

    async def join(self, fds: array.array[int], accounts: int) -> None:
        """Into the control groups of these files, the last being the account of CPU time if `accounts`. Raises
        HouseError(SANDBOX_LOST)."""
        number, request = self._new()
        try:
            await self._send(_wire.FRAME.pack(A.JOIN, number) + _wire.NUMBER.pack(accounts), fds)
            async with asyncio.timeout(GRACE_SECONDS):
                error = _wire.REPLY.unpack_from(await request.done)[0]
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "its agent did not join its control groups within 10 s") from None
        finally:
            del self._requests[number]
        if error:
            raise HouseError(FaultKind.SANDBOX_LOST, f"its agent cannot join its control groups: {os.strerror(error)}")

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
        return request.data, size


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return tuple(fds)


def _request_of(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, limits: Limits, flags: int,
    terminal: tuple[int, int] | None = None,
) -> bytes:
    strings = [cwd, *argv, *[f"{k}={v}" for k, v in env.items()], ""]
    if not argv:
        raise ValueError("expected at least one word of argv, found none")
    text = "\0".join(strings)
    if text.count("\0") != len(strings) - 1:
        raise ValueError("expected argv, env and cwd without NUL characters, found one")
    rows, columns = terminal or (0, 0)
    head = _wire.RUN.pack(
        max(1, math.ceil(limits.wall_seconds * 1000)), max(1, math.ceil(limits.cpu_seconds * 1000)),
        limits.output_bytes, limits.disk_bytes, flags, len(argv), len(env), rows, columns,
    )
    return head + text.encode("utf-8", "surrogateescape")
