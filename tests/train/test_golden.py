"""The numbers are those of verl's and TRL's own code, which `golden/make.py` asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quintain.train import (
    Step,
    aggregate,
    cispo,
    discounted,
    dr_grpo,
    gdpo,
    gigpo,
    grpo,
    gspo,
    kl_k1,
    kl_k2,
    kl_k3,
    ppo_clip,
    reinforce_plus_plus,
    rloo,
    truncated_weights,
)

from .golden import make_inputs as given

GOLDEN = Path(__file__).parent / "golden"
VERL: dict[str, Any] = json.loads((GOLDEN / "verl.json").read_text())
TRL: dict[str, Any] = json.loads((GOLDEN / "trl.json").read_text())
AGGREGATIONS = {"token-mean": "token_mean", "seq-mean-token-mean": "seq_mean", "seq-mean-token-sum-norm": "dr_grpo"}
KL = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=2e-5, abs=2e-6)


@pytest.fixture
def batch() -> dict[str, Any]:
    torch = pytest.importorskip("torch", reason="losses need torch: pip install quintain[train]")
    return {name: torch.tensor(value) for name, value in VERL["batch"].items()}


@pytest.mark.parametrize("advantage", [grpo, dr_grpo, rloo])
def test_group_advantages_are_verls(advantage) -> None:
    found = [*advantage(given.REWARDS[:3]), *advantage(given.REWARDS[3:])]
    assert found == close(VERL[advantage.__name__])


def test_batch_advantages_are_verls() -> None:
    tokens = [int(count) for count in VERL["tokens"]]
    assert reinforce_plus_plus(given.REWARDS, tokens_B=tokens) == close(VERL["reinforce_plus_plus"])
    found = reinforce_plus_plus(given.REWARDS, tokens_B=tokens, groups_B=given.GROUPS)
    assert found == close(VERL["reinforce_plus_plus_baseline"])


def test_advantages_of_named_rewards_are_verls() -> None:
    rows = [dict(zip(given.NAMED, values, strict=True)) for values in zip(*given.NAMED.values(), strict=True)]
    tokens = [int(count) for count in VERL["tokens"]]
    assert gdpo(rows, given.GROUPS, weights=given.WEIGHTS, tokens_B=tokens) == close(VERL["gdpo"])


def test_returns_skip_environment_tokens_as_verls_do() -> None:
    mask = [[bool(m) for m in row] for row in VERL["batch"]["mask"][:4]]
    found = [discounted([float(m) for m in row], gamma=0.5, mask_T=row) for row in mask]
    assert found == [close(row) for row in VERL["discounted"]]


def test_step_advantages_are_the_sum_of_both_levels() -> None:
    steps, at = [], 0
    for count in given.STEPS:
        places = range(at, at + count)
        steps.append([Step(state=given.STATES[nth], reward=given.STEP_REWARDS[nth]) for nth in places])
        at += count
    found = gigpo([1.0, 0.0, 0.25], steps, gamma=0.9, step_weight=0.5)
    whole = [a for a, count in zip(VERL["gigpo_episode"], given.STEPS, strict=True) for _ in range(count)]
    expected = [a + 0.5 * b for a, b in zip(whole, VERL["gigpo_step"], strict=True)]
    assert [a for row in found if row is not None for a in row] == close(expected)


@pytest.mark.parametrize(("theirs", "ours"), AGGREGATIONS.items())
def test_aggregations_are_verls(batch, theirs, ours) -> None:
    assert float(aggregate(batch["logp"], batch["mask"], ours)) == close(VERL[f"aggregate/{theirs}"])


def of(batch, name: str, low: float, high: float, dual: float | None):
    logp = batch["logp"].clone().requires_grad_()
    rest = (batch["old"], batch["advantage"], batch["mask"])
    if name == "cispo":
        return logp, cispo(logp, *rest, low=1 - low if low < 1 else None, high=1 + high)
    if name == "gspo":
        return logp, gspo(logp, *rest, low=low, high=high)
    return logp, ppo_clip(logp, *rest, low=low, high=high, dual=dual)


@pytest.mark.parametrize("name", ["vanilla", "gspo", "cispo"])
def test_losses_and_their_gradients_are_verls(batch, name) -> None:
    expected = VERL[f"loss/{name}"]
    logp, losses = of(batch, name, expected["low"], expected["high"], expected["dual"])
    loss = aggregate(losses, batch["mask"])
    loss.backward()
    assert loss.item() == close(expected["loss"])
    assert logp.grad.tolist() == [close(row) for row in expected["grad"]]


@pytest.mark.parametrize(
    ("loss_type", "level", "ours", "how"),
    [
        ("dapo", "token", "ppo", "token_mean"), ("grpo", "token", "ppo", "seq_mean"),
        ("dr_grpo", "token", "ppo", "dr_grpo"), ("cispo", "token", "cispo", "token_mean"),
        ("grpo", "sequence", "gspo", "seq_mean"),
    ],
)
def test_losses_and_their_gradients_are_trls(batch, loss_type, level, ours, how) -> None:
    expected = TRL[f"loss/{loss_type}/{level}"]
    # CISPO: TRL's epsilon_high bounds the ratio itself, and nothing bounds it below
    low, high = (1.0, expected["high"] - 1) if ours == "cispo" else (expected["low"], expected["high"])
    logp, losses = of(batch, ours, low, high, expected["delta"])
    # TRL's means over rows count a row that is masked whole; ours, as verl's, do not
    trained = (batch["mask"].sum(-1) > 0).float().mean() if how != "token_mean" else 1.0
    loss = aggregate(losses, batch["mask"], how) * trained
    loss.backward()
    assert loss.item() == close(expected["loss"])
    assert logp.grad.tolist() == [close(row) for row in expected["grad"]]


@pytest.mark.parametrize("name", sorted(KL))
def test_kl_estimates_are_verls(batch, name) -> None:
    found = KL[name](batch["logp"], batch["reference"], batch["mask"])
    assert found.tolist() == [close(row) for row in VERL[f"kl/{name}"]]


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_truncated_weights_are_verls(batch, level) -> None:
    weights = truncated_weights(batch["old"], batch["sampler"], batch["mask"], cap=1.3, level=level)
    assert (weights * batch["mask"]).tolist() == [close(row) for row in VERL[f"truncated/{level}"]]
