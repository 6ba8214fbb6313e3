"""How good an answer was: suites run outside the answer's process, programs checked by what they print, and rewards."""

from quintain.grade.base import Grader
from quintain.grade.combine import cost_of, reward_of, reward_of_fault
from quintain.grade.coverage import Coverage, Covered, cover
from quintain.grade.credit import Baseline, Credit, credit_of, requirement_of
from quintain.grade.judge import headline
from quintain.grade.oracle import LEVEL, Oracle, warm_oracle
from quintain.grade.scalar import Scalar, Vector, Weights, lexicographic, measured, partial_credit, solved_only
from quintain.grade.stdio import same_output

__all__ = [
    "Baseline", "Coverage", "Covered", "Credit", "Grader", "LEVEL", "Oracle", "Scalar", "Vector", "Weights",
    "cost_of", "cover", "credit_of", "headline", "lexicographic", "measured", "partial_credit", "requirement_of",
    "reward_of", "reward_of_fault", "same_output", "solved_only", "warm_oracle",
]
