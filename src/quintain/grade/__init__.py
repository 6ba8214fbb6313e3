"""How good an answer was: suites run outside the answer's process, programs checked by what they print, and rewards."""

from quintain.grade.base import Grader
from quintain.grade.combine import cost_of, reward_of, reward_of_fault
from quintain.grade.judge import headline
from quintain.grade.oracle import LEVEL, Oracle, warm_oracle
from quintain.grade.stdio import same_output

__all__ = [
    "Grader", "LEVEL", "Oracle", "cost_of", "headline", "reward_of", "reward_of_fault", "same_output", "warm_oracle",
]
