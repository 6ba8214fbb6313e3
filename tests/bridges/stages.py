"""A house for bridges that play episodes: fake sandboxes, everything else real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from quintain.rollout import Collector, Patience
from quintain.testing import FakeEnvironment
from quintain.train import Stage


def stage(**options: Any) -> Stage:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Collector]:
        yield Collector(FakeEnvironment(**options), lambda event: None, concurrency=8, patience=Patience(attempts=1))

    return Stage(opened)
