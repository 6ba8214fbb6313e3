"""What is left out of an update, and why: each trajectory has one reason or none.

Whatever is left out is out of the loss *and* out of its siblings' baseline, so filters come before advantages: a row
that teaches nothing must not move what its siblings are compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from quintain.train.advantage import spread
from quintain.train.trajectory import Trajectory
from quintain.types import Finish


class Why(StrEnum):
    """Why a trajectory is left out, the first that holds."""

    HOUSE = "house"  # the house or the task failed: there is no reward
    UNREWARDED = "unrewarded"  # masked, suspended, or never graded
    EMPTY = "empty"  # nothing was sampled in it
    OVERLONG = "overlong"  # its reply was cut at the length limit, or it is longer than is trained
    STALE = "stale"  # sampled too many updates ago
    NO_SIGNAL = "no_signal"  # its whole group was rewarded alike, or has no sibling to be compared with


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to leave out. `longest` counts tokens (None: no bound); `cut_replies`: leave out replies that were cut at
    the length limit (DAPO's over-long filter; TRL `mask_truncated_completions`); `oldest` counts updates since its
    oldest token was sampled (None: no bound); `alike`: leave out groups whose rewards are within 1e-9 of each other
    (verl `filter_groups`, DAPO's dynamic sampling). Of a group that the house broke, or filters left, fewer than
    `fewest` siblings with a reward, none is trained: what is left is no fair comparison."""

    longest: int | None = None
    cut_replies: bool = False
    oldest: int | None = None
    alike: bool = True
    fewest: int = 2

    def __post_init__(self) -> None:
        if self.fewest < 1:
            raise ValueError(f"fewest must be at least 1, found {self.fewest}")

    def why(self, trajectory: Trajectory, *, version: int | None = None) -> Why | None:
        """The reason that lies in itself; its group's is `sift`'s. `version` is that of the policy to be updated."""
        if trajectory.house is not None:
            return Why.HOUSE
        if trajectory.reward is None:
            return Why.UNREWARDED
        if not any(trajectory.loss_mask):
            return Why.EMPTY
        if self.longest is not None and len(trajectory.token_ids) > self.longest:
            return Why.OVERLONG
        if self.cut_replies and any(span.finish is Finish.LENGTH for span in trajectory.turns):
            return Why.OVERLONG
        if self.oldest is not None and version is not None and age_of(trajectory, version) > self.oldest:
            return Why.STALE
        return None


class Sifted(msgspec.Struct, frozen=True, kw_only=True):
    """`kept_B` holds the trajectories in their order, those that are left out with a reward of `None`; `whys_B` tells
    of each why. `useless` is the share in [0, 1] of groups that teach nothing; `None` where there are no groups."""

    kept_B: tuple[Trajectory, ...]
    whys_B: tuple[Why | None, ...]
    useless: float | None

    @property
    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(why.value for why in self.whys_B if why is not None).items()))


def sift(trajectories: Iterable[Trajectory], chosen: Filter | None = None, *, version: int | None = None) -> Sifted:
    """Say of each trajectory whether it is trained. Raises ValueError for a policy version that is no number where an
    age is asked for."""
    asked = chosen or Filter()
    rows = tuple(trajectories)
    whys = [asked.why(row, version=version) for row in rows]
    groups: dict[str, list[int]] = {}
    for nth, row in enumerate(rows):
        groups.setdefault(row.group, []).append(nth)
    useless = 0
    for places in groups.values():
        # An episode of several rows is one sibling: its rows have one reward.
        rewards = {rows[nth].episode: rows[nth].reward for nth in places if whys[nth] is None}
        few = len(rewards) < asked.fewest
        if useful(list(rewards.values())) and not few:
            continue
        useless += 1
        if asked.alike or few:
            for nth in places:
                whys[nth] = whys[nth] or Why.NO_SIGNAL
    return Sifted(
        kept_B=tuple(
            row if why is None else msgspec.structs.replace(row, reward=None, advantages=None)
            for row, why in zip(rows, whys, strict=True)
        ),
        whys_B=tuple(whys), useless=useless / len(groups) if groups else None,
    )


def useful(rewards_G: Sequence[float | None]) -> bool:
    """Whether a group teaches anything: two rewards that differ."""
    known = [reward for reward in rewards_G if reward is not None]
    return spread(known)[1] > 1e-9


def age_of(trajectory: Trajectory, version: int) -> int:
    """Updates since the oldest of its tokens was sampled. Raises ValueError for a version that is no whole number."""
    ages = []
    for name in {name for name in trajectory.policy_versions if name}:
        try:
            ages.append(version - int(name))
        except ValueError:
            raise ValueError(
                f"trajectory {trajectory.episode}: expected policy versions that are whole numbers, found {name!r}")
    return max(ages, default=0)
