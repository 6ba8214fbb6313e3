"""The program that carries connections from the judge's sandbox to the one where services live: a front listens there
on the ports that it is told, a back (told none) connects here; the house hands the bytes of one to the other.

Both are sent as text into their sandboxes. A front trusts its back with nothing: what comes is bytes for connections
that it opened itself.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import threading
from collections.abc import Callable

HEAD = struct.Struct("!IBI")  # connection, what, length
OPEN, DATA, END, CLOSED, READY = range(5)
PIECE = 1 << 16


class Switch:
    """One end. `links` are the connections by number."""

    def __init__(self) -> None:
        self.links: dict[int, asyncio.StreamWriter] = {}
        self.waiting: dict[int, list[tuple[int, bytes]]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def say(self, link: int, what: int, data: bytes = b"") -> None:
        left = memoryview(HEAD.pack(link, what, len(data)) + data)
        while left:
            left = left[os.write(1, left):]

    def spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def carry(self, link: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What one connection says goes out; it is closed when the other end says so."""
        self.links[link] = writer
        try:
            while data := await reader.read(PIECE):
                self.say(link, DATA, data)
            self.say(link, END)
        except OSError:
            self.say(link, CLOSED)
            self.shut(link)

    def shut(self, link: int) -> None:
        writer = self.links.pop(link, None)
        if writer is not None:
            writer.close()

    async def reach(self, link: int, port: int) -> None:
        for host in ("127.0.0.1", "::1"):
            try:
                reader, writer = await asyncio.open_connection(host, port)
            except OSError:
                continue
            self.links[link] = writer
            for what, data in self.waiting.pop(link):
                self.hear(link, what, data)
            await self.carry(link, reader, writer)
            return
        del self.waiting[link]
        self.say(link, CLOSED)

    def hear(self, link: int, what: int, data: bytes) -> None:
        if what == OPEN:
            self.waiting[link] = []  # before anything else of it comes
            self.spawn(self.reach(link, int(data)))
        elif link in self.waiting:
            self.waiting[link].append((what, data))
        elif (writer := self.links.get(link)) is not None:
            if what == DATA:
                writer.write(data)
            elif what == END:
                if writer.can_write_eof():
                    writer.write_eof()
            else:
                self.shut(link)

    def listen(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        """In a thread: what the other end says."""
        with os.fdopen(0, "rb", closefd=False) as said:
            while len(head := said.read(HEAD.size)) == HEAD.size:
                link, what, length = HEAD.unpack(head)
                if what > READY or length > PIECE:
                    break
                loop.call_soon_threadsafe(self.hear, link, what, said.read(length))
        loop.call_soon_threadsafe(ended.set)


async def main(ports: list[int]) -> None:
    switch, ended, count = Switch(), asyncio.Event(), 0

    def to(port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            switch.links[count] = writer
            switch.say(count, OPEN, str(port).encode())
            switch.spawn(switch.carry(count, reader, writer))

        return accepted

    for port in ports:
        for host in ("0.0.0.0", "::1"):
            try:
                await asyncio.start_server(to(port), host, port)
            except OSError:
                continue
    threading.Thread(target=switch.listen, args=(asyncio.get_running_loop(), ended), daemon=True).start()
    if ports:
        switch.say(0, READY)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]]))
