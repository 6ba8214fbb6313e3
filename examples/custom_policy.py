"""A policy of your own: anything with a name, `act` and `aclose`. This one reads what was wrong and answers again.

Run it with the command line (`quintain run TASKS --policy examples.custom_policy:Stubborn`), or as it stands, which
plays two episodes in an environment without sandboxes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quintain.rollout import Collector
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Event, Message, Turn


class Stubborn:
    """Says the wrong thing until it is told so."""

    name = "stubborn"

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        told = conversation[-1].text
        return Turn(text="right" if "[unsolved]" in told else "wrong")

    async def aclose(self) -> None:
        """Holds nothing."""


async def main() -> None:
    events: list[Event] = []
    collector = Collector(FakeEnvironment(), events.append, concurrency=2)
    async with collector.collecting([fake_item("add")], Stubborn(), size=2) as groups:
        async for group in groups:
            print(group.task, group.rewards_G, [len(episode.turns) for episode in group.episodes])
    print(len(events), "events")


if __name__ == "__main__":
    asyncio.run(main())
