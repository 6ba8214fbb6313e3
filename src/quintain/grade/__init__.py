"""How good an answer was: suites run outside the answer's process, programs checked by what they print, and rewards."""

from quintain.grade.algebra import Algebra
from quintain.grade.answers import AnswerGrader, check_answer
from quintain.grade.base import Grader
from quintain.grade.combine import cost_of, reward_of, reward_of_fault
from quintain.grade.coverage import Coverage, Covered, cover
from quintain.grade.credit import Baseline, Credit, credit_of, requirement_of
from quintain.grade.export import Artefacts, export
from quintain.grade.frozen import Frozen, as_frozen, freeze
from quintain.grade.judge import headline
from quintain.grade.math import Equivalence, Same, same_answer
from quintain.grade.mathclean import extract_answer
from quintain.grade.oracle import LEVEL, Oracle, warm_oracle
from quintain.grade.sanitise import Sanitised, infrastructure, sanitise
from quintain.grade.scalar import Scalar, Vector, Weights, lexicographic, measured, partial_credit, solved_only
from quintain.grade.script import check_script, read_rewards
from quintain.grade.stdio import same_output
from quintain.grade.world import Made, World

__all__ = [
    "Algebra", "AnswerGrader", "Artefacts", "Baseline", "Coverage", "Covered", "Credit", "Equivalence", "Frozen",
    "Grader", "LEVEL", "Made", "Oracle", "Same", "Sanitised", "Scalar", "Vector", "Weights", "World", "as_frozen",
    "check_answer", "check_script", "cost_of", "cover", "credit_of", "export", "extract_answer", "freeze", "headline",
    "infrastructure", "lexicographic", "measured", "partial_credit", "read_rewards", "requirement_of", "reward_of",
    "reward_of_fault", "same_answer", "same_output", "sanitise", "solved_only", "warm_oracle",
]
