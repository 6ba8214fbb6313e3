"""A better policy: trajectories, advantages, losses and what watches over them. Needs no torch to be imported."""

from quintain.train.advantage import (
    Step,
    discounted,
    dr_grpo,
    gdpo,
    gigpo,
    grpo,
    maxrl,
    reinforce_plus_plus,
    rloo,
    spread,
    whiten,
)
from quintain.train.areal import areal_agent
from quintain.train.board import Board, write_png
from quintain.train.checkpoint import Checkpoints
from quintain.train.control import Control, controlled, with_control
from quintain.train.credit import by_batch, by_episode, by_state, by_turn, with_rewards
from quintain.train.curve import Line, lines_of, picture, spark_line, write_page
from quintain.train.drift import Drift, DriftBounds, DriftMonitor, drift_of, drift_of_rows
from quintain.train.driven import Driven, Talk, paid, worth
from quintain.train.filter import Filter, Sifted, Why, age_of, sift, useful
from quintain.train.health import Alarm, Bounds, Illness, Reading, Share, alarms, contributions
from quintain.train.importance import Level, masked_weights, truncated_weights
from quintain.train.judging import Attempted, Judge, Judged, Lost, Memory
from quintain.train.lm import LmLearning, LmSettings, Shown, lm_learner, open_model
from quintain.train.loop import Ended, Learner, Log, Plan, Row, train
from quintain.train.loss import Aggregation, aggregate, cispo, clip_fraction, gspo, kl_k1, kl_k2, kl_k3, ppo_clip
from quintain.train.openrlhf import openrlhf_agent
from quintain.train.publish import ServedWeights
from quintain.train.repair_cases import case_of
from quintain.train.repair_player import TrainedRepairer
from quintain.train.repair_problem import Demo, RepairLearning, RepairSettings, demo_of, repair_learner
from quintain.train.skyrl import skyrl_environment
from quintain.train.stage import Player, Stage
from quintain.train.tinker import tinker_group
from quintain.train.trajectory import Span, Trajectory, rows_of, states_of, trajectory_of
from quintain.train.trl import Asked, TrlRewards, TrlRollouts, episode_reward, named_reward
from quintain.train.trl_async import LocalWeights, TrlWorker
from quintain.train.trl_tools import TaskEnvironment, trl_environments
from quintain.train.trl_training import TrlPlan, TrlTrained, train_with_trl
from quintain.train.verifiers import verifiers_taskset
from quintain.train.verl import verl_agent_loop

__all__ = [
    "Aggregation", "Alarm", "Asked", "Attempted", "Board", "Bounds", "Checkpoints", "Control", "Demo", "Drift",
    "DriftBounds", "DriftMonitor", "Driven", "Ended", "Filter", "Illness", "Judge", "Judged", "Learner", "Level",
    "Line", "LmLearning", "LmSettings", "LocalWeights", "Log", "Lost", "Memory", "Plan", "Player", "Reading",
    "RepairLearning", "RepairSettings", "Row", "ServedWeights", "Share", "Shown", "Sifted", "Span", "Stage", "Step",
    "Talk", "TaskEnvironment", "TrainedRepairer", "Trajectory", "TrlPlan", "TrlRewards", "TrlRollouts", "TrlTrained",
    "TrlWorker", "Why", "age_of", "aggregate", "alarms", "areal_agent", "by_batch", "by_episode", "by_state",
    "by_turn", "case_of", "cispo", "clip_fraction", "contributions", "controlled", "demo_of", "discounted", "dr_grpo",
    "drift_of", "drift_of_rows", "episode_reward", "gdpo", "gigpo", "grpo", "gspo", "kl_k1", "kl_k2", "kl_k3",
    "lines_of", "lm_learner", "masked_weights", "maxrl", "named_reward", "open_model", "openrlhf_agent", "paid",
    "picture", "ppo_clip", "reinforce_plus_plus", "repair_learner", "rloo", "rows_of", "sift", "skyrl_environment",
    "spark_line", "spread", "states_of", "tinker_group", "train", "train_with_trl", "trajectory_of",
    "trl_environments", "truncated_weights", "useful", "verifiers_taskset", "verl_agent_loop", "whiten",
    "with_control", "with_rewards", "worth", "write_page", "write_png",
]
