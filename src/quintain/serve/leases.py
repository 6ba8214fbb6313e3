"""Sandboxes that tenants hold for a while: each ends by itself when its lease does, whatever its tenant forgets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, cast

import msgspec

from quintain.serve.keys import Quota
from quintain.serve.words import CommandAsked, Done, Piece, Refusal, SandboxView, absent
from quintain.types import MEBIBYTE, HouseError, Limits, Outcome

if TYPE_CHECKING:  # told what makes sandboxes, it knows none itself
    from quintain.sandbox import Backend, Interactive

_log = logging.getLogger(__name__)
#: Of a sandbox of the API, and the most of it that can be asked for.
CEILING = Limits(
    wall_seconds=86_400.0, cpu_seconds=3_600.0, memory_bytes=1024 * MEBIBYTE, disk_bytes=512 * MEBIBYTE, inodes=65_536,
    processes=256,
)
_OPEN_SECONDS = 60.0
_COMMANDS = 8


class Leased:
    """One sandbox that is held. Times are Unix seconds."""

    def __init__(self, tenant: str, box: Interactive, limits: Limits, expires_unix_seconds: float) -> None:
        self.id = secrets.token_hex(12)
        self.tenant = tenant
        self.box = box
        self.limits = limits
        self.expires_unix_seconds = expires_unix_seconds
        self.commands = 0
        self.over = asyncio.Event()

    def view(self) -> SandboxView:
        return SandboxView(id=self.id, expires_unix_seconds=self.expires_unix_seconds, limits=self.limits,
                           commands=self.commands)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a command runs. Raises Refusal(429) beyond 8 at a time."""
        if self.commands >= _COMMANDS:
            raise Refusal(429, "busy", expected=f"at most {_COMMANDS} commands at a time in a sandbox",
                          found=str(self.commands), where="path.sandbox", retry_seconds=1)
        self.commands += 1
        try:
            yield
        finally:
            self.commands -= 1


class Leases:
    """At most `most` sandboxes of all tenants together; of each as many as its quota says."""

    def __init__(
        self, backend: Backend, quota: Callable[[str], Quota], *, most: int = 64, ceiling: Limits = CEILING,
    ) -> None:
        self._backend = backend
        self._quota = quota
        self._most = most
        self._ceiling = ceiling
        self._held: dict[str, Leased] = {}
        self._opening: dict[str, int] = {}
        self._crew: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """As long as the block lasts; then every sandbox ends."""
        async with asyncio.TaskGroup() as crew:
            self._crew = crew
            try:
                yield
            finally:
                self._crew = None
                for leased in self._held.values():
                    leased.over.set()

    def of(self, tenant: str) -> list[Leased]:
        return [leased for leased in self._held.values() if leased.tenant == tenant]

    def get(self, tenant: str, id: str) -> Leased:
        """Raises Refusal(404)."""
        leased = self._held.get(id)
        if leased is None or leased.tenant != tenant or leased.over.is_set():
            raise absent("sandbox", id)
        return leased

    async def create(self, tenant: str, *, lease_seconds: float, limits: Limits | None) -> Leased:
        """Raises Refusal(429) for a quota that is used up, Refusal(503) where the server has no more, and where none
        can be made now."""
        mine = len(self.of(tenant)) + self._opening.get(tenant, 0)
        if mine >= self._quota(tenant).sandboxes:
            raise Refusal(429, "quota", expected=f"at most {self._quota(tenant).sandboxes} sandboxes", found=str(mine),
                          where="quota.sandboxes", retry_seconds=5)
        if self._crew is None or len(self._held) + sum(self._opening.values()) >= self._most:
            raise Refusal(503, "full", expected="a sandbox that is free", found=f"all {self._most} are held",
                          where="server", retry_seconds=5)
        wanted = (limits or self._ceiling).within(self._ceiling)
        self._opening[tenant] = self._opening.get(tenant, 0) + 1
        ready: asyncio.Future[Leased] = asyncio.get_running_loop().create_future()
        holding = self._crew.create_task(self._hold(tenant, wanted, lease_seconds, ready))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                return await ready
        except (TimeoutError, asyncio.CancelledError):
            holding.cancel()
            raise
        finally:
            self._opening[tenant] -= 1

    def renew(self, leased: Leased, seconds: float) -> None:
        """From now on, for so long."""
        leased.expires_unix_seconds = time.time() + seconds

    async def _hold(self, tenant: str, limits: Limits, seconds: float, ready: asyncio.Future[Leased]) -> None:
        """From opening to closing: one task."""
        try:
            async with self._backend.open(limits=limits) as opened:
                leased = Leased(tenant, cast("Interactive", opened[0]), limits, time.time() + seconds)
                self._held[leased.id] = leased
                try:
                    ready.set_result(leased)
                    await _lease(leased)
                    leased.box.let_go()
                finally:
                    leased.over.set()
                    del self._held[leased.id]
        except (HouseError, OSError, ValueError) as error:  # one sandbox that cannot be is no reason to serve nobody
            _log.warning("a sandbox of %s: %s", tenant, error)
            if not ready.done():
                ready.set_exception(Refusal(
                    503, "no_sandbox", expected="a sandbox", found="that none can be made now", where="server",
                    retry_seconds=5))


async def _lease(leased: Leased) -> None:
    while (left := leased.expires_unix_seconds - time.time()) > 0 and not leased.over.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, 1.0)):
                await leased.over.wait()


async def run_whole(leased: Leased, asked: CommandAsked) -> Outcome:
    """Raises Refusal(410) for a sandbox that ended meanwhile."""
    with leased.busy():
        try:
            return await leased.box.run(
                asked.argv, stdin=asked.stdin, env=asked.env, cwd=asked.cwd, limits=_limits(leased, asked))
        except HouseError:
            raise gone(leased.id) from None


async def run_streamed(leased: Leased, asked: CommandAsked) -> AsyncGenerator[Piece | Done, None]:
    """Its output as it comes, at the pace of who reads it, and how it ended. Who stops reading kills it."""
    with leased.busy():
        try:
            process = await leased.box.start(
                asked.argv, stdin=asked.stdin, env=asked.env, cwd=asked.cwd, limits=_limits(leased, asked))
            try:
                async for stream, data in process.output():
                    yield Piece(stream=stream, data=data)
                outcome = await process.wait()
            finally:
                if not process.ended:
                    await process.kill()
            yield Done(outcome=outcome)
        except HouseError:
            raise gone(leased.id) from None


def gone(id: str) -> Refusal:
    return Refusal(410, "gone", expected="a sandbox that lives", found=f"{id} has ended", where="path.sandbox")


def _limits(leased: Leased, asked: CommandAsked) -> Limits:
    left = max(0.001, min(asked.wall_seconds, leased.expires_unix_seconds - time.time()))
    return msgspec.structs.replace(leased.limits, wall_seconds=left)
