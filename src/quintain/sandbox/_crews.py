"""The engines that are running, a crew for each image; those of images that nobody uses go when there are too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from quintain.sandbox import _root
from quintain.sandbox._engine import Engine
from quintain.sandbox._warm import Warm
from quintain.sandbox.image import Image


class _Crew:
    def __init__(self) -> None:
        self.engines: list[Engine] = []
        self.stack = AsyncExitStack()
        self.users = 0


class Crews:
    """At most `most` crews are kept beyond those in use. A plain host crew has `count` engines, any other has one."""

    def __init__(self, *, count: int, rootless: bool, warm: Warm | None, most: int) -> None:
        self._count, self._rootless, self._warm, self._most = count, rootless, warm, most
        self._crews: dict[str, _Crew] = {}  # the least recently used first
        self._starting = asyncio.Lock()

    @asynccontextmanager
    async def use(self, image: Image) -> AsyncIterator[list[Engine]]:
        """The engines of an image, started if need be, kept while this is open. Raises HouseError."""
        async with self._starting:
            crew = self._crews.pop(image.key, None) or _Crew()
            self._crews[image.key] = crew
            crew.users += 1
            try:
                await self._fill(crew, image)
            except BaseException:
                crew.users -= 1
                raise
        try:
            yield crew.engines
        finally:
            crew.users -= 1

    async def _fill(self, crew: _Crew, image: Image) -> None:
        plain = image.host and not image.layers and not image.writable
        warm = self._warm if plain else None
        for engine in [engine for engine in crew.engines if not engine.runs]:
            crew.engines.remove(engine)  # somebody killed it; what it had made has been told
            await engine.__aexit__()
        operations = _root.operations(image, warm) if not crew.engines else []
        while len(crew.engines) < (self._count if plain else 1):
            engine = Engine(operations or _root.operations(image, warm), rootless=self._rootless, warm=warm)
            crew.engines.append(await crew.stack.enter_async_context(engine))
        idle = [key for key, found in self._crews.items() if not found.users]
        for key in idle[: max(0, len(self._crews) - self._most)]:
            await self._crews.pop(key).stack.aclose()

    @property
    def engines(self) -> int:
        """How many run."""
        return sum(len(crew.engines) for crew in self._crews.values())

    async def aclose(self) -> None:
        while self._crews:
            await self._crews.popitem()[1].stack.aclose()
