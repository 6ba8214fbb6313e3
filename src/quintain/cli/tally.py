"""What a run adds up to, episode by episode. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from quintain.types import Episode, Owner, Reward, Trainable


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """`faults` counts the episodes that were not solved, by the owner of the failure: those of the task and the house
    have no reward. `reward` is the mean over the episodes that have one, `None` when none has; `masked` counts those
    whose reward is not to be trained on before people have looked."""

    episodes: int
    solved: int
    faults: dict[str, int]
    reward: float | None
    masked: int = 0

    def sentence(self) -> str:
        """The same in words."""
        faults = ", ".join(f"{owner} {count}" for owner, count in self.faults.items())
        reward = "none" if self.reward is None else f"{self.reward:+.3f}"
        sentence = f"{self.episodes} episodes, {self.solved} solved; mean reward {reward}; faults by owner: {faults}"
        return f"{sentence}; {self.masked} masked by soft flags" if self.masked else sentence


class Tally:
    """Adds finished episodes up; each id counts once, and the last that is said of it counts."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, Owner | None, Reward | None]] = {}

    def add(self, episode: Episode) -> None:
        self._known[episode.id] = (episode.solved, owner_of(episode), episode.reward)

    def forget(self, episode: str) -> None:
        """An episode is attempted again: what was known of it no longer counts."""
        self._known.pop(episode, None)

    def counts(self) -> Counts:
        faults = Counter(owner.value for _, owner, _ in self._known.values() if owner is not None)
        rewards = [reward for _, _, reward in self._known.values() if reward is not None]
        totals = [reward.total for reward in rewards]
        return Counts(
            episodes=len(self._known), solved=sum(solved for solved, _, _ in self._known.values()),
            faults={owner.value: faults[owner.value] for owner in Owner},
            reward=sum(totals) / len(totals) if totals else None,
            masked=sum(reward.trainable is Trainable.MASK for reward in rewards),
        )


def owner_of(episode: Episode) -> Owner | None:
    """Whose failure an episode ended with; `None` when it was solved.

    The house's and the task's failures left no reward; whatever else was not solved is the policy's.
    """
    if episode.solved:
        return None
    broken = episode.broken
    return broken.owner if broken is not None and episode.reward is None else Owner.POLICY
