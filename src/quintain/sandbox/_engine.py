"""One running engine: the native program that makes the sandboxes of one image, and the socket on which it is asked."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from quintain.sandbox import _gauge, _slots, _wire
from quintain.sandbox._warm import Warm
from quintain.sandbox._wire import Op
from quintain.types import FaultKind, HouseError, Limits

PROGRAM = Path(__file__).parent / "native" / "quintain-sandbox"
LIBRARY = PROGRAM.with_name("libquintain.so")
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
OPEN_WITHIN_SECONDS = 60.0
DOWN_WITHIN_SECONDS = 10.0

T = TypeVar("T")


class Down(msgspec.Struct, frozen=True):
    """A sandbox is gone: how its first process ended, and what was read before its groups went."""

    wait_status: int
    usage: _gauge.Usage


class Cell:
    """One sandbox as its engine knows it: a socket to its agent, and the news of its end."""

    def __init__(self, engine: Engine, number: int, down: asyncio.Future[Down]) -> None:
        self.engine = engine
        self.number = number
        self.pid = 0
        self.place = 0  # its users and its groups
        self.bare = False  # it has no groups so far
        self.socket: socket.socket | None = None
        self.down = down


def program() -> Path:
    """The compiled engine. Raises HouseError with the remedy when the package was installed without it."""
    if not os.access(PROGRAM, os.X_OK):
        raise HouseError(
            FaultKind.SANDBOX_CREATE_FAILED,
            f"expected the compiled engine at {PROGRAM}, found none: reinstall with a C compiler (apt-get install gcc)",
        )
    return PROGRAM


class Engine:
    """Owns the child process, its slot (lock, users, group names) and the control socket. Use as `async with`."""

    def __init__(self, mounts: list[str], *, rootless: bool, warm: Warm | None = None) -> None:
        self.warm = warm
        self._mounts = mounts
        self._rootless = rootless
        self._cells: dict[int, Cell] = {}
        self._opened: dict[int, asyncio.Future[None]] = {}
        self._joined: dict[int, asyncio.Future[tuple[array.array[int], int]]] = {}
        self._next = 1
        self._cpu_percent = 100
        self._hello: asyncio.Future[int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._errors: IO[bytes] | None = None
        self._ended = False  # its spawner has closed the socket
        self.slot: _slots.Slot | None = None
        self.directories: dict[str, Path] = {}
        self.readings = _gauge.Readings()
        self.bounded: set[int] = set()  # the places whose groups have a CPU quota

    @property
    def runs(self) -> bool:
        """Whether it can be asked for sandboxes: its socket is open and its keeper lives."""
        if self._control is None or self._process is None or self._ended:
            return False
        return self._process.poll() is None

    async def __aenter__(self) -> Engine:
        loop = asyncio.get_running_loop()
        self.slot = _slots.take()
        try:
            self._start(self.slot)
            assert self._control is not None
            self._hello = loop.create_future()
            loop.add_reader(self._control.fileno(), self._on_control)
            async with asyncio.timeout(OPEN_WITHIN_SECONDS):
                await self._hello
        except BaseException as error:
            await self.__aexit__()
            if isinstance(error, TimeoutError):
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "the engine did not start within 60 s") from None
            raise
        return self

    def _start(self, slot: _slots.Slot) -> None:
        args = [str(program())]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        args += [str(theirs.fileno()), str(slot.uid_base), str(_slots.UIDS_PER_SLOT)]
        args.append("rootless" if self._rootless else "root")
        self.directories = _slots.make_groups(slot)
        for kind, path in self.directories.items():
            args += ["cgroup", kind, str(path)]
        args += ["mounts", str(len(self._mounts) // 3), *self._mounts]
        passed = [theirs.fileno(), slot.lock]
        if self.warm is not None:
            words, asked = self.warm.command(LIBRARY)
            args += ["zygote", *words, *args[1:]]
            passed.append(asked)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the engine
        try:
            self._process = subprocess.Popen(
                args, pass_fds=passed, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self._errors, start_new_session=True, env=ENVIRONMENT, cwd="/",
            )
        finally:
            theirs.close()
            for fd in passed[2:]:
                os.close(fd)
        ours.setblocking(False)
        self._control = ours

    async def __aexit__(self, *exc: object) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        self._lost("the engine was closed")
        self.readings.close()
        if self._process is not None:
            process = self._process
            for _ in range(int(DOWN_WITHIN_SECONDS / 0.01)):
                if process.poll() is not None:
                    break
                await asyncio.sleep(0.01)
            else:
                process.kill()
                process.wait(5)
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        if self.slot is not None:
            with suppress(HouseError):
                _slots.sweep(self.slot)
            os.close(self.slot.lock)
            self.slot = None

    def _complaint(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read(4096).decode("utf-8", "replace").strip()

    def _lost(self, why: str) -> None:
        error = HouseError(FaultKind.SANDBOX_LOST, why)
        refused = HouseError(FaultKind.SANDBOX_CREATE_FAILED, why)
        for opened in self._opened.values():
            _fail(opened, refused)
        if self._hello is not None:
            _fail(self._hello, refused)
        for joined in self._joined.values():
            _fail(joined, error)
        for cell in self._cells.values():
            _fail(cell.down, error)
        self._opened.clear()
        self._joined.clear()
        self._cells.clear()

    def _on_control(self) -> None:
        assert self._control is not None
        for _ in range(256):
            try:
                data, ancillary, _, _ = self._control.recvmsg(256, socket.CMSG_SPACE(24), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError as error:
                data, ancillary = b"", []
                self._lost(f"the engine's socket failed: {error}")
            if not data:
                self._ended = True
                asyncio.get_running_loop().remove_reader(self._control.fileno())
                self._lost(f"the engine ended: {self._complaint() or 'it said nothing'}")
                return
            self._take(data, ancillary)

    def _take(self, data: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        op, number = _wire.FRAME.unpack_from(data)
        if op == Op.HELLO and self._hello is not None:
            self._hello.set_result(number)
        elif op == Op.OPENED:
            fds = array.array("i")
            fds.frombytes(ancillary[0][2][:4])
            cell = self._cells[number]
            _, _, cell.pid, cell.place, again, bare = _wire.OPENED.unpack(data)
            cell.bare = bool(bare)
            if not again:
                self.bounded.discard(cell.place)
            cell.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=fds[0])
            cell.socket.setblocking(False)
            self._opened.pop(number).set_result(None)
        elif op == Op.JOINED:
            self._take_joined(number, data, ancillary)
        elif op == Op.REFUSED:
            _, _, error, where = _wire.REFUSED.unpack(data)
            message = f"{where.rstrip(bytes(1)).decode()}: {os.strerror(error)}"
            self._cells.pop(number, None)
            waiting = self._opened.pop(number, None) or self._hello
            if waiting is not None and not waiting.done():
                waiting.set_exception(HouseError(FaultKind.SANDBOX_CREATE_FAILED, message))
        elif op == Op.DOWN:
            _, _, status, _, oom, peak, cpu, processes = _wire.DOWN.unpack(data)
            found = self._cells.pop(number, None)
            nanos = _gauge.measured(cpu)
            usage = _gauge.Usage(
                _gauge.measured(oom), _gauge.measured(peak), None if nanos is None else nanos / 1e9,
                _gauge.measured(processes),
            )
            if found is not None and not found.down.done():
                found.down.set_result(Down(status, usage))

    def _take_joined(self, number: int, data: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        _, _, error, accounts = _wire.JOINED.unpack(data)
        fds = array.array("i")
        for _, _, given in ancillary:
            fds.frombytes(given[: len(given) // fds.itemsize * fds.itemsize])
        waiting = self._joined.pop(number, None)
        if waiting is None or waiting.done() or error:
            for fd in fds:
                os.close(fd)
        if waiting is None or waiting.done():
            return
        if error:
            why = f"its control groups cannot be made: {os.strerror(error)}"
            waiting.set_exception(HouseError(FaultKind.SANDBOX_LOST, why))
        else:
            waiting.set_result((fds, accounts))

    async def groups_of(self, cell: Cell) -> tuple[array.array[int], int]:
        """Control groups for a sandbox that was opened without: files for its agent to write to, which the caller
        closes, and whether the last is the account of its CPU time. Raises HouseError(SANDBOX_LOST)."""
        waiting: asyncio.Future[tuple[array.array[int], int]] = asyncio.get_running_loop().create_future()
        self._joined[cell.number] = waiting
        try:
            await self._send(_wire.CLOSE.pack(Op.JOIN, cell.number))
            async with asyncio.timeout(DOWN_WITHIN_SECONDS):
                return await waiting
        except TimeoutError:
            raise HouseError(FaultKind.SANDBOX_LOST, "the engine made no control groups within 10 s") from None
        finally:
            self._joined.pop(cell.number, None)

    async def open(self, limits: Limits, count: int, network: int, flags: int = 0) -> list[Cell]:
        """`count` new sandboxes, all or none. Raises HouseError(SANDBOX_CREATE_FAILED)."""
        if self._control is None or self._process is None or self._process.poll() is not None:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the engine has ended: {self._complaint()}")
        loop = asyncio.get_running_loop()
        first, self._next = self._next, self._next + count
        numbers = range(first, first + count)
        waiting: list[asyncio.Future[None]] = [loop.create_future() for _ in numbers]
        cells = [Cell(self, number, loop.create_future()) for number in numbers]
        self._cells.update(zip(numbers, cells, strict=True))
        self._opened.update(zip(numbers, waiting, strict=True))
        await self._send(_wire.OPEN.pack(
            Op.OPEN, first, count, network, limits.memory_bytes, limits.disk_bytes, limits.inodes, limits.processes,
            self._cpu_percent, flags, 0,
        ))
        await asyncio.wait(waiting, timeout=OPEN_WITHIN_SECONDS + 0.01 * count)
        errors = [w.exception() if w.done() else TimeoutError("no answer from the engine") for w in waiting]
        wrong = next((e for e in errors if e is not None), None)
        if wrong is not None:
            await self.close([c for c in cells if c.socket is not None])
            raise wrong if isinstance(wrong, HouseError) else HouseError(FaultKind.SANDBOX_CREATE_FAILED, str(wrong))
        return cells

    async def close(self, cells: list[Cell]) -> None:
        """Kill them and wait until they are gone, groups and all; bounded."""
        for cell in cells:
            if not cell.down.done():
                with suppress(HouseError):
                    await self._send(_wire.CLOSE.pack(Op.CLOSE, cell.number))
        waiting = [c.down for c in cells if not c.down.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=DOWN_WITHIN_SECONDS + 0.01 * len(waiting))

    async def _send(self, message: bytes) -> None:
        while True:
            if self._control is None:
                raise HouseError(FaultKind.SANDBOX_LOST, "the engine was closed")
            try:
                self._control.send(message)
                return
            except BlockingIOError:
                await asyncio.sleep(0.001)
            except OSError as error:
                raise HouseError(FaultKind.SANDBOX_LOST, f"the engine cannot be reached: {error}") from None


def _fail(waiting: asyncio.Future[T], error: HouseError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # seen: nobody may be waiting any more
