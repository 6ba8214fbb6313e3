"""What verl and TRL were asked: a batch of two groups of three, and the steps of three siblings."""

from __future__ import annotations

GROUPS = ["a", "a", "a", "b", "b", "b"]
REWARDS = [1.0, 0.0, 0.25, -0.5, 0.45, 0.45]
NAMED = {"solved": [1.0, 0.0, 0.0, 0.0, 1.0, 1.0], "style": [0.2, 0.9, 0.4, 0.1, 0.3, 0.8]}
WEIGHTS = {"solved": 1.0, "style": 0.5}
STATES = ["s", "t", "s", "s", "t", "s", "t", "s"]  # of the steps of three siblings of one group
STEP_REWARDS = [0.0, 0.1, 1.0, 0.0, 0.0, 0.2, 0.0, 0.5]
STEPS = [3, 2, 3]
