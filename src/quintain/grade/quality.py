"""Several graders of one attempt at once, and their scores as one vector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quintain.grade._together import together
from quintain.grade.base import Grader
from quintain.tasks import Item
from quintain.types import Attempt, Score

#: How long one grader may take; what it has not measured by then is not measured.
SECONDS = 300.0


class Quality:
    """A grader made of graders, `at_once` of which run at a time; their scores come in the order of the graders. One
    that takes longer than `seconds` is cut off, and its score is None. Feed the scores to `reward_of(scores=...)`.

    Raises ValueError for two graders of one name.
    """

    name = "quality"

    def __init__(self, *graders: Grader, seconds: float = SECONDS, at_once: int = 4) -> None:
        names = [grader.name for grader in graders]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected graders with different names, found twice: {', '.join(twice)}")
        self._graders = graders
        self._seconds = seconds
        self._at_once = at_once

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """The scores of all. Raises HouseError, TaskError: the first that a grader raises."""

        async def one(grader: Grader) -> Sequence[Score]:
            try:
                async with asyncio.timeout(self._seconds):
                    return await grader.grade(attempt, item)
            except TimeoutError:
                return (Score(name=grader.name, value=None, evidence=f"not measured within {self._seconds:g} s"),)

        found = await together(one, self._graders, at_once=self._at_once)
        return tuple(score for scores in found for score in scores)
