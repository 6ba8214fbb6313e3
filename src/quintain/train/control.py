"""Controls of the reward signal: the same training with a reward that says nothing. What still improves was not learnt
from the reward (Shao et al. 2025, "Spurious Rewards", arXiv 2506.10947).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum

from quintain.train.credit import with_rewards
from quintain.train.trajectory import Trajectory


class Control(StrEnum):
    """What replaces the rewards: the one flag of a control run."""

    NONE = "none"  # the rewards as they are
    RANDOM = "random"  # 0 or 1, a coin for each episode
    CONSTANT = "constant"  # 1 for everybody
    SHUFFLED = "shuffled"  # the batch's own rewards, dealt out anew: same values, no meaning


def controlled(
    rewards_B: Sequence[float | None], control: Control | str, *, seed: int,
) -> list[float | None]:
    """The rewards under a control; `None` stays `None` in its place. The same seed deals the same."""
    chosen = Control(control)
    dice = random.Random(seed)
    known = [reward for reward in rewards_B if reward is not None]
    match chosen:
        case Control.NONE:
            dealt = known
        case Control.RANDOM:
            dealt = [float(dice.random() < 0.5) for _ in known]
        case Control.CONSTANT:
            dealt = [1.0] * len(known)
        case Control.SHUFFLED:
            dealt = dice.sample(known, len(known))
    left = iter(dealt)
    return [None if reward is None else next(left) for reward in rewards_B]


def with_control(
    rows_B: Sequence[Trajectory], control: Control | str, *, seed: int,
) -> tuple[Trajectory, ...]:
    """The same of a batch of rows; all rows of an episode are dealt one reward. Only `reward` changes: the named ones,
    and whether it was solved, stay true, so that what is measured is measured on the truth."""
    if Control(control) is Control.NONE:
        return tuple(rows_B)
    first: dict[str, float] = {}
    for row in rows_B:
        if row.reward is not None:
            first.setdefault(row.episode, row.reward)
    dealt = dict(zip(first, controlled(list(first.values()), control, seed=seed), strict=True))
    return with_rewards(rows_B, lambda row: dealt[row.episode])
