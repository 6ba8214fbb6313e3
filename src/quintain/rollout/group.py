"""Sibling episodes: who they are, and when they are complete. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from quintain.tasks import Item
from quintain.types import Episode, Group


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """One episode that is to be played. The same run, task and number give the same ticket, so a run that is resumed
    finds its own episodes again."""

    item: Item
    episode: str
    group: str
    seed: int


def tickets(item: Item, *, size: int, seed: int, round: int = 0) -> tuple[Ticket, ...]:
    """The `size` siblings of one task: `TASK#0`, `TASK#1`, … (`TASK@2#0` in round 2)."""
    group = f"{item.task.id}@{round}" if round else item.task.id
    names = [f"{group}#{nth}" for nth in range(size)]
    return tuple(Ticket(item=item, episode=name, group=group, seed=seed_of(seed, name)) for name in names)


def seed_of(seed: int, name: str) -> int:
    """A seed in [0, 2³¹) that depends on the run's seed and a name only, not on any order."""
    digest = hashlib.sha256(f"{seed}:".encode() + name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4]) >> 1


class Siblings:
    """Episodes of one group as they come in, in any order."""

    def __init__(self, members: tuple[Ticket, ...]) -> None:
        self._members = members
        self._episodes: dict[str, Episode] = {}

    def add(self, episode: Episode) -> Group | None:
        """The group, in the order of its tickets, once its last episode is in."""
        self._episodes[episode.id] = episode
        if len(self._episodes) < len(self._members):
            return None
        first = self._members[0]
        return Group(
            id=first.group, task=first.item.task.id,
            episodes=tuple(self._episodes[ticket.episode] for ticket in self._members),
        )
