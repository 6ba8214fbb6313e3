"""Go back to any step: rebuild it, run it again, say what differs and whose doing it is."""

from quintain.replay.again import REPEATS, Finder, Replayer, Steps, steps_of
from quintain.replay.anomalies import Anomaly, Kind, anomalies, replay_flip
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
from quintain.replay.diverge import Divergence, first_divergence
from quintain.replay.observed import snapshots_of
from quintain.replay.page import page
from quintain.replay.rescore import Rescored, Summary, rejudged, repaid, rescore_run, suite_of_items, summary_of
from quintain.replay.salvage import Salvaged, salvage
from quintain.replay.shell import entered, interact
from quintain.replay.surroundings import Noting, Surroundings, environment_changes, noted, survey
from quintain.replay.tree import Leaf, compared, digest_of, tree_of

__all__ = [
    "Anomaly", "BLAME_OF", "Blame", "Cause", "Difference", "Divergence", "EpisodeReplay", "Finder", "Kind", "Known",
    "Leaf", "Measure", "Named", "Noting", "REPEATS", "Rebuilt", "Replayer", "Rescored", "Salvaged", "Seen",
    "StepReplay", "Steps", "Summary", "Surroundings", "anomalies", "compared", "digest_of", "entered",
    "environment_changes", "first_divergence", "interact", "noted", "page", "rejudged", "repaid", "replay_flip",
    "rescore_run", "salvage", "snapshots_of", "steps_of", "suite_of_items", "summary_of", "survey", "tree_of",
]
