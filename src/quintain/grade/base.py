"""What measures one quality of an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quintain.tasks import Item
from quintain.types import Attempt, Score


class Grader(Protocol):
    """Measures qualities of an attempt; what cannot be measured is a Score of `None` whose evidence says why.

    Scores are in [0, 1], 0.5 neutral for those that compare with a reference. Raises HouseError when the house fails,
    TaskError when the task does; never for what the answer does.
    """

    @property
    def name(self) -> str: ...

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]: ...
