"""Services that an answer left running, when the judge comes: they live on where they were made, and the judge's
sandbox has a door to each of their ports.

Terminal-Bench runs its tests in the container of the answer. Here they run in a sandbox of their own, where the
answer's files are; a connection to a port on which something listened when the answer was handed in is carried to the
answer's sandbox (`_switch`), and nothing else is. No test, reward or oracle is where a process of the answer's lives.

Covers: TCP on 127.0.0.1, `localhost` and 0.0.0.0; several connections at a time. Does not cover: UDP and unix sockets;
tests that look for a process, or at a file that a service writes while they ask it; ports that are opened later.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from typing import cast

import msgspec

from quintain.grade import Frozen
from quintain.sandbox import DEFAULT_LIMITS, Backend, Capabilities, Files, Interactive, Process, Sandbox
from quintain.types import HouseError, Limits, Network, Outcome

#: Where a tree says which living sandbox it comes from.
TOKEN = "var/lib/quintain/alive"
#: More than so many sandboxes do not wait for their judge; the oldest ends.
MOST_WAITING = 16
_READY_SECONDS = 10.0
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


class Lasting:
    """A sandbox in which what a command leaves running lives on."""

    def __init__(self, box: Interactive) -> None:
        self._box = box

    @property
    def id(self) -> str:
        return self._box.id

    @property
    def files(self) -> Files:
        return self._box.files

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """See `Sandbox.run`. Nothing is run in the backend's warm interpreter."""
        process = await self._box.start(argv, stdin=stdin, env=env, cwd=cwd, limits=limits, channel=channel,
                                        linger=True, on_stdout=on_stdout, on_stderr=on_stderr)
        return await process.wait()

    async def close(self) -> None:
        await self._box.close()


class Living(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox with services on `ports`, and what ends it."""

    box: Interactive
    ports: tuple[int, ...]
    stack: AsyncExitStack


class Waiting:
    """The living sandboxes that nobody has judged yet."""

    def __init__(self) -> None:
        self._held: dict[str, Living] = {}

    async def keep(self, tree: Frozen, living: Living) -> Frozen:
        """The tree, with the name of what it belongs to."""
        while len(self._held) >= MOST_WAITING:
            await self._held.pop(next(iter(self._held))).stack.aclose()
        name = secrets.token_hex(16)
        self._held[name] = living
        return msgspec.structs.replace(tree, files={**tree.files, TOKEN: name.encode()})

    def take(self, tree: Frozen) -> tuple[Frozen, Living | None]:
        """The tree without the name, and what lives of it; whoever takes it ends it."""
        name = tree.files.get(TOKEN)
        if name is None:
            return tree, None
        rest = {path: content for path, content in tree.files.items() if path != TOKEN}
        return msgspec.structs.replace(tree, files=rest), self._held.pop(name.decode("ascii", "replace"), None)


async def ports_of(box: Sandbox) -> tuple[int, ...]:
    """Those of TCP on which something inside listens, sorted."""
    told = await box.run(["cat", *_TABLES], cwd="/")
    rows = (line.split() for line in told.text.splitlines())
    found = {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == "0A"}
    return tuple(sorted(found))


class Joined:
    """A backend whose first sandbox has the doors to what lives; those after it have none."""

    def __init__(self, backend: Backend, living: Living) -> None:
        self._backend = backend
        self._living: Living | None = living

    @property
    def name(self) -> str:
        return self._backend.name

    def probe(self) -> Capabilities:
        return self._backend.probe()

    @asynccontextmanager
    async def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AsyncIterator[Sequence[Sandbox]]:
        """See `Backend.open`."""
        living, self._living = self._living, None
        async with self._backend.open(image, limits=limits, count=count, network=network) as boxes:
            if living is None or not hasattr(boxes[0], "start"):
                yield boxes
                return
            async with _doors(cast(Interactive, boxes[0]), living):
                yield boxes

    async def aclose(self) -> None:
        """The backend is its owner's."""


@asynccontextmanager
async def _doors(judge: Interactive, living: Living) -> AsyncIterator[None]:
    text = files("quintain.env").joinpath("_switch.py").read_text("utf-8")
    argv = ["python3", "-I", "-S", "-c", text]
    front = await judge.start([*argv, *map(str, living.ports)], stdin=None, cwd="/")
    back = await living.box.start(argv, stdin=None, cwd="/")
    ready = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            carrying = [group.create_task(_carry(front, back, ready)), group.create_task(_carry(back, front, None))]
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS):
                    await ready.wait()
            try:
                yield
            finally:
                for task in carrying:
                    task.cancel()
    finally:
        await front.kill()
        await back.kill()


async def _carry(here: Process, there: Process, ready: asyncio.Event | None) -> None:
    """What one end says, to the other; what cannot be carried any more is not."""
    with suppress(HouseError):
        async for name, piece in here.output():
            if name == "stdout":
                if ready is not None:
                    ready.set()
                await there.send(piece)
        await there.end_input()
    if ready is not None:
        ready.set()
