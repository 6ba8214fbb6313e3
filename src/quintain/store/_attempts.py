"""Events of many writers put together again: whole attempts, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from quintain.store._sources import Hurt, Kept
from quintain.types import Closed, Opened

#: Half-open ranges of event indices, `(first, end)`, sorted, none touching the next.
Ranges = tuple[tuple[int, int], ...]


class Attempt(NamedTuple):
    """Events of one episode in order, from its Opened on. `closed`: the last one is Closed, or the next attempt has
    begun after it. `damaged`: some are missing."""

    episode: str
    kept: tuple[Kept, ...]
    closed: bool
    damaged: bool = False


class Assembly:
    """Takes the events of one run in any order of its sources, and gives out attempts as they become whole.

    `done` says which events of an episode are in the library already; they are passed over, and so is a second copy of
    an event. A second copy that says something else is named in `hurts`, and the first one stays.
    """

    def __init__(self, done: Mapping[str, Ranges]) -> None:
        self.hurts: list[Hurt] = []
        self._done: dict[str, Ranges] = dict(done)
        self._pending: dict[str, dict[int, Kept]] = {}
        self._last: dict[str, dict[str, int]] = {}  # of what was passed over or given out: source → episode → offset

    def take(self, kept: Kept) -> Iterator[Attempt]:
        event = kept.slim.event
        done = self._done.get(event.episode)
        if done and any(first <= event.index < end for first, end in done):
            self._note(kept)
            return
        pending = self._pending.setdefault(event.episode, {})
        known = pending.setdefault(event.index, kept)
        if known is not kept:
            if known.slim.text != kept.slim.text:
                what = f"{event.episode}: event {event.index} differs from the one in {known.source}"
                self.hurts.append(Hurt(kept.source, kept.offset, kept.offset, what))
        elif isinstance(event, Closed | Opened) or event.index + 1 in pending:
            yield from self._whole(event.episode, event.index)

    def rest(self) -> Iterator[Attempt]:
        """What is not whole: attempts that go on, and those of which events are missing."""
        for episode, pending in self._pending.items():
            indices = sorted(pending)
            chain = tuple(pending[index] for index in indices)
            gap = indices[-1] - indices[0] + 1 != len(indices) or not isinstance(chain[0].event, Opened)
            yield Attempt(episode, chain, closed=False, damaged=gap)

    def give_up(self, attempt: Attempt) -> None:
        """What is missing of a damaged attempt is not awaited any more."""
        self._emit(attempt.episode, attempt.kept)

    def low(self, source: str, end: int) -> int:
        """Where the next pass over a source must begin: at the first event that was not given out yet."""
        return min((kept.offset for pending in self._pending.values() for kept in pending.values()
                    if kept.source == source), default=end)

    def done_beyond(self, source: str, low: int) -> dict[str, Ranges]:
        """For the next pass: what it will meet again in a source from `low` on and must pass over."""
        return {episode: self._done[episode] for episode, at in self._last.get(source, {}).items() if at >= low}

    def _whole(self, episode: str, index: int) -> Iterator[Attempt]:
        pending = self._pending[episode]
        block = _block(pending, index)
        starts = [at for at, kept in enumerate(block) if isinstance(kept.slim.event, Opened)]
        for start, end in pairwise([*starts, len(block)]):
            piece = block[start:end]
            if end < len(block) or isinstance(piece[-1].event, Closed):
                yield self._emit(episode, tuple(piece))

    def _emit(self, episode: str, chain: tuple[Kept, ...]) -> Attempt:
        pending = self._pending[episode]
        for at, kept in enumerate(chain):
            if at + 1 == len(chain) or chain[at + 1].source != kept.source:
                self._note(kept)
            del pending[kept.slim.event.index]
        if not pending:
            del self._pending[episode]
        first, end = chain[0].event.index, chain[-1].event.index + 1
        self._done[episode] = merged([*self._done.get(episode, ()), (first, end)])
        return Attempt(episode, chain, closed=True)

    def _note(self, kept: Kept) -> None:
        last = self._last.setdefault(kept.source, {})
        last[kept.slim.event.episode] = max(kept.offset, last.get(kept.slim.event.episode, 0))


def merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """The same indices, each once."""
    made: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if made and first <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((first, end))
    return tuple(made)


def _block(pending: Mapping[int, Kept], index: int) -> list[Kept]:
    """The events that are known without a gap around one."""
    first = index
    while first - 1 in pending:
        first -= 1
    end = index
    while end in pending:
        end += 1
    return [pending[at] for at in range(first, end)]
