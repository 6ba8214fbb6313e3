"""One command inside a sandbox, as the house follows it: its output as it comes, its input, its end."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import msgspec

from quintain.sandbox import _wire
from quintain.sandbox._retain import Retained
from quintain.sandbox._wire import A
from quintain.types import FaultKind, HouseError, Limits

GRACE_SECONDS = 10.0  # beyond a command's own deadline, before the house stops believing in its sandbox
GRANT_BYTES = _wire.WINDOW_BYTES // 4  # credit is given back in pieces of this size


#: Nothing lingers after a command that was killed, or never began.
ENDED_WHOLE = _wire.EXIT_TIMED_OUT | _wire.EXIT_KILLED | _wire.EXIT_NOT_STARTED | _wire.EXIT_CPU

T = TypeVar("T")


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
    disk_used_bytes: int | None


class Line(Protocol):
    """The way to the agent."""

    async def tell(self, op: A, number: int, body: bytes = b"") -> None: ...
    def tell_soon(self, op: A, number: int, body: bytes = b"") -> None: ...


class Running:
    """Fed by the agent's frames; owned by whoever started the command."""

    def __init__(
        self, line: Line, number: int, limits: Limits, *, streaming: bool, on_stdout: Callable[[bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.started: asyncio.Future[int] | None = loop.create_future() if streaming else None
        self.done: asyncio.Future[Exit] = loop.create_future()
        self.gone = False  # nothing of it is left
        self.lingers = False
        self.forget: Callable[[], object] = _nothing
        self._deadline = loop.time() + limits.wall_seconds + GRACE_SECONDS
        self._clock: asyncio.TimerHandle | None = loop.call_at(self._deadline, self._expire)
        self._line = line
        self._kept = (Retained(limits.output_bytes), Retained(limits.output_bytes))
        self._listeners = (on_stdout, on_stderr)
        self._streaming = streaming
        self._owed = 0
        self._room = _wire.WINDOW_BYTES
        self._news: asyncio.Event | None = None  # of room or pieces, once somebody waits for either
        self._pieces: deque[tuple[str, bytes]] | None = None

    # ---- what the agent says ----
    def take(self, op: int, body: bytes, fds: tuple[int, ...] = ()) -> None:
        if op in (A.OUT, A.OUT_TAIL, A.ERR, A.ERR_TAIL):
            self._take_output(int(op in (A.ERR, A.ERR_TAIL)), body)
        elif op == A.STARTED:
            _settle(self.started, _wire.NUMBER.unpack(body)[0])
        elif op == A.TAKEN:
            self._room += _wire.NUMBER.unpack(body)[0]
            self._wake()
        elif op == A.EXIT:
            self.hold_clock()
            _settle(self.started, 0)
            done = self._exit_of(body)
            _settle(self.done, done)
            self._wake()
            if not self.lingers or done.flags & ENDED_WHOLE:
                self._leave()
        elif op == A.REPLY:
            error = _wire.REPLY.unpack_from(body)[0]
            self.fail(HouseError(FaultKind.SANDBOX_LOST, f"its agent refused the command: {os.strerror(error)}"))
        elif op == A.GONE:
            self._leave()

    def _leave(self) -> None:
        self.gone = True
        self.forget()

    def fail(self, error: HouseError) -> None:
        self.hold_clock()
        for waiting in (self.started, self.done):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # seen: nobody may be waiting any more
        self.gone = True
        self._wake()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()

    async def _hear(self) -> None:
        """Waits for news; all that wait are woken and look for themselves."""
        if self._news is None or self._news.is_set():
            self._news = asyncio.Event()
        await self._news.wait()

    def _take_output(self, which: int, data: bytes) -> None:
        self._kept[which].add(data)
        listener = self._listeners[which]
        if listener is not None:
            listener(data)
        if self._pieces is None:
            self._consumed(len(data))
        else:
            self._pieces.append((("stdout", "stderr")[which], data))
            self._wake()

    def _consumed(self, size: int) -> None:
        if not self._streaming or self.done.done():
            return
        self._owed += size
        if self._owed >= GRANT_BYTES:
            self._line.tell_soon(A.CREDIT, self.number, _wire.NUMBER.pack(self._owed))
            self._owed = 0

    def _exit_of(self, answer: bytes) -> Exit:
        status, error, flags, _, wall, cpu, rss, out, err, disk = _wire.EXIT.unpack(answer)
        return Exit(
            status, error, flags, wall / 1e9, cpu / 1e9, rss, self._kept[0].value(), self._kept[1].value(), out, err,
            None if disk == _wire.NOT_MEASURED else disk,
        )

    # ---- what its owner does ----
    async def wait(self) -> Exit:
        """Raises HouseError(SANDBOX_LOST). Cancelling a wait leaves the command alone."""
        return await asyncio.shield(self.done)

    def _expire(self) -> None:
        self.fail(HouseError(FaultKind.SANDBOX_LOST, "its agent did not report the end of a command in time"))

    def hold_clock(self) -> None:
        """Its deadline stands still: the sandbox is paused, or the command has ended."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def release_clock(self, paused_seconds: float) -> None:
        self.hold_clock()
        self._deadline += paused_seconds
        if not self.done.done():
            self._clock = asyncio.get_running_loop().call_at(self._deadline, self._expire)

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.done.done():
            if self._room <= 0:
                await self._hear()
                continue
            piece = bytes(view[: min(self._room, _wire.FRAME_BYTES - _wire.FRAME.size)])
            view = view[len(piece) :]
            self._room -= len(piece)
            await self._line.tell(A.INPUT, self.number, piece)

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        if self._pieces is not None:
            raise ValueError("expected one reader of a command's output, found a second")
        kept = [(name, kept.value()) for name, kept in zip(("stdout", "stderr"), self._kept, strict=True)]
        self._pieces = deque()
        for name, data in kept:
            if data:
                yield name, data
        while True:
            while self._pieces:
                name, data = self._pieces.popleft()
                yield name, data
                self._consumed(len(data))
            if self.done.done():
                return
            await self._hear()


def _nothing() -> None:
    """Nobody keeps a record of it."""


def _settle(waiting: asyncio.Future[T] | None, value: T) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(value)
