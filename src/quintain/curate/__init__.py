"""Which tasks deserve a place: who is admitted, how each fares while trainings run, its next version, what is next."""

from quintain.curate.admit import admit, admit_one, counted, neighbours_of, standard_checks
from quintain.curate.base import Check
from quintain.curate.battery import Mechanism, mechanisms
from quintain.curate.chart import Chart, Ending, Run, Sighting, added, cleared, with_run
from quintain.curate.checks.duplicates import Neighbours
from quintain.curate.clean import Repair, RepairKind, propose
from quintain.curate.course import Drawn, Fairness, Place, Rate, chances, draw, is_flat, taught
from quintain.curate.diagnose import Diagnosing, diagnosed
from quintain.curate.finding import Admission, Finding, Problem, Result, Ruling
from quintain.curate.flaky import cluster, is_flaky, log_evidence, promise, suspicion
from quintain.curate.kept import Kept
from quintain.curate.ledger import HEALTH_FILE, HealthLedger
from quintain.curate.page import lines_of_admission, page_of, summary_of
from quintain.curate.readings import TWO_READINGS
from quintain.curate.recheck import Looked, attend, control, recheck, review
from quintain.curate.refresh import Refreshed, adopt, lighten, refresh, solved_attempts, with_hidden
from quintain.curate.rewrites import rewrites
from quintain.curate.rules import Bounds, House, Trouble, acquitted, is_proven, questioned, recheck_due, trouble
from quintain.curate.shares import divide, systematic
from quintain.curate.sighting import Watched, control_run, runs_of, sightings
from quintain.curate.site import Site, Solver
from quintain.curate.standing import Checked, Moved, Named, Record, Standing, State, Tallied, Why, advance, drawn, fold
from quintain.curate.templates import Words, check_template, fill_template, test_ids
from quintain.curate.watch import HealthWatch, weight_of

__all__ = [
    "Admission", "Bounds", "Chart", "Check", "Checked", "Diagnosing", "Drawn", "Ending", "Fairness", "Finding",
    "HEALTH_FILE", "HealthLedger", "HealthWatch", "House", "Kept", "Looked", "Mechanism", "Moved", "Named",
    "Neighbours", "Place", "Problem", "Rate", "Record", "Refreshed", "Repair", "RepairKind", "Result", "Ruling", "Run",
    "Sighting", "Site", "Solver", "Standing", "State", "TWO_READINGS", "Tallied", "Trouble", "Watched", "Why", "Words",
    "acquitted", "added", "admit", "admit_one", "adopt", "advance", "attend", "chances", "check_template", "cleared",
    "cluster", "control", "control_run", "counted", "diagnosed", "divide", "draw", "drawn", "fill_template", "fold",
    "is_flaky", "is_flat", "is_proven", "lighten", "lines_of_admission", "log_evidence", "mechanisms", "neighbours_of",
    "page_of", "promise", "propose", "questioned", "recheck", "recheck_due", "refresh", "review", "rewrites",
    "runs_of", "sightings", "solved_attempts", "standard_checks", "summary_of", "suspicion", "systematic", "taught",
    "test_ids", "trouble", "weight_of", "with_hidden", "with_run",
]
