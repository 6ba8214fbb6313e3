"""The way out for sandboxes that may have one: an HTTP proxy in a process of its own, a listening socket per sandbox.

Runs as a script (`python3 -E -s _proxy.py CONTROL-FD`), standard library and `_rules` only. It accepts on sockets that
lie on a sandbox's loopback, resolves names outside, judges the name and then the address, connects to that very
address, and counts what it refuses. As root it gives its rights away first.
Covers: hosts that are not listed; private, link-local, loopback and metadata addresses, and names that lead there; the
host's own addresses; anything but TCP through CONNECT and plain HTTP.
Does not cover: what travels inside an allowed connection (data carried to an allowed host, domain fronting under TLS).
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import encodings.idna
import ipaddress
import json
import os
import resource
import socket
import sys
from collections import Counter
from typing import Any, NamedTuple
from urllib.parse import urlsplit

if __name__ == "__main__":
    from _rules import Address, Policy, canonical, literal, parse_rule  # type: ignore[import-not-found]
else:
    from quintain.sandbox._rules import Address, Policy, canonical, literal, parse_rule

PRELOADED = (concurrent.futures.thread, encodings.idna)  # once our rights are gone they may not be readable
HEAD_BYTES = 16 * 1024
HEAD_SECONDS, RESOLVE_SECONDS, CONNECT_SECONDS, IDLE_SECONDS = 15.0, 10.0, 15.0, 300.0
CONNECTIONS = 64  # at once, for each sandbox; others wait
DENIED_NAMES = 64  # counted by name; the rest together
NOBODY = 65534
DROPPED = {"connection", "proxy-connection", "keep-alive", "proxy-authorization", "host", "te", "trailer", "upgrade"}


class Denied(Exception):
    """Not for this sandbox. Says what was asked for, and why not."""


class Target(NamedTuple):
    """Where a request wants to go, and what is to be sent there first (`None`: CONNECT)."""

    host: str
    port: int
    head: bytes | None


def parse_head(head: bytes) -> Target:
    """The request line and the header fields of a proxy request. Raises ValueError."""
    line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if any(c < " " and c != "\t" for text in (line, *fields) for c in text):
        raise ValueError("expected lines without control characters, found one")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError(f"expected 'METHOD TARGET HTTP/1.x', found {line[:80]!r}")
    method, target, version = words
    parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
    if method != "CONNECT" and parts.scheme.lower() != "http":
        raise ValueError(f"expected an absolute http:// address or CONNECT, found {line[:80]!r}")
    if not parts.hostname or parts.username is not None:
        raise ValueError(f"expected a host, found {target[:80]!r}")
    address = literal(parts.hostname)
    host = canonical(parts.hostname) if address is None else str(address)
    if method == "CONNECT":
        if parts.port is None:
            raise ValueError(f"expected CONNECT host:port, found {target[:80]!r}")
        return Target(host, parts.port, None)
    port = parts.port or 80
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    named = parts.netloc.rpartition("@")[2]
    kept = [f for f in fields if f.partition(":")[0].strip().lower() not in DROPPED]
    text = "\r\n".join((f"{method} {path} {version}", f"Host: {named}", *kept, "Connection: close", "", ""))
    return Target(host, port, text.encode("latin-1"))


class Door:
    """One sandbox's listening socket, what it may reach, and what it was refused."""

    def __init__(self, listener: socket.socket, policy: Policy) -> None:
        self.listener = listener
        self.policy = policy
        self.denied: Counter[str] = Counter()
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        with self.listener:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self._room.acquire()
                    try:
                        caller, _ = await loop.sock_accept(self.listener)
                    except OSError:  # the caller had gone, or descriptors are short
                        self._room.release()
                        await asyncio.sleep(0.05)
                        continue
                    tasks.create_task(self._serve_one(caller))

    async def _serve_one(self, caller: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=caller, limit=HEAD_BYTES)
            try:
                await self._answer(reader, writer)
            finally:
                writer.close()
                async with asyncio.timeout(IDLE_SECONDS):
                    await writer.wait_closed()  # until then the last of what was sent may be on its way
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side went away, or a time-out ran out: the other has been closed with it
        finally:
            self._room.release()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                target = parse_head(await reader.readuntil(b"\r\n\r\n"))
            out_reader, out_writer = await self._reach(target)
        except (ValueError, asyncio.LimitOverrunError) as error:
            await _refuse(writer, "400 Bad Request", str(error))
        except Denied as error:
            await _refuse(writer, "403 Forbidden", str(error))
        except OSError as error:
            await _refuse(writer, "502 Bad Gateway", f"cannot reach it: {error}")
        else:
            try:
                if target.head is None:
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    out_writer.write(target.head)
                async with asyncio.TaskGroup() as both:
                    both.create_task(_relay(reader, out_writer))
                    both.create_task(_relay(out_reader, writer))
            finally:
                out_writer.close()

    async def _reach(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that has been judged. Raises Denied, OSError."""
        address = literal(target.host)
        if address is not None:
            found, named = [address], False
        else:
            if not self.policy.admits_name(target.host, target.port):
                raise self._deny(target, "the host is not on the allow list")
            found, named = await _resolve(target.host, target.port), True
        allowed = [a for a in found if self.policy.admits_address(a, target.port, named=named)]
        if not allowed:
            reason = "it leads to a private or otherwise closed address" if named else "the address is not allowed"
            raise self._deny(target, reason)
        error: OSError = OSError("no address")
        for address in allowed[:4]:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    streams = await asyncio.open_connection(str(address), target.port)
            except OSError as failed:
                error = failed
                continue
            here, there = (streams[1].get_extra_info(name)[0] for name in ("sockname", "peername"))
            if here == there and not self.policy.lists(address, target.port):
                streams[1].close()
                raise self._deny(target, "it leads to the host itself")
            return streams
        raise error

    def _deny(self, target: Target, reason: str) -> Denied:
        name = f"{target.host}:{target.port}"
        self.denied[name if name in self.denied or len(self.denied) < DENIED_NAMES else "others"] += 1
        return Denied(f"{name}: {reason}")


async def _resolve(host: str, port: int) -> list[Address]:
    async with asyncio.timeout(RESOLVE_SECONDS):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


async def _refuse(writer: asyncio.StreamWriter, status: str, reason: str) -> None:
    body = f"{reason}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\nX-Quintain: refused\r\n\r\n" + body)
    async with asyncio.timeout(HEAD_SECONDS):
        await writer.drain()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of what is read; no faster than it can be written."""
    try:
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await reader.read(65536)
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except (OSError, TimeoutError):
        writer.close()  # ends the other direction too


class Control:
    """The house's end of the process: doors opened, counted and closed on request; the end of the house is our end."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._doors: dict[str, tuple[Door, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        readable = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._socket.fileno(), readable.set)
        self._say({"op": "ready"})
        async with asyncio.TaskGroup() as tasks:
            while True:
                readable.clear()
                try:
                    data, fds, _, _ = socket.recv_fds(self._socket, 65536, 1)
                except BlockingIOError:
                    await readable.wait()
                    continue
                if not data:
                    break
                self._obey(json.loads(data), fds, tasks)
            for _, task in self._doors.values():
                task.cancel()

    def _obey(self, message: dict[str, Any], fds: list[int], tasks: asyncio.TaskGroup) -> None:
        name = message["id"]
        if message["op"] == "open":
            listener = socket.socket(fileno=fds[0])
            listener.setblocking(False)
            door = Door(listener, Policy(map(parse_rule, message["allow"]), full=message["full"]))
            self._doors[name] = door, tasks.create_task(door.serve())
        elif message["op"] == "close":
            door, task = self._doors.pop(name)
            task.cancel()
        else:
            door = self._doors[name][0]
        self._say({"op": "tally", "number": message["number"], "denied": door.denied})

    def _say(self, message: dict[str, Any]) -> None:
        self._socket.setblocking(True)  # one message for each of the house's: it reads them
        self._socket.send(json.dumps(message).encode())
        self._socket.setblocking(False)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    asyncio.run(Control(control).serve())


if __name__ == "__main__":
    main()
