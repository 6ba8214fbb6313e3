"""A loss looks at what was sampled, and at nothing else."""

from __future__ import annotations

import math

import pytest

from quintain.train import (
    aggregate,
    cispo,
    clip_fraction,
    gspo,
    kl_k1,
    kl_k2,
    kl_k3,
    masked_weights,
    ppo_clip,
    truncated_weights,
)

torch = pytest.importorskip("torch", reason="losses need torch: pip install quintain[train]")

OLD = torch.tensor([[-1.0, -2.0, -0.5], [-1.5, -0.2, -3.0]])
MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])
ADVANTAGE = torch.tensor([[1.0], [-1.0]])


@pytest.mark.parametrize("loss", [ppo_clip, gspo, cispo])
@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf])
def test_what_stands_at_masked_positions_is_never_looked_at(loss, rubbish) -> None:
    clean = (OLD + 0.1).requires_grad_()
    dirty = (OLD + 0.1).masked_fill(MASK == 0, rubbish).requires_grad_()
    for logp in (clean, dirty):
        aggregate(loss(logp, OLD, ADVANTAGE, MASK), MASK).backward()
    assert torch.equal(clean.grad, dirty.grad)
    assert clean.grad[MASK == 0].abs().sum() == 0


@pytest.mark.parametrize("kl", [kl_k1, kl_k2, kl_k3])
def test_kl_of_a_policy_with_itself_is_nothing(kl) -> None:
    assert kl(OLD, OLD, MASK).abs().sum() == 0
    assert kl(OLD.masked_fill(MASK == 0, math.nan), OLD, MASK).isfinite().all()


@pytest.mark.parametrize("how", ["token_mean", "seq_mean", "dr_grpo"])
def test_a_batch_with_nothing_to_train_is_no_division_by_nothing(how) -> None:
    assert aggregate(OLD, torch.zeros_like(MASK), how).item() == 0.0


@pytest.mark.parametrize("how", ["token_mean", "seq_mean", "dr_grpo"])
def test_a_row_that_is_masked_whole_changes_nothing(how) -> None:
    more = torch.cat([OLD, torch.full((3, 3), 1e9)])
    mask = torch.cat([MASK, torch.zeros(3, 3, dtype=torch.long)])
    assert aggregate(more, mask, how).item() == aggregate(OLD, MASK, how).item()


def test_the_clip_leaves_a_gradient_only_where_it_leads_back() -> None:
    up = (OLD + 1.0).requires_grad_()  # ratio e: beyond the clip for the good row, within the dual clip for the bad
    aggregate(ppo_clip(up, OLD, ADVANTAGE, MASK), MASK).backward()
    assert up.grad[0].abs().sum() == 0 and up.grad[1, 0] > 0
    far = (OLD + 2.0).requires_grad_()  # e² > 3: dual clip
    aggregate(ppo_clip(far, OLD, ADVANTAGE, MASK), MASK).backward()
    assert far.grad.abs().sum() == 0
    assert clip_fraction(up.detach(), OLD, ADVANTAGE, MASK).item() == pytest.approx(2 / 3)


def test_a_dual_clip_that_would_cut_the_policy_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="expected dual > 1, found 1"):
        ppo_clip(OLD, OLD, ADVANTAGE, MASK, dual=1.0)


def test_without_a_change_each_loss_has_the_policy_gradient() -> None:
    grads = []
    for loss in (ppo_clip, gspo, cispo):
        logp = OLD.clone().requires_grad_()
        aggregate(loss(logp, OLD, ADVANTAGE, MASK), MASK).backward()
        grads.append(logp.grad)
    assert all(torch.allclose(grad, -ADVANTAGE * MASK / MASK.sum()) for grad in grads)


def test_weights_cut_or_drop_what_the_sampler_would_not_have_said() -> None:
    sampler = OLD - torch.tensor([[2.0, 0.0, 9.0], [-2.0, 0.0, 0.0]])
    assert truncated_weights(OLD, sampler, MASK, cap=2.0).tolist()[0] == [2.0, 1.0, 1.0]
    dropped = masked_weights(OLD, sampler, MASK, low=0.5, high=2.0, level="token")
    assert dropped.tolist() == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    rows = masked_weights(OLD, sampler, MASK, high=3.0)
    assert rows.tolist() == [[0.0], [pytest.approx(math.exp(-2.0))]]


def test_a_row_that_is_too_old_counts_nowhere() -> None:
    ages = torch.tensor([5, 2])
    for weights in (truncated_weights, masked_weights):
        found = weights(OLD, OLD, MASK, level="sequence", ages_B=ages, oldest=4)
        assert found.tolist() == [[0.0], [1.0]]
    logp = OLD.clone().requires_grad_()
    weight = truncated_weights(OLD, OLD, MASK, ages_B=ages, oldest=4)
    aggregate(ppo_clip(logp, OLD, ADVANTAGE, MASK), MASK, weight=weight).backward()
    assert logp.grad[0].abs().sum() == 0 and logp.grad[1].abs().sum() > 0
