"""Go back to any step: rebuild it, run it again, say what differs and whose doing it is."""

from quintain.replay.again import REPEATS, Replayer, Steps, steps_of
from quintain.replay.base import (
    BLAME_OF,
    Blame,
    Cause,
    Difference,
    EpisodeReplay,
    Measure,
    Named,
    Rebuilt,
    Seen,
    StepReplay,
)
from quintain.replay.diagnose import Known
from quintain.replay.observed import snapshots_of
from quintain.replay.surroundings import Noting, Surroundings, environment_changes, noted, survey
from quintain.replay.tree import Leaf, compared, digest_of, tree_of

__all__ = [
    "BLAME_OF", "Blame", "Cause", "Difference", "EpisodeReplay", "Known", "Leaf", "Measure", "Named", "Noting",
    "REPEATS", "Rebuilt", "Replayer", "Seen", "StepReplay", "Steps", "Surroundings", "compared", "digest_of",
    "environment_changes", "noted", "snapshots_of", "steps_of", "survey", "tree_of",
]
