"""Sibling episodes: who they are, and when they are complete. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from quintain.tasks import Item
from quintain.types import Episode, Group, Trainable


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
        self._withdrawn: set[str] = set()

    def add(self, episode: Episode) -> Group | None:
        """The group, in the order of its tickets, once its last episode is in."""
        self._episodes[episode.id] = episode
        return self._complete()

    def withdraw(self, ticket: Ticket) -> Group | None:
        """This one is not played: the group is complete without it, and masked; there is none where nobody played."""
        self._withdrawn.add(ticket.episode)
        return self._complete()

    def _complete(self) -> Group | None:
        if not self._episodes or len(self._episodes) + len(self._withdrawn) < len(self._members):
            return None
        first = self._members[0]
        played = (ticket.episode for ticket in self._members if ticket.episode in self._episodes)
        group = Group(
            id=first.group, task=first.item.task.id, episodes=tuple(self._episodes[episode] for episode in played),
        )
        return masked(group) if self._withdrawn else group


def masked(group: Group) -> Group:
    """The group with no reward to train on: each that it has is there to be read, and `rewards_G` is all `None`."""
    replace = msgspec.structs.replace
    return replace(group, episodes=tuple(
        episode if episode.reward is None or episode.reward.trainable is not Trainable.YES
        else replace(episode, reward=replace(episode.reward, trainable=Trainable.MASK))
        for episode in group.episodes
    ))
