"""An episode and its siblings, folded from their logs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quintain.types.conversation import Turn
from quintain.types.event import Broke, Closed, Event, Graded, Opened, Rejected, Sampled, Stop
from quintain.types.fault import Fault, Owner
from quintain.types.reward import Reward, Trainable, Verdict


class Episode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of one attempt at one task. `stop` is `None` while it lives; a `reward` of `None` never enters a
    group's baseline."""

    id: str
    task: str
    task_version: str
    kind: str
    group: str
    attempt: int
    policy: str
    turns: tuple[Turn, ...] = ()
    faults: tuple[Fault, ...] = ()
    verdict: Verdict | None = None
    reward: Reward | None = None
    stop: Stop | None = None
    seconds: float = 0.0

    @property
    def solved(self) -> bool:
        return self.reward is not None and self.reward.solved

    @property
    def broken(self) -> Fault | None:
        """The house's or the task's fault that ended it, if one did."""
        return next((f for f in reversed(self.faults) if f.owner is not Owner.POLICY), None)


def fold(events: Iterable[Event]) -> Episode:
    """The episode that a log tells. Raises ValueError for a log that does not begin with Opened."""
    episode: Episode | None = None
    for event in events:
        if isinstance(event, Opened):
            episode = Episode(
                id=event.episode, task=event.task, task_version=event.task_version, kind=event.kind,
                group=event.group, attempt=event.attempt, policy=event.policy,
            )
            continue
        if episode is None:
            found = type(event).__name__
            raise ValueError(f"episode {event.episode}: expected Opened as its first event, found {found}")
        episode = _fold_one(episode, event)
    if episode is None:
        raise ValueError("expected at least one event, found none")
    return episode


def _fold_one(episode: Episode, event: Event) -> Episode:
    replace = msgspec.structs.replace
    episode = replace(episode, seconds=event.at_seconds)
    match event:
        case Sampled(turn=turn):
            return replace(episode, turns=(*episode.turns, turn))
        case Rejected(fault=fault):
            return replace(episode, faults=(*episode.faults, fault))
        case Graded(verdict=verdict, reward=reward, final=final):
            return replace(episode, verdict=verdict, reward=reward if final else episode.reward)
        case Broke(fault=fault):
            return replace(episode, faults=(*episode.faults, fault), reward=None)
        case Closed(stop=stop):
            return replace(episode, stop=stop, reward=None if stop is Stop.BROKEN else episode.reward)
        case _:
            return episode


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sibling episodes of one task, compared with each other. `rewards_G` holds one total per episode, `None` where
    there is none to train on."""

    id: str
    task: str
    episodes: tuple[Episode, ...]

    @property
    def rewards_G(self) -> tuple[float | None, ...]:
        return tuple(
            e.reward.total if e.reward is not None and e.reward.trainable is Trainable.YES else None
            for e in self.episodes
        )

    @property
    def baseline(self) -> float | None:
        """Mean reward over the episodes that have one; `None` if none has."""
        known = [r for r in self.rewards_G if r is not None]
        return sum(known) / len(known) if known else None
