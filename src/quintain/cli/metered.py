"""A backend whose sandboxes are counted as they start, are used and end, whoever makes them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from quintain.sandbox import DEFAULT_LIMITS, Backend, Capabilities, Sandbox, Snapshot, Snapshots
from quintain.types import HouseError, Limits, Network
from quintain.watch import Meters

#: A sandbox that takes longer to end is counted as leaked for as long.
ENDING_SECONDS = 30.0


class Sandboxes:
    """How many there are, of whatever backends."""

    def __init__(self, meters: Meters) -> None:
        self.meters = meters
        self.starting = self.in_use = self.lost = 0
        self._closing: dict[int, tuple[float, int]] = {}
        self._nth = 0

    def closing(self, count: int) -> int:
        """The number to say `closed` with."""
        self._nth += 1
        self._closing[self._nth] = (time.monotonic(), count)
        return self._nth

    def closed(self, number: int) -> None:
        del self._closing[number]

    async def show(self, meters: Meters | None = None) -> None:
        """Bring the gauges up to date."""
        now = time.monotonic()
        late = sum(count for at, count in self._closing.values() if now - at > ENDING_SECONDS)
        for state, count in (("starting", self.starting), ("in_use", self.in_use),
                             ("closing", sum(count for _, count in self._closing.values()))):
            self.meters.set("quintain_sandboxes", count, state=state)
        self.meters.set("quintain_sandboxes_leaked", late + self.lost)


class MeteredBackend:
    """Passes everything on. Sandboxes that are forked from others are not counted."""

    def __init__(self, backend: Backend, sandboxes: Sandboxes) -> None:
        self._backend = backend
        self._count = sandboxes

    @property
    def name(self) -> str:
        return self._backend.name

    def probe(self) -> Capabilities:
        return self._backend.probe()

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        **more: Any,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._counted(
            self._backend.open(image, limits=limits, count=count, network=network, **more), count)

    def restore(
        self, snapshot: Snapshot, *, limits: Limits = DEFAULT_LIMITS, count: int = 1,
        network: Network = Network.NONE, allow: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        backend: Snapshots = self._backend  # type: ignore[assignment]  # who has none is refused when it is called
        return self._counted(
            backend.restore(snapshot, limits=limits, count=count, network=network, allow=allow), count)

    async def aclose(self) -> None:
        await self._backend.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @asynccontextmanager
    async def _counted(
        self, opening: AbstractAsyncContextManager[Sequence[Sandbox]], count: int,
    ) -> AsyncIterator[Sequence[Sandbox]]:
        began = time.monotonic()
        self._count.starting += count
        try:
            opened = await opening.__aenter__()
        except HouseError:
            self._count.meters.add("quintain_sandboxes_failed_total", count)
            raise
        finally:
            self._count.starting -= count
        self._count.meters.add("quintain_sandboxes_opened_total", count)
        self._count.meters.observe("quintain_sandbox_start_seconds", time.monotonic() - began)
        self._count.in_use += count
        error: BaseException | None = None
        try:
            yield opened
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._count.in_use -= count
            await self._end(opening, error, count)

    async def _end(
        self, opening: AbstractAsyncContextManager[Sequence[Sandbox]], error: BaseException | None, count: int,
    ) -> None:
        number = self._count.closing(count)
        try:
            await opening.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except HouseError:
            self._count.lost += count
            raise
        finally:
            self._count.closed(number)
