"""A policy that says again what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quintain.policy.scripted import turn_of
from quintain.types import Message, TaskError, Turn


class ReplayedPolicy:
    """Gives the turns of a recorded run again, tokens and all: `turns` per task and episode seed.

    The key is (task, seed of the first turn); `any_seed` holds turns per task for a seed that was not recorded. A
    conversation longer than the record gets an empty reply; a task without a record is refused with TaskError, for an
    answer that nobody gave must not be paid.
    """

    def __init__(
        self, turns: Mapping[tuple[str, int], Sequence[Turn]], *, any_seed: Mapping[str, Sequence[Turn]] | None = None,
        name: str = "replayed",
    ) -> None:
        self._turns = {key: tuple(recorded) for key, recorded in turns.items()}
        self._any_seed = {task: tuple(recorded) for task, recorded in (any_seed or {}).items()}
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = turn_of(conversation)
        first = (seed - nth) % 2**31  # the driver counts the seed up by one for each turn
        recorded = self._turns.get((task, first), self._any_seed.get(task, ()))
        if not recorded:
            raise TaskError(f"{self._name} has no reply to task {task}: choose tasks that it answered")
        return recorded[nth] if nth < len(recorded) else Turn(text="")

    async def aclose(self) -> None:
        """Holds nothing."""
