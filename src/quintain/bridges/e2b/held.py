"""Sandboxes that are held through E2B's interface: each ends with its timeout, whatever its client forgets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from quintain.bridges.e2b import words
from quintain.bridges.e2b.commands import Commands
from quintain.bridges.e2b.connect import ConnectError
from quintain.sandbox import Backend, Interactive, Networked
from quintain.types import HouseError, Limits, Network

_log = logging.getLogger(__name__)
_OPEN_SECONDS = 60.0
_CLOSE_SECONDS = 10.0
_SETTLE_SECONDS = 2.0
#: The envd whose interface this is: what the SDK may ask for depends on it.
ENVD = "0.5.7"


class Held:
    """One sandbox. Times are Unix seconds."""

    def __init__(self, box: Interactive, commands: Commands, asked: words.NewSandbox, limits: Limits) -> None:
        self.id = "q" + secrets.token_hex(12)
        self.token = secrets.token_urlsafe(24)
        self.box = box
        self.commands = commands
        self.asked = asked
        self.limits = limits
        self.began = time.time()
        self.ends = self.began
        self.over = asyncio.Event()
        self.closed = asyncio.Event()

    def created(self) -> dict[str, object]:
        return {
            "templateID": self.asked.template_i_d, "sandboxID": self.id, "clientID": "quintain", "envdVersion": ENVD,
            "envdAccessToken": self.token,
        }

    def view(self) -> dict[str, object]:
        return {
            **self.created(), "startedAt": words.moment(self.began), "endAt": words.moment(self.ends), "cpuCount": 1,
            "memoryMB": self.limits.memory_bytes >> 20, "diskSizeMB": self.limits.disk_bytes >> 20,
            "state": "running", "metadata": self.asked.metadata,
        }


class Holding:
    """At most `most` at a time."""

    def __init__(
        self, backend: Backend, *, limits: Limits, network: Network, allow: Sequence[str], most: int,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._network = network
        self._allow = tuple(allow)
        self._most = most
        self._places = 0
        self._crew: asyncio.TaskGroup | None = None
        self.held: dict[str, Held] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """As long as the block lasts; then every sandbox ends."""
        async with asyncio.TaskGroup() as crew:
            self._crew = crew
            try:
                yield
            finally:
                self._crew = None
                for held in self.held.values():
                    held.over.set()

    def get(self, id: str) -> Held:
        """Raises ConnectError; its words are those by which the SDK knows that a sandbox has ended."""
        held = self.held.get(id)
        if held is None or held.over.is_set():
            raise ConnectError("not_found", f"the sandbox {id} was not found")
        return held

    async def create(self, asked: words.NewSandbox, image: str, seconds: float) -> Held:
        """Raises ConnectError where there is no place, or none can be made now."""
        if self._crew is None or self._places >= self._most:
            raise ConnectError("resource_exhausted", f"expected a free sandbox, found all {self._most} held")
        self._places += 1
        ready: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
        holding = self._crew.create_task(self._hold(asked, image, seconds, ready))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                return await ready
        except (TimeoutError, asyncio.CancelledError):
            holding.cancel()
            raise

    async def end(self, held: Held) -> None:
        """Returns when nothing of it is left, or after 10 s."""
        held.over.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await held.closed.wait()

    async def _hold(
        self, asked: words.NewSandbox, image: str, seconds: float, ready: asyncio.Future[Held],
    ) -> None:
        """From opening to closing: one task."""
        try:
            async with self._opening(image) as opened, asyncio.TaskGroup() as crew:
                box = cast(Interactive, opened[0])
                held = Held(box, Commands(box, crew, asked.env_vars, self._limits), asked, self._limits)
                held.ends = time.time() + seconds
                self.held[held.id] = held
                try:
                    ready.set_result(held)
                    await _lasting(held)
                finally:
                    held.over.set()
                    del self.held[held.id]
                    box.let_go()
                    await held.commands.settle(_SETTLE_SECONDS)
            held.closed.set()
        except (HouseError, OSError, ValueError) as error:  # one that cannot be is no reason to serve nobody
            _log.warning("a sandbox: %s", error)
            if not ready.done():
                ready.set_exception(ConnectError("unavailable", "none can be made now: the server's log says why"))
        finally:
            self._places -= 1

    def _opening(self, image: str) -> contextlib.AbstractAsyncContextManager[Sequence[object]]:
        if self._network is Network.NONE:
            return self._backend.open(image, limits=self._limits)
        return cast(Networked, self._backend).open(
            image, limits=self._limits, network=self._network, allow=self._allow)


async def _lasting(held: Held) -> None:
    while (left := held.ends - time.time()) > 0 and not held.over.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, 1.0)):
                await held.over.wait()
