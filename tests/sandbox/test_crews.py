"""An engine that somebody killed is replaced: what ran in it is lost and told, and another makes the next sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend
from quintain.types import HouseError, Status

pytestmark = pytest.mark.skipif(not NativeBackend().probe().available, reason="needs the native backend")


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def engines() -> set[int]:
    return {pid for pid in children(os.getpid()) if "quintain-sandbo" in Path(f"/proc/{pid}/comm").read_text()}


@pytest.mark.parametrize("depth", [1, 2], ids=["keeper", "spawner"])
def test_a_killed_engine_is_replaced(depth: int) -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as backend:
            async with backend.open() as [sandbox]:
                victims = engines()
                for _ in range(depth - 1):
                    victims = {inner for outer in victims for inner in children(outer)}
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
                with pytest.raises(HouseError):
                    await sandbox.run(["sleep", "10"])
            async with backend.open() as [sandbox]:
                assert (await sandbox.run(["true"])).status is Status.OK
            assert backend.engines_running == 1

    asyncio.run(main())
