"""Advantages: from the rewards of an episode and its siblings to how much better than expected it went.

Everywhere `None` is an episode without a reward (the house failed, it was masked or filtered): it has no advantage, and
it is not in its siblings' baseline, which are what they would be had it never been played. Where there is nothing to
compare (all rewards alike, one that is known) each advantage is exactly 0, never NaN. Standard deviations are unbiased
(n − 1), as torch's and every trainer's are. Shapes: G siblings of one group, B episodes of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import msgspec


def grpo(rewards_G: Sequence[float | None], *, epsilon: float = 1e-6) -> list[float | None]:
    """(R − mean) / (std + ε) within one group: GRPO (Shao et al. 2024, arXiv 2402.03300, eq. 3).

    verl: `adv_estimator=grpo` (ε 1e-6); TRL: `scale_rewards="group"` (ε 1e-4).
    """
    _, deviation = spread(_known(rewards_G))
    return [None if a is None else a / (deviation + epsilon) for a in dr_grpo(rewards_G)]


def dr_grpo(rewards_G: Sequence[float | None]) -> list[float | None]:
    """R − mean within one group: Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): no std, so that easy and hard tasks are
    not weighed up. verl: `norm_adv_by_std_in_grpo=False`; TRL: `scale_rewards="none"`."""
    mean, deviation = spread(_known(rewards_G))
    return [None if r is None else r - mean if deviation else 0.0 for r in rewards_G]


def maxrl(rewards_G: Sequence[float | None]) -> list[float | None]:
    """(R − mean) / mean within one group: MaxRL (Tajwar et al. 2026, arXiv 2602.02710): the larger the group, the more
    its gradient is that of log p(solved), and the rarer a success, the more it weighs. Raises ValueError for a reward
    below 0. SkyRL: `maxrl`."""
    known = _known(rewards_G)
    if any(reward < 0.0 for reward in known):
        raise ValueError(f"expected rewards of at least 0 or None, found {list(rewards_G)}")
    mean, deviation = spread(known)
    return [None if r is None else (r - mean) / mean if deviation and mean else 0.0 for r in rewards_G]


def rloo(rewards_G: Sequence[float | None]) -> list[float | None]:
    """R − mean of the *other* siblings: RLOO (Ahmadian et al. 2024, arXiv 2402.14740): unbiased at any group size.
    The same as G/(G−1) times Dr. GRPO's. verl: `adv_estimator=rloo`; TRL: RLOOTrainer."""
    count = len(_known(rewards_G))
    factor = count / (count - 1) if count > 1 else 0.0
    return [None if a is None else a * factor for a in dr_grpo(rewards_G)]


def reinforce_plus_plus(
    rewards_B: Sequence[float | None], *, tokens_B: Sequence[int] | None = None,
    groups_B: Sequence[Hashable] | None = None, epsilon: float = 1e-8,
) -> list[float | None]:
    """Rewards whitened over the whole batch: REINFORCE++ (Hu 2025, arXiv 2501.03262), γ = 1.

    `tokens_B` counts the trained tokens of each episode and weighs it in mean and std, as verl does, whose whitening
    goes over tokens; without it each episode counts once. With `groups_B` (the group of each episode) the group's mean
    is subtracted first: the paper's "-baseline" variant. verl: `reinforce_plus_plus`, `reinforce_plus_plus_baseline`.
    """
    if groups_B is None:
        return whiten(rewards_B, weights_B=tokens_B, epsilon=epsilon)
    return whiten(_by_group(rewards_B, groups_B, None), weights_B=tokens_B, epsilon=epsilon)


def gdpo(
    rewards_B: Sequence[Mapping[str, float | None] | None], groups_B: Sequence[Hashable], *,
    weights: Mapping[str, float] | None = None, tokens_B: Sequence[int] | None = None, epsilon: float = 1e-6,
    whiten_epsilon: float = 1e-8,
) -> list[float | None]:
    """Several named rewards, each normalised within its group, weighed, added, and the sum whitened over the batch:
    GDPO (Liu et al. 2026, arXiv 2601.05242), which keeps a loud reward from drowning a quiet one.

    `weights` names the rewards that count (default: every name that occurs, each 1). A reward that is None or absent
    was not measured: it adds nothing to that episode, and is not in that reward's baseline. verl:
    `adv_estimator=gdpo`; TRL: `multi_objective_aggregation="normalize_then_sum"` (both ε 1e-4).
    Raises ValueError for a weight of a reward that no episode has.
    """
    names = {name for rewards in rewards_B if rewards is not None for name in rewards}
    chosen = dict.fromkeys(sorted(names), 1.0) if weights is None else dict(weights)
    if unknown := sorted(set(chosen) - names):
        raise ValueError(f"expected weights of rewards that there are ({sorted(names)}), found {unknown}")
    total: list[float | None] = [None if not _measured(rewards, chosen) else 0.0 for rewards in rewards_B]
    for name, weight in chosen.items():
        column = [None if rewards is None else rewards.get(name) for rewards in rewards_B]
        for nth, value in enumerate(_by_group(column, groups_B, epsilon)):
            held = total[nth]
            if value is not None and held is not None:
                total[nth] = held + weight * value
    return whiten(total, weights_B=tokens_B, epsilon=whiten_epsilon)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an episode: the digest of the state it was taken in, and the reward it got."""

    state: Hashable
    reward: float = 0.0


def gigpo(
    rewards_G: Sequence[float | None], steps_G: Sequence[Sequence[Step]], *, gamma: float = 0.95,
    step_weight: float = 1.0, epsilon: float = 1e-6, scale: bool = True,
) -> list[list[float] | None]:
    """An advantage for each step of each sibling: GiGPO (Feng et al. 2025, arXiv 2505.10978).

    A step's is the episode's GRPO advantage plus `step_weight` times how its discounted return Σ γ^k r compares with
    those of all the group's steps that were taken in the *same state*; a step alone in its state adds nothing.
    `scale=False` divides by no std (the paper's F_norm = 1). An episode without a reward has no steps that count.
    ROLL: `adv_estimator: gigpo`, `step_reward_gamma`. Raises ValueError for lengths that differ.
    """
    if len(rewards_G) != len(steps_G):
        raise ValueError(f"expected the steps of each of {len(rewards_G)} episodes, found {len(steps_G)}")
    whole = grpo(rewards_G, epsilon=epsilon) if scale else dr_grpo(rewards_G)
    returns: list[float | None] = []
    states: list[Hashable] = []
    for reward, steps in zip(rewards_G, steps_G, strict=True):
        returns += [None] * len(steps) if reward is None else discounted([s.reward for s in steps], gamma=gamma)
        states += [step.state for step in steps]
    local = iter(_by_group(returns, states, epsilon if scale else None))
    found: list[list[float] | None] = []
    for advantage, steps in zip(whole, steps_G, strict=True):
        mine = [next(local) for _ in steps]
        found.append(None if advantage is None else [advantage + step_weight * (a or 0.0) for a in mine])
    return found


def discounted(
    rewards_T: Sequence[float], *, gamma: float, mask_T: Sequence[bool] | None = None,
) -> list[float]:
    """The return from each position on, Σ γ^k r, shape [T] → [T].

    With a mask, time passes at trained positions only, and a reward that stands on a masked one (the episode ended
    with a tool's result) belongs to the last trained one before it, undiscounted. The return at a masked position is 0.
    """
    ahead, waiting, found = 0.0, 0.0, []
    for nth in reversed(range(len(rewards_T))):
        if mask_T is None or mask_T[nth]:
            ahead = rewards_T[nth] + waiting + gamma * ahead
            waiting = 0.0
            found.append(ahead)
        else:
            waiting += rewards_T[nth]
            found.append(0.0)
    return found[::-1]


def whiten(
    values_B: Sequence[float | None], *, weights_B: Sequence[float] | None = None, epsilon: float = 1e-8,
) -> list[float | None]:
    """(x − mean) / (std + ε) over a whole batch; `weights_B` counts each value that many times."""
    weights = [1.0] * len(values_B) if weights_B is None else weights_B
    if len(weights) != len(values_B):
        raise ValueError(f"expected {len(values_B)} weights, found {len(weights)}")
    pairs = [(v, w) for v, w in zip(values_B, weights, strict=True) if v is not None]
    mean, deviation = spread([v for v, _ in pairs], [w for _, w in pairs])
    return [None if v is None else (v - mean) / (deviation + epsilon) if deviation else 0.0 for v in values_B]


def spread(values: Sequence[float], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """Mean and unbiased standard deviation; (0, 0) of nothing, and a deviation of exactly 0 where all are alike."""
    counted = [1.0] * len(values) if weights is None else weights
    total = math.fsum(counted)
    if not values or total <= 0.0:
        return 0.0, 0.0
    mean = math.fsum(v * w for v, w in zip(values, counted, strict=True)) / total
    if total <= 1.0 or max(values) == min(values):
        return mean, 0.0
    variance = math.fsum(w * (v - mean) ** 2 for v, w in zip(values, counted, strict=True)) / (total - 1.0)
    return mean, math.sqrt(variance)


def _by_group(
    values_B: Sequence[float | None], groups_B: Sequence[Hashable], epsilon: float | None,
) -> list[float | None]:
    """Each value less its group's mean, and over its std + ε where there is an ε."""
    if len(values_B) != len(groups_B):
        raise ValueError(f"expected the group of each of {len(values_B)} values, found {len(groups_B)}")
    members: dict[Hashable, list[int]] = {}
    for nth, group in enumerate(groups_B):
        members.setdefault(group, []).append(nth)
    found: list[float | None] = [None] * len(values_B)
    for places in members.values():
        column = [values_B[nth] for nth in places]
        centred = dr_grpo(column) if epsilon is None else grpo(column, epsilon=epsilon)
        for nth, value in zip(places, centred, strict=True):
            found[nth] = value
    return found


def _known(rewards: Sequence[float | None]) -> list[float]:
    known = [r for r in rewards if r is not None]
    if not all(map(math.isfinite, known)):
        raise ValueError(f"expected finite rewards or None, found {list(rewards)}")
    return known


def _measured(rewards: Mapping[str, float | None] | None, names: Mapping[str, float]) -> bool:
    return rewards is not None and any(rewards.get(name) is not None for name in names)
