"""Whether an answer was honest: detectors of hacks, and the evidence that they rest on."""

from quintain.guard.audit import (
    Candidate,
    Drawn,
    Estimate,
    Reviewer,
    Sequential,
    Sprt,
    Stratum,
    draw,
    lower_bound,
    reviews_needed,
    uniform_estimate,
    upper_bound,
    weighted_estimate,
)
from quintain.guard.base import Detector
from quintain.guard.behaviour import BehaviourDetector
from quintain.guard.calls import Call, calls_of
from quintain.guard.cases import Case, Tried, behaviour_of, case_of, tried_of
from quintain.guard.contrast import contrast
from quintain.guard.desk import Desk, Entry
from quintain.guard.feed import feed
from quintain.guard.grow import Grown, Growth, Origin, grow, grown_suite
from quintain.guard.hardcoded import HardCodedDetector
from quintain.guard.hollow import HollowDetector
from quintain.guard.inspection import (
    flags_to_pay_by,
    inspect_all,
    merged,
    open_detectors,
    standard_detectors,
    wants_review,
)
from quintain.guard.planted import TestsDetector
from quintain.guard.probe import HONEYPOT_PATH, Question, canaries, gather, honeypot, perturbed
from quintain.guard.rescore import Rescore, Solved, rescore
from quintain.guard.reserve import Audit, Gap, GapAlarm, Response, audit_reserve, gap_alarms, gap_between
from quintain.guard.review import Decided, Decision, Leased, Refused, Stats
from quintain.guard.seeds import seeded_hack, seeded_honest
from quintain.guard.stall import StallDetector
from quintain.guard.suites import TestCase, cases_of, subset, with_tiers
from quintain.guard.tables import RuleDetector, kinds_of_rules
from quintain.guard.tiers import Deal, Reason, Tier, deal, rotate, rotation_due

__all__ = [
    "Audit", "BehaviourDetector", "Call", "Candidate", "Case", "Deal", "Decided", "Decision", "Desk", "Detector",
    "Drawn", "Entry", "Estimate", "Gap", "GapAlarm", "Grown", "Growth", "HONEYPOT_PATH", "HardCodedDetector",
    "HollowDetector", "Leased", "Origin", "Question", "Reason", "Refused", "Rescore", "Response", "Reviewer",
    "RuleDetector", "Sequential", "Solved", "Sprt", "StallDetector", "Stats", "Stratum", "TestCase", "TestsDetector",
    "Tier", "Tried", "audit_reserve", "behaviour_of", "calls_of", "canaries", "case_of", "cases_of", "contrast", "deal",
    "draw", "feed", "flags_to_pay_by", "gap_alarms", "gap_between", "gather", "grow", "grown_suite", "honeypot",
    "inspect_all", "kinds_of_rules", "lower_bound", "merged", "open_detectors", "perturbed", "rescore",
    "reviews_needed", "rotate", "rotation_due", "seeded_hack", "seeded_honest", "standard_detectors", "subset",
    "tried_of", "uniform_estimate", "upper_bound", "wants_review", "weighted_estimate", "with_tiers",
]
