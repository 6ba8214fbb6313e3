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
from quintain.train.control import Control, controlled, with_control
from quintain.train.credit import by_batch, by_episode, by_state, by_turn, with_rewards
from quintain.train.drift import Drift, DriftBounds, DriftMonitor, drift_of, drift_of_rows
from quintain.train.driven import Driven, Talk, paid, worth
from quintain.train.filter import Filter, Sifted, Why, age_of, sift, useful
from quintain.train.health import Alarm, Bounds, Illness, Reading, Share, alarms, contributions
from quintain.train.importance import Level, masked_weights, truncated_weights
from quintain.train.loss import Aggregation, aggregate, cispo, clip_fraction, gspo, kl_k1, kl_k2, kl_k3, ppo_clip
from quintain.train.openrlhf import openrlhf_agent
from quintain.train.skyrl import skyrl_environment
from quintain.train.stage import Player, Stage
from quintain.train.tinker import tinker_group
from quintain.train.trajectory import Span, Trajectory, rows_of, states_of, trajectory_of
from quintain.train.trl import Asked, TrlRewards, TrlRollouts, episode_reward, named_reward
from quintain.train.trl_async import LocalWeights, TrlWorker
from quintain.train.trl_tools import TaskEnvironment, trl_environments
from quintain.train.verifiers import verifiers_taskset
from quintain.train.verl import verl_agent_loop

__all__ = [
    "Aggregation", "Alarm", "Asked", "Bounds", "Control", "Drift", "DriftBounds", "DriftMonitor", "Driven",
    "Filter", "Illness", "Level", "LocalWeights", "Player", "Reading", "Share", "Sifted", "Span", "Stage", "Step",
    "Talk", "TaskEnvironment", "Trajectory", "TrlRewards", "TrlRollouts", "TrlWorker", "Why", "age_of", "aggregate",
    "alarms", "by_batch", "by_episode", "by_state", "by_turn", "cispo", "clip_fraction", "contributions",
    "controlled", "discounted", "dr_grpo", "drift_of", "drift_of_rows", "episode_reward", "gdpo", "gigpo", "grpo",
    "gspo", "kl_k1", "kl_k2", "kl_k3", "masked_weights", "named_reward", "openrlhf_agent", "paid", "ppo_clip",
    "reinforce_plus_plus", "rloo", "rows_of", "sift", "skyrl_environment", "spread", "states_of", "tinker_group",
    "trajectory_of", "trl_environments", "truncated_weights", "useful", "verifiers_taskset", "verl_agent_loop",
    "whiten", "with_control", "with_rewards", "worth",
]
