"""Our tasks as environments of TRL's tool loop: `GRPOTrainer(..., environment_factory=trl_environments(stage, items))`.

TRL calls `reset` and then each tool of each rollout one after another. Resets here begin an episode and return at once,
so they overlap; grading begins for all episodes of a batch when the first reward is asked for. A tool's answer has to
be waited for where TRL asks: for tools that overlap as well use `TrlRollouts`. Nothing here imports TRL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quintain.tasks import Item
from quintain.train.driven import Driven, paid
from quintain.train.stage import Stage

_OVER = "The task is over."


class TaskEnvironment:
    """One rollout of TRL's: an episode whose replies are tool calls. Made by `trl_environments`."""

    def __init__(self, stage: Stage, items: Mapping[str, Item], siblings: list[TaskEnvironment]) -> None:
        self._stage = stage
        self._items = items
        self._siblings = siblings
        self._driven: Driven | None = None

    def reset(self, task: str, **row: object) -> None:
        """Begin an episode of the task that the dataset's row names; nothing is waited for.

        Raises ValueError for a task that is not known.
        """
        if task not in self._items:
            raise ValueError(f"expected one of {len(self._items)} tasks, found {task!r}")
        if self._driven is not None:
            self._driven.give_up()
        self._driven = Driven(self._stage, self._items[task])

    def attempt(self, reply: str) -> str:
        """
        Hand in an answer to the task and read what came of it.

        Args:
            reply: The answer, as you would write it in a message: the program in a code block.

        Returns:
            What was wrong with it, or that the task is over.
        """
        told = self._driven.said(reply) if self._driven is not None else None
        return told if told is not None else _OVER

    def get_reward(self) -> float | None:
        """The reward of the episode, which ends here if it has not; None where there is none."""
        for sibling in self._siblings:
            if sibling._driven is not None:
                sibling._driven.give_up()
        return paid(self._driven.finish()) if self._driven is not None else None


def trl_environments(stage: Stage, items: Mapping[str, Item]) -> Callable[[], TaskEnvironment]:
    """The factory that TRL calls once for each rollout of a batch; it keeps the instances and resets them. The dataset
    needs the column `task`."""
    siblings: list[TaskEnvironment] = []

    def make() -> TaskEnvironment:
        siblings.append(TaskEnvironment(stage, items, siblings))
        return siblings[-1]

    return make
