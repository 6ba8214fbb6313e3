"""A better policy: trajectories, advantages, losses and what watches over them. Needs no torch to be imported."""

from quintain.train.advantage import (
    Step,
    discounted,
    dr_grpo,
    gdpo,
    gigpo,
    grpo,
    reinforce_plus_plus,
    rloo,
    spread,
    whiten,
)
from quintain.train.filter import Filter, Sifted, Why, age_of, sift, useful
from quintain.train.importance import Level, masked_weights, truncated_weights
from quintain.train.loss import Aggregation, aggregate, cispo, clip_fraction, gspo, kl_k1, kl_k2, kl_k3, ppo_clip
from quintain.train.trajectory import Span, Trajectory, rows_of, states_of, trajectory_of

__all__ = [
    "Aggregation", "Filter", "Level", "Sifted", "Span", "Step", "Trajectory", "Why", "age_of", "aggregate", "cispo",
    "clip_fraction", "discounted", "dr_grpo", "gdpo", "gigpo", "grpo", "gspo", "kl_k1", "kl_k2", "kl_k3",
    "masked_weights", "ppo_clip", "reinforce_plus_plus", "rloo", "rows_of", "sift", "spread", "states_of",
    "trajectory_of", "truncated_weights", "useful", "whiten",
]
