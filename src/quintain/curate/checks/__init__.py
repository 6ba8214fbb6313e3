"""The steps of an admission, from cheap to dear: one file each, in the order of this table."""

from quintain.curate.base import Check
from quintain.curate.checks.battery import Battery
from quintain.curate.checks.cost import Cost
from quintain.curate.checks.difficulty import Difficulty
from quintain.curate.checks.duplicates import Duplicates
from quintain.curate.checks.leaks import Leaks
from quintain.curate.checks.null import NullAnswers
from quintain.curate.checks.oracle import OracleRuns
from quintain.curate.checks.schema import Schema
from quintain.curate.checks.spec import Spec
from quintain.curate.checks.static import Static
from quintain.curate.checks.strength import Strength
from quintain.curate.checks.tolerance import Tolerance

CHECKS: tuple[type[Check], ...] = (
    Schema, Static, Spec, Leaks, Duplicates, OracleRuns, NullAnswers, Cost, Tolerance, Strength, Battery, Difficulty,
)

__all__ = [
    "Battery", "CHECKS", "Cost", "Difficulty", "Duplicates", "Leaks", "NullAnswers", "OracleRuns", "Schema", "Spec",
    "Static", "Strength", "Tolerance",
]
