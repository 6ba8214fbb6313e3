"""Importance weights: how far the policy that sampled is from the one that is trained, and what to do about it.

The sampler (another kernel, another precision, older weights) is μ, the policy as the update begins π_old: the weight
of a token is π_old/μ. Truncated (TIS) it is cut at a cap; masked (MIS) what lies outside a band does not count at all.
A row that is staler than a bound counts nowhere. Torch tensors in and out; nothing here imports torch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = 20.0


class Level(StrEnum):
    """What one weight is for."""

    TOKEN = "token"
    SEQUENCE = "sequence"  # the product over the row, one for all of its tokens


def truncated_weights(
    old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, *, cap: float = 2.0, level: Level | str = Level.TOKEN,
    ages_B: Tensor | None = None, oldest: int | None = None,
) -> Tensor:
    """min(π_old/μ, cap), no gradient, shape [B, T] ([B, 1] for sequences); 0 for rows of more than `oldest` updates of
    age. TIS (Espeholt et al. 2018, arXiv 1802.01561; Yao et al. 2025, fengyao.notion.site/off-policy-rl).

    TRL: `vllm_importance_sampling_mode="{token,sequence}_truncate"`; verl: `rollout_is`, `rollout_is_threshold`; slime:
    `--use-tis --tis-clip`."""
    weights = _weights(old_logp, sampler_logp, mask, Level(level)).clamp(max=cap)
    return _fresh(weights, ages_B, oldest)


def masked_weights(
    old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, *, low: float = 0.0, high: float = 3.0,
    level: Level | str = Level.SEQUENCE, ages_B: Tensor | None = None, oldest: int | None = None,
) -> Tensor:
    """π_old/μ inside [low, high] and 0 outside, otherwise as `truncated_weights`: MIS, as in IcePop. TRL's default
    (`sequence_mask`, cap 3.0); verl: `rollout_rs`."""
    weights = _weights(old_logp, sampler_logp, mask, Level(level))
    weights = weights.masked_fill((weights < low) | (weights > high), 0.0)
    return _fresh(weights, ages_B, oldest)


def _weights(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, level: Level) -> Tensor:
    gap = (old_logp - sampler_logp).detach().masked_fill(mask == 0, 0.0)
    if level is Level.SEQUENCE:
        gap = gap.sum(-1, keepdim=True)
    return gap.clamp(-_LARGEST, _LARGEST).exp()


def _fresh(weights: Tensor, ages_B: Tensor | None, oldest: int | None) -> Tensor:
    if ages_B is None or oldest is None:
        return weights
    return weights.masked_fill((ages_B > oldest).unsqueeze(-1), 0.0)
