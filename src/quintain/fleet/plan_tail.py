"""When a group of siblings has enough: spares that begin early or late, and the tail that is cut. Pure.

A spare is a sibling of its own, with a seed of its own: never a second run of the same episode, so nothing can be
counted twice. What is cut has no reward and enters no baseline. To cut the slowest prefers the quick: where the length
of episodes matters to what is learnt, give no spares, or begin them late.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Spares(StrEnum):
    """When spares begin."""

    EARLY = "early"  # with the others: quickest, and dearest
    LATE = "late"  # one for each that broke, or that takes much longer than the others did


class Tail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`want` results make a group. A sibling is a straggler when it has run for `patience` times the median of those
    that have ended, and at least half of `want` have. With `least` results, what only stragglers could add is not
    waited for; `None` means `want`."""

    want: int
    spares: Spares = Spares.LATE
    patience: float = 3.0
    least: int | None = None

    def __post_init__(self) -> None:
        if self.want < 1:
            raise ValueError(f"want must be at least 1, found {self.want}")
        if self.least is not None and not 1 <= self.least <= self.want:
            raise ValueError(f"least must be from 1 to {self.want}, found {self.least}")
        if not self.patience >= 1.0:
            raise ValueError(f"patience must be at least 1, found {self.patience!r}")


class Moves(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: siblings to offer, and siblings to stop (or to withdraw, where they wait). `over` says that nothing
    more will come of this group: it has its results, or cannot get more."""

    begin: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    over: bool = False


class _Stand(StrEnum):
    SPARE = "spare"
    OFFERED = "offered"
    RUNNING = "running"
    DONE = "done"
    BROKEN = "broken"
    CUT = "cut"


class Race:
    """One group. `members` are all siblings in the order in which they are to begin, the spares last.

    Tell it what happens (`began`, `done`, `broke`) and ask for `moves`; a move is named once.
    """

    def __init__(self, members: Sequence[str], tail: Tail) -> None:
        if len(members) < tail.want or len(set(members)) < len(members):
            raise ValueError(f"expected at least {tail.want} different siblings, found {list(members)}")
        self.tail = tail
        self._stands = dict.fromkeys(members, _Stand.SPARE)
        self._began: dict[str, float] = {}
        self._took: list[float] = []
        self._late: set[str] = set()

    @property
    def done(self) -> tuple[str, ...]:
        """Those with a result that counts: never more than are wanted."""
        return self._all(_Stand.DONE)

    def began(self, id: str, *, at: float) -> None:
        """It runs from now on (again, where a host was lost)."""
        if self._stands[id] in (_Stand.OFFERED, _Stand.RUNNING):
            self._stands[id] = _Stand.RUNNING
            self._began[id] = at

    def finished(self, id: str, *, at: float) -> bool:
        """It has a result: whether that counts. After the cut, or twice, it does not."""
        if self._stands[id] not in (_Stand.OFFERED, _Stand.RUNNING) or len(self.done) >= self.tail.want:
            return False
        self._stands[id] = _Stand.DONE
        self._took.append(at - self._began.get(id, at))
        return True

    def broke(self, id: str) -> None:
        """It is over and has no result: the house or the task failed."""
        if self._stands[id] in (_Stand.OFFERED, _Stand.RUNNING):
            self._stands[id] = _Stand.BROKEN

    def moves(self, at: float) -> Moves:
        offered = [id for id, stand in self._stands.items() if stand in (_Stand.OFFERED, _Stand.RUNNING)]
        spare = self._all(_Stand.SPARE)
        late = [id for id in offered if self._is_late(id, at)]
        results = len(self.done)
        enough = results >= self.tail.want or (
            results >= (self.tail.least or self.tail.want) and len(late) == len(offered) and not spare
        )
        if enough:
            return self._end(offered)
        if self.tail.spares is Spares.EARLY:
            begin = spare
        else:
            begin = spare[:max(0, self.tail.want - results - (len(offered) - len(late)))]
        self._late.update(late)
        for id in begin:
            self._stands[id] = _Stand.OFFERED
        return Moves(begin=begin, over=not offered and not begin)

    def _end(self, offered: Sequence[str]) -> Moves:
        for id in offered:
            self._stands[id] = _Stand.CUT
        return Moves(cut=tuple(offered), over=True)

    def _is_late(self, id: str, at: float) -> bool:
        if id in self._late:
            return True
        if self._stands[id] is not _Stand.RUNNING or 2 * len(self._took) < self.tail.want:
            return False
        return at - self._began[id] > self.tail.patience * statistics.median(self._took)

    def _all(self, stand: _Stand) -> tuple[str, ...]:
        return tuple(id for id, now in self._stands.items() if now is stand)
