"""What is still to be played, in its order: what may not be begun now is passed over, and comes back."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import StrEnum

from quintain.rollout.group import Siblings, Ticket
from quintain.tasks import Item

#: So many are set aside; when there are more, the row stands as if it were at its end.
MOST_ASIDE = 10_000
#: How many of a kind that is tried again run at once.
FEW = 3
_LOOK_SECONDS = 0.25


class Clearance(StrEnum):
    """Whether an episode of a task may begin. None is lost by it: what waits is played later."""

    GO = "go"
    FEW = "few"  # its kind is tried again: no more than FEW at once
    LAST = "last"  # its kind is not well: when nothing else is left, and one at a time
    WAIT = "wait"  # not before somebody says so


Clears = Callable[[Item], Clearance]
Entry = tuple[Ticket, Siblings]


class Line:
    """Several take from it (`next`), each says when it has done (`done`). `next` is `None` at the end."""

    def __init__(self, work: Iterator[Entry], clears: Clears) -> None:
        self._work = work
        self._clears = clears
        self._aside: deque[Entry] = deque()
        self._few: Counter[str] = Counter()
        self._held: dict[str, str] = {}  # episode → kind, of those that run sparingly
        self._alone: str | None = None
        self._is_over = False

    async def next(self) -> Entry | None:
        while True:
            found = self._from_aside() or self._from_row() or self._last()
            if found is not None:
                return found
            if self._is_over and not self._aside:
                return None
            await asyncio.sleep(_LOOK_SECONDS)

    def done(self, entry: Entry) -> None:
        episode = entry[0].episode
        kind = self._held.pop(episode, None)
        if kind is not None:
            self._few[kind] -= 1
        if self._alone == episode:
            self._alone = None

    def _from_aside(self) -> Entry | None:
        """The first of those set aside that may begin now. Each kind and image is asked about once."""
        answers: dict[tuple[str, str], bool] = {}
        for nth, entry in enumerate(self._aside):
            task = entry[0].item.task
            about = (task.kind, task.image)
            if about not in answers:
                answers[about] = self._may(entry)
                if answers[about]:
                    del self._aside[nth]
                    return entry
        return None

    def _from_row(self) -> Entry | None:
        while not self._is_over and len(self._aside) < MOST_ASIDE:
            entry = next(self._work, None)
            if entry is None:
                self._is_over = True
            elif self._may(entry):
                return entry
            else:
                self._aside.append(entry)
        return None

    def _last(self) -> Entry | None:
        if self._alone is not None:
            return None
        for nth, entry in enumerate(self._aside):
            if self._clears(entry[0].item) is Clearance.LAST:
                del self._aside[nth]
                self._alone = entry[0].episode
                return entry
        return None

    def _may(self, entry: Entry) -> bool:
        ticket = entry[0]
        found = self._clears(ticket.item)
        if found is Clearance.GO:
            return True
        kind = ticket.item.task.kind
        if found is not Clearance.FEW or self._few[kind] >= FEW:
            return False
        self._few[kind] += 1
        self._held[ticket.episode] = kind
        return True
