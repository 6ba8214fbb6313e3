"""Policy losses: from log-probabilities and advantages to one number to go down. Torch tensors in, torch tensors out.

Nothing here imports torch: whoever has tensors has it. A loss gives one value per token, shape [B, T], already 0 where
`mask` is; `aggregate` makes the number of them. What stands at masked positions is never looked at, be it NaN or
infinite. `advantage` is [B, T], or [B, 1] to hold for a whole row. `mask` is 1 where the policy sampled the token.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

#: Log-ratios are cut here before exp, as verl cuts them: e²⁰ is a wrong number and still a finite one.
LARGEST_LOG_RATIO = 20.0


class Aggregation(StrEnum):
    """How tokens become one number, which decides what a long reply weighs."""

    TOKEN_MEAN = "token_mean"  # each token of the batch the same: DAPO; verl `token-mean`, TRL `loss_type="dapo"`
    SEQ_MEAN = "seq_mean"  # each row the same, a mean within it: GRPO; verl `seq-mean-token-mean`, TRL `grpo`
    DR_GRPO = "dr_grpo"  # sums over a constant length: Dr. GRPO; verl `seq-mean-token-sum-norm`, TRL `dr_grpo`


def ppo_clip(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, mask: Tensor, *, low: float = 0.2, high: float = 0.28,
    dual: float | None = 3.0,
) -> Tensor:
    """−min(r·A, clip(r, 1 − low, 1 + high)·A): PPO (Schulman et al. 2017, arXiv 1707.06347) with DAPO's clip-higher
    (Yu et al. 2025, arXiv 2503.14476), and for A < 0 at most −dual·A: dual clip (Ye et al. 2020, arXiv 1912.09729).
    verl: `clip_ratio_low/high/c`; TRL: `epsilon`, `epsilon_high`. Raises ValueError for a dual ≤ 1."""
    if dual is not None and dual <= 1.0:
        raise ValueError(f"expected dual > 1, found {dual!r}")
    ratio = _ratio(logp, old_logp, mask)
    loss = (-advantage * ratio).maximum(-advantage * ratio.clamp(1.0 - low, 1.0 + high))
    if dual is not None:
        loss = loss.minimum(-advantage * dual).where(advantage < 0, loss)
    return _masked(loss, mask)


def gspo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, mask: Tensor, *, low: float = 3e-4, high: float = 4e-4,
) -> Tensor:
    """As PPO with one ratio per row, the geometric mean of its tokens': GSPO (Zheng et al. 2025, arXiv 2507.18071),
    in its token form, whose gradient goes through each token. Use it with `seq_mean`, and far smaller clips than
    PPO's (the paper's are the defaults). verl: `loss_mode: gspo`; TRL: `importance_sampling_level="sequence"`."""
    gap = _masked(logp - old_logp, mask)
    whole = gap.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    ratio = (_masked(logp - logp.detach(), mask) + whole.detach()).clamp(max=10.0).exp()
    loss = (-advantage * ratio).maximum(-advantage * ratio.clamp(1.0 - low, 1.0 + high))
    return _masked(loss, mask)


def cispo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, mask: Tensor, *, low: float | None = None, high: float = 5.0,
) -> Tensor:
    """−sg(clip(r))·A·log π: CISPO (MiniMax 2025, arXiv 2506.13585): the ratio is cut and is no path for the gradient,
    so no token ever drops out. `low` and `high` bound the ratio itself: TRL's `epsilon_high` is `high`, verl's
    `clip_ratio_low/high` are 1 − `low` and `high` − 1."""
    ratio = _ratio(logp, old_logp, mask).detach().clamp(low, high)
    return -_masked(ratio * advantage, mask) * _masked(logp, mask)


def clip_fraction(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, mask: Tensor, *, low: float = 0.2, high: float = 0.28,
) -> Tensor:
    """Share in [0, 1] of the trained tokens that PPO's clip leaves without a gradient."""
    ratio = _ratio(logp, old_logp, mask)
    cut = ((ratio > 1.0 + high) & (advantage > 0)) | ((ratio < 1.0 - low) & (advantage < 0))
    return aggregate(_masked(cut.to(logp.dtype), mask), mask)


def kl_k1(logp: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """log π − log π_ref per token: unbiased, any sign (Schulman 2020, joschu.net/blog/kl-approx.html)."""
    return _masked(logp - reference, mask)


def kl_k2(logp: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """½ (log π − log π_ref)² per token: never negative, and its gradient is that of the KL."""
    return 0.5 * _masked(logp - reference, mask).square()


def kl_k3(logp: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """π_ref/π − 1 − log(π_ref/π) per token: unbiased and never negative. What GRPO, TRL and verl (`low_var_kl`) use;
    cut at 10 as verl's."""
    gap = _masked(reference - logp, mask).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return (gap.exp() - gap - 1.0).clamp(-10.0, 10.0)


def aggregate(
    losses: Tensor, mask: Tensor, how: Aggregation | str = Aggregation.TOKEN_MEAN, *, longest: int | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    """The losses [B, T] as one number; 0 where nothing is trained. A row that is masked whole counts nowhere.

    `longest` is the constant length of `dr_grpo` (the longest reply that may be; default T). `weight` ([B, T] or
    [B, 1], from `truncated_weights` or `masked_weights`) multiplies the losses and no denominator, as in verl and TRL.
    """
    chosen = Aggregation(how)
    values = _masked(losses if weight is None else losses * weight, mask)
    counts = mask.sum(-1)
    if chosen is Aggregation.TOKEN_MEAN:
        return values.sum() / counts.sum().clamp(min=1)
    rows = (counts > 0).sum().clamp(min=1)
    if chosen is Aggregation.SEQ_MEAN:
        return (values.sum(-1) / counts.clamp(min=1)).sum() / rows
    return values.sum() / (rows * (longest or losses.shape[-1]))


def _ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    return _masked(logp - old_logp, mask).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    """0 where masked, whatever stood there: NaN · 0 is NaN, so nothing is multiplied."""
    return values.masked_fill(mask == 0, 0.0)
