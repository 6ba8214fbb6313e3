"""The house's end of the proxy process: doors to the network, opened for sandboxes that may have one."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from quintain.sandbox._rules import parse_rule
from quintain.types import FaultKind, HouseError, Network

PROXY_PORT = 3128  # on the sandbox's loopback
ANSWER_WITHIN_SECONDS = 10.0
_SCRIPT = Path(__file__).with_name("_proxy.py")
_LOCAL = "localhost,127.0.0.1,::1"


class _Ask(msgspec.Struct):
    op: str
    id: str
    number: int
    full: bool = False
    allow: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    op: str
    number: int = 0
    denied: dict[str, int] = {}


def environment() -> dict[str, str]:
    """What makes ordinary programs use the proxy; a program that ignores it reaches nothing."""
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    lower = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": _LOCAL}
    return {**lower, **{name.upper(): value for name, value in lower.items()}}


def check_allow(network: Network, allow: Sequence[str]) -> None:
    """Raises ValueError for a list that cannot be read, or one that would mean nothing."""
    if allow and network is Network.NONE:
        raise ValueError(f"expected network 'allow_list' or 'full' with {list(allow)}, found 'none'")
    for entry in allow:
        parse_rule(entry)


class Gateway:
    """Owns the proxy process. Started by its first use, ended by `aclose`."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, int]]] = {}
        self._next = 1
        self._starting = asyncio.Lock()

    async def _start(self) -> None:
        async with self._starting:
            if self._socket is not None:
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-E", "-s", str(_SCRIPT), str(theirs.fileno()), pass_fds=(theirs.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, env={"LANG": "C.UTF-8"},
                    cwd="/", start_new_session=True,
                )
            ours.setblocking(False)
            self._socket = ours
            self._waiting[0] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().add_reader(ours.fileno(), self._on_readable)
            await self._answer(0, FaultKind.SANDBOX_CREATE_FAILED)

    def _on_readable(self) -> None:
        assert self._socket is not None
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
                for waiting in self._waiting.values():
                    if not waiting.done():
                        waiting.set_exception(HouseError(FaultKind.SANDBOX_LOST, "the network gateway ended"))
                        waiting.exception()
                return
            answer = msgspec.json.decode(data, type=_Answer)
            if answer.number in self._waiting and not self._waiting[answer.number].done():
                self._waiting[answer.number].set_result(answer.denied)

    async def _answer(self, number: int, kind: FaultKind) -> dict[str, int]:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                return await self._waiting[number]
        except TimeoutError:
            raise HouseError(kind, "the network gateway did not answer within 10 s") from None
        finally:
            self._waiting.pop(number, None)

    async def _ask(self, ask: _Ask, kind: FaultKind, fd: int | None = None) -> dict[str, int]:
        if self._socket is None:
            raise HouseError(kind, "the network gateway was closed")
        self._waiting[ask.number] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._socket, [msgspec.json.encode(ask)], [] if fd is None else [fd])
        except OSError as error:
            self._waiting.pop(ask.number)
            raise HouseError(kind, f"the network gateway cannot be reached: {error}") from None
        return await self._answer(ask.number, kind)

    def _number(self) -> int:
        self._next += 1
        return self._next

    async def open_door(self, name: str, listener: socket.socket, network: Network, allow: Sequence[str]) -> Door:
        """From now on whoever connects to `listener` talks to the proxy. Takes the socket over."""
        await self._start()
        ask = _Ask(op="open", id=name, number=self._number(), full=network is Network.FULL, allow=tuple(allow))
        with listener:
            await self._ask(ask, FaultKind.SANDBOX_CREATE_FAILED, listener.fileno())
        return Door(self, name)

    async def count(self, name: str, op: str) -> dict[str, int]:
        return await self._ask(_Ask(op=op, id=name, number=self._number()), FaultKind.SANDBOX_LOST)

    async def aclose(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._process is not None:
            process, self._process = self._process, None
            try:
                async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


class Door:
    """One sandbox's way out, and the count of what was refused there."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self._gateway = gateway
        self._name = name
        self._seen: dict[str, int] = {}

    async def news(self) -> dict[str, int]:
        """What was refused since the last asking: 'host:port' → how often. Raises HouseError(SANDBOX_LOST)."""
        total = await self._gateway.count(self._name, "count")
        fresh = {name: n - self._seen.get(name, 0) for name, n in total.items() if n > self._seen.get(name, 0)}
        self._seen = total
        return fresh

    async def total(self) -> dict[str, int]:
        return await self._gateway.count(self._name, "count")

    async def close(self) -> None:
        await self._gateway.count(self._name, "close")
