"""Losses that came together: one event of the place where they were played, or each of them its kind's own. Pure but
for the clock that it is handed.

Whoever makes the sandboxes of a worker may die itself and take all of them along: their kinds have done nothing then. A
kind that kills its sandboxes loses them one by one, and again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quintain.types import FaultKind
from quintain.watch.episodes import Attempted

#: Losses at one place are looked at together for so long, or until they are so many.
TOGETHER_SECONDS = 0.3
MOST_WAITING = 10
#: So many of one kind within this are one event too, where the kind has gone well before.
_SEVERAL = 3
_AT_ONCE_SECONDS = 0.1
#: A kind is spared so often in a row; what still crashes then, and never went well between, is its own.
_SPARED = 2
#: What is seen of a sandbox that was lost with whoever made it.
_LOSSES = frozenset({FaultKind.SANDBOX_LOST, FaultKind.SANDBOX_CREATE_FAILED, FaultKind.VERIFIER_ERROR})
#: How the sandbox room begins what it says of the processes that make sandboxes: no kind of task is heard of in it.
_OURS = ("the engine", "the network gateway")


class Played(NamedTuple):
    """A result with where it was played; `worker` and `host` are empty in a run without workers."""

    result: Attempted
    image: str = ""
    worker: str = ""
    host: str = ""


class Loss(NamedTuple):
    """One event. Of each of `own` its kind is told, of the place once where `is_the_places`."""

    played: tuple[Played, ...]
    own: tuple[Played, ...]
    is_the_places: bool


class _Waiting(NamedTuple):
    played: Played
    came: float


class Losses:
    """`add` each crash, `went_well` each result that did, and ask `settled` now and then for what is sure."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._waiting: dict[tuple[str, str], list[_Waiting]] = {}
        self._spared: dict[str, int] = {}  # by kind, since it went well last; of every kind that ever did

    def went_well(self, kind: str) -> None:
        self._spared[kind] = 0

    def add(self, played: Played) -> None:
        self._waiting.setdefault((played.host, played.worker), []).append(_Waiting(played, self._ticks()))

    def settled(self, *, all_of_them: bool = False) -> list[Loss]:
        """What has waited long enough, in the order in which it came."""
        found: list[Loss] = []
        for place, waiting in tuple(self._waiting.items()):
            is_due = self._ticks() - waiting[0].came >= TOGETHER_SECONDS or len(waiting) >= MOST_WAITING
            if is_due or all_of_them:
                del self._waiting[place]
                found += self._events([one.played for one in waiting])
        return found

    def _events(self, lost: list[Played]) -> list[Loss]:
        """Of one place: what came within a moment of the first is looked at together."""
        lost = sorted(lost, key=lambda one: one.result.ended_unix_seconds)
        found = []
        while lost:
            until = lost[0].result.ended_unix_seconds + TOGETHER_SECONDS
            now = [one for one in lost if one.result.ended_unix_seconds <= until]
            lost = lost[len(now):]
            found.append(self._event(now))
        return found

    def _event(self, lost: list[Played]) -> Loss:
        ours = [one for one in lost if _is_ours(one)]
        taken = [one for one in lost if _kind_of(one) in _LOSSES]
        kinds = {one.result.kind for one in taken}
        if not ours and not (len(kinds) > 1 or self._is_at_once(taken)):
            return Loss(tuple(lost), tuple(lost), False)
        own = [one for one in lost if one not in taken or (one not in ours and self._is_its_own(one.result.kind))]
        for kind in {one.result.kind for one in lost if one not in own and one not in ours}:
            self._spared[kind] = self._spared.get(kind, 0) + 1
        return Loss(tuple(lost), tuple(own), True)

    def _is_at_once(self, taken: list[Played]) -> bool:
        """Several episodes of one kind, which has gone well before and was not spared since."""
        if len({one.result.episode for one in taken}) < _SEVERAL or self._spared.get(taken[0].result.kind) != 0:
            return False
        times = [one.result.ended_unix_seconds for one in taken]
        return max(times) - min(times) <= _AT_ONCE_SECONDS

    def _is_its_own(self, kind: str) -> bool:
        return self._spared.get(kind, 0) >= _SPARED


def _kind_of(one: Played) -> str:
    return one.result.fault.partition(":")[0]


def _is_ours(one: Played) -> bool:
    return one.result.fault.partition(": ")[2].startswith(_OURS)
