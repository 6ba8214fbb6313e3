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
from quintain.guard.reserve import Audit, Gap, GapAlarm, Response, audit_reserve, gap_alarms, gap_between
from quintain.guard.suites import TestCase, cases_of, subset, with_tiers
from quintain.guard.tiers import Deal, Reason, Tier, deal, rotate, rotation_due

__all__ = [
    "Audit", "Candidate", "Deal", "Detector", "Drawn", "Estimate", "Gap", "GapAlarm", "Reason", "Response", "Reviewer",
    "Sequential", "Sprt", "Stratum", "TestCase", "Tier", "audit_reserve", "cases_of", "deal", "draw", "gap_alarms",
    "gap_between", "lower_bound", "reviews_needed", "rotate", "rotation_due", "subset", "uniform_estimate",
    "upper_bound", "weighted_estimate", "with_tiers",
]
