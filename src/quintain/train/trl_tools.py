"""Our tasks as environments of TRL's tool loop: `GRPOTrainer(..., environment_factory=trl_environments(stage, items))`.

TRL calls `reset` and then each tool of each rollout one after another. Resets here begin an episode and return at once,
so they overlap; grading begins for all episodes of a batch when the first reward is asked for. A tool's answer has to
be waited for where TRL asks: for tools that overlap as well use `TrlRollouts`. Nothing here imports TRL.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Mapping, Sequence

from quintain.policy import turn_of
from quintain.tasks import Item
from quintain.train.stage import Stage
from quintain.types import Episode, Message, Trainable, Turn

_OVER = "The task is over."


class _Called:
    """A policy whose replies come from outside. `told` gets what it is told after each reply, and None at the end."""

    name = "called"

    def __init__(self) -> None:
        self.replies: asyncio.Queue[str] = asyncio.Queue()
        self.told: asyncio.Queue[str | None] = asyncio.Queue()
        self.over = False
        self._said: list[str] = []

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = turn_of(conversation)
        if nth < len(self._said):  # the house's second attempt at the episode
            return Turn(text=self._said[nth])
        if nth:
            self.told.put_nowait(conversation[-1].text)
        self._said.append(await self.replies.get())
        return Turn(text=self._said[-1])

    async def aclose(self) -> None:
        """Holds nothing."""


class TaskEnvironment:
    """One rollout of TRL's: an episode whose replies are tool calls. Made by `trl_environments`."""

    def __init__(self, stage: Stage, items: Mapping[str, Item], siblings: list[TaskEnvironment]) -> None:
        self._stage = stage
        self._items = items
        self._siblings = siblings
        self._called = _Called()
        self._episode: concurrent.futures.Future[Episode] | None = None

    def reset(self, task: str, **row: object) -> None:
        """Begin an episode of the task that the dataset's row names; nothing is waited for.

        Raises ValueError for a task that is not known.
        """
        if task not in self._items:
            raise ValueError(f"expected one of {len(self._items)} tasks, found {task!r}")
        self._finish()
        self._called = _Called()
        self._episode = self._stage.start(self._play(self._items[task], self._called))

    def attempt(self, reply: str) -> str:
        """
        Hand in an answer to the task and read what came of it.

        Args:
            reply: The answer, as you would write it in a message: the program in a code block.

        Returns:
            What was wrong with it, or that the task is over.
        """
        return self._stage.do(self._exchange(reply))

    def get_reward(self) -> float | None:
        """The reward of the episode, which ends here if it has not; None where there is none."""
        for sibling in self._siblings:
            sibling._finish()
        if self._episode is None:
            return None
        reward = self._episode.result().reward
        return reward.total if reward is not None and reward.trainable is Trainable.YES else None

    def _finish(self) -> None:
        """Say the empty reply that gives up: the latest work is graded."""
        if self._episode is not None and not self._episode.done():
            self._stage.do(self._say(""))

    async def _play(self, item: Item, called: _Called) -> Episode:
        try:
            episodes = await self._stage.playing([item], called)
        finally:
            called.over = True
            called.told.put_nowait(None)
        return episodes[0]

    async def _say(self, reply: str) -> None:
        self._called.replies.put_nowait(reply)

    async def _exchange(self, reply: str) -> str:
        called = self._called
        if self._episode is None or called.over:
            return _OVER
        await self._say(reply)
        told = await called.told.get()
        return told if told is not None else _OVER


def trl_environments(stage: Stage, items: Mapping[str, Item]) -> Callable[[], TaskEnvironment]:
    """The factory that TRL calls once for each rollout of a batch; it keeps the instances and resets them. The dataset
    needs the column `task`."""
    siblings: list[TaskEnvironment] = []

    def make() -> TaskEnvironment:
        siblings.append(TaskEnvironment(stage, items, siblings))
        return siblings[-1]

    return make
