"""Ask verl and TRL what their code makes of a few batches, and store only the numbers: `python make.py verl trl`.

Needs verl 0.9.1 (with numpy, ray, tensordict, omegaconf, orjson …) or trl 1.16.0 beside torch; each name given writes
NAME.json next to this file. The project's tests read the numbers and need neither.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from make_inputs import GROUPS, NAMED, REWARDS, STATES, STEP_REWARDS, STEPS, WEIGHTS

HERE = Path(__file__).parent
ROWS, LENGTH = 6, 7



def batch() -> dict[str, torch.Tensor]:
    """Log-probabilities with ratios on both sides of every clip; a mask with holes, and one row that is all masked."""
    torch.manual_seed(7)
    old = -3.0 * torch.rand(ROWS, LENGTH)
    logp = (old + 0.6 * torch.randn(ROWS, LENGTH)).clamp(max=-1e-3)
    sampler = old + 0.4 * torch.randn(ROWS, LENGTH)
    reference = old + 0.5 * torch.randn(ROWS, LENGTH)
    mask = (torch.rand(ROWS, LENGTH) < 0.7).float()
    mask[:, 0] = 1.0
    mask[4] = 0.0
    return {
        "logp": logp, "old": old, "sampler": sampler, "reference": reference, "mask": mask,
        "advantage": torch.tensor(REWARDS).sub(0.2).unsqueeze(1).expand(ROWS, LENGTH).contiguous(),
    }


def plain(value: torch.Tensor | float) -> Any:
    return value.detach().double().tolist() if isinstance(value, torch.Tensor) else float(value)


def of_verl() -> dict[str, Any]:
    import numpy as np
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo import core_algos as core
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
    from verl.workers.config import ActorConfig

    given = batch()
    index = np.array(GROUPS, dtype=object)
    tokens = (torch.arange(LENGTH) < torch.tensor([3, 7, 5, 2, 4, 6]).unsqueeze(1)).float()  # trained tokens of each

    def at_end(rewards: list[float]) -> torch.Tensor:
        scores = torch.zeros(len(rewards), LENGTH)
        scores[torch.arange(len(rewards)), tokens[:len(rewards)].sum(1).long() - 1] = torch.tensor(rewards)
        return scores

    def first(result: Any) -> Any:
        return plain(result[0][:, 0])

    scores = at_end(REWARDS)
    algo = AlgoConfig(gamma=1.0)
    gdpo_config = {"gdpo_reward_keys": list(WEIGHTS), "gdpo_reward_weights": list(WEIGHTS.values())}
    prompt = torch.zeros(ROWS, 1)
    gdpo = core.compute_gdpo_outcome_advantage(
        scores.clone(), tokens, index, config=gdpo_config, non_tensor_batch={k: np.array(v) for k, v in NAMED.items()},
        batch={"prompts": prompt, "attention_mask": torch.cat([torch.ones(ROWS, 1), tokens], 1).long()},
    )
    holes = given["mask"][:4]
    discounted = core.compute_reinforce_plus_plus_outcome_advantage(
        torch.ones(4, LENGTH) * holes, holes, config=AlgoConfig(gamma=0.5))[1]
    returns, at = [], 0
    for count in STEPS:
        ahead = 0.0
        for reward in reversed(STEP_REWARDS[at:at + count]):
            ahead = reward + 0.9 * ahead
            returns.insert(at, ahead)
        at += count
    one = torch.ones(len(STATES), 1)
    episode = core.compute_grpo_outcome_advantage(
        torch.tensor([[1.0], [0.0], [0.25]]), torch.ones(3, 1), np.array(["g"] * 3, dtype=object))
    step = core.compute_grpo_outcome_advantage(torch.tensor(returns).unsqueeze(1), one, np.array(STATES, dtype=object))
    found: dict[str, Any] = {
        "grpo": first(core.compute_grpo_outcome_advantage(scores.clone(), tokens, index)),
        "dr_grpo": first(core.compute_grpo_outcome_advantage(
            scores.clone(), tokens, index, norm_adv_by_std_in_grpo=False)),
        "rloo": first(core.compute_rloo_outcome_advantage(scores.clone(), tokens, index)),
        "reinforce_plus_plus": first(core.compute_reinforce_plus_plus_outcome_advantage(scores, tokens, config=algo)),
        "reinforce_plus_plus_baseline": first(core.compute_reinforce_plus_plus_baseline_outcome_advantage(
            scores.clone(), tokens, index)),
        "gdpo": first(gdpo), "tokens": plain(tokens.sum(1)), "discounted": plain(discounted),
        # verl has no GiGPO: its two parts, each by verl's GRPO, over episodes and over the steps of one state
        "gigpo_episode": first(episode), "gigpo_step": first(step),
    }
    for how in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"):
        found[f"aggregate/{how}"] = plain(core.agg_loss(given["logp"], given["mask"], how))
    for name, low, high, dual in (("vanilla", 0.2, 0.28, 3.0), ("gspo", 0.02, 0.04, 3.0), ("cispo", 0.9, 1.0, 3.0)):
        logp = given["logp"].clone().requires_grad_()
        config = ActorConfig(
            strategy="fsdp", clip_ratio=low, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=dual,
            rollout_n=1, use_dynamic_bsz=True)
        loss, _ = core.get_policy_loss_fn(name)(
            given["old"], logp, given["advantage"], given["mask"], "token-mean", config)
        loss.backward()
        assert logp.grad is not None
        found[f"loss/{name}"] = {"low": low, "high": high, "dual": dual, "loss": plain(loss), "grad": plain(logp.grad)}
    for name in ("k1", "k2", "k3"):
        found[f"kl/{name}"] = plain(core.kl_penalty_forward(given["logp"], given["reference"], name) * given["mask"])
    gap = given["old"] - given["sampler"]
    for level in ("token", "sequence"):
        weights, _ = compute_rollout_correction_weights(gap, given["mask"], level, rollout_is_threshold=1.3)
        found[f"truncated/{level}"] = plain(weights * given["mask"])
    return found


def of_trl() -> dict[str, Any]:
    from trl.trainer.grpo_trainer import GRPOTrainer

    given = batch()
    found: dict[str, Any] = {}
    settings = (
        ("dapo", "token", 0.2, 0.28, 3.0), ("grpo", "token", 0.2, 0.28, None), ("dr_grpo", "token", 0.2, 0.2, None),
        ("cispo", "token", 0.2, 1.5, None), ("grpo", "sequence", 0.02, 0.04, None),
    )
    for loss_type, level, low, high, delta in settings:
        logp = given["logp"].clone().requires_grad_()
        trainer = SimpleNamespace(
            _get_per_token_logps_and_entropies=lambda *args, logp=logp, **kwargs: (logp, torch.zeros_like(logp), None),
            loss_type=loss_type, importance_sampling_level=level, epsilon_low=low, epsilon_high=high, beta=0.0,
            top_entropy_quantile=1.0, off_policy_mask_threshold=None, aux_loss_enabled=False, use_vllm=False,
            vllm_importance_sampling_correction=False, _entropy_bonus_enabled=False, max_completion_length=LENGTH,
            current_gradient_accumulation_steps=1, accelerator=Alone(), model=SimpleNamespace(training=True),
            args=SimpleNamespace(delta=delta, use_bias_correction_kl=False, steps_per_generation=1),
            _metrics={"train": Metrics()},
        )
        loss = GRPOTrainer._compute_loss(trainer, None, {
            "prompt_ids": torch.zeros(ROWS, 1, dtype=torch.long), "prompt_mask": torch.ones(ROWS, 1),
            "completion_ids": torch.zeros(ROWS, LENGTH, dtype=torch.long), "completion_mask": given["mask"],
            "advantages": given["advantage"][:, 0], "old_per_token_logps": given["old"],
            "num_items_in_batch": given["mask"].sum(),
        })
        loss.backward()
        assert logp.grad is not None
        found[f"loss/{loss_type}/{level}"] = {
            "low": low, "high": high, "delta": delta, "loss": plain(loss), "grad": plain(logp.grad)}
    return found


class Metrics(dict[str, list[float]]):
    def __missing__(self, key: str) -> list[float]:
        return self.setdefault(key, [])


class Alone:
    """An accelerator of one process."""

    num_processes = 1

    def gather(self, value: torch.Tensor) -> torch.Tensor:
        return value

    def reduce(self, value: torch.Tensor, reduction: str = "sum") -> torch.Tensor:
        return value


if __name__ == "__main__":
    for name in sys.argv[1:]:
        numbers = {"made_by": f"{name} {version(name)}, torch {version('torch')}"}
        numbers |= {"verl": of_verl, "trl": of_trl}[name]()
        if name == "verl":
            numbers["batch"] = {key: plain(value) for key, value in batch().items()}
        (HERE / f"{name}.json").write_text(json.dumps(numbers, indent=1) + "\n")
        print(f"{name}.json: {len(numbers)} entries by {numbers['made_by']}")
