"""How good an answer was: suites run outside the answer's process, programs checked by what they print, and rewards."""

from quintain.grade.algebra import Algebra
from quintain.grade.answers import AnswerGrader, check_answer
from quintain.grade.base import Grader
from quintain.grade.build import verifier_build
from quintain.grade.checker import check_output
from quintain.grade.close import close
from quintain.grade.combine import RESERVED, cost_of, reward_of, reward_of_fault
from quintain.grade.coverage import Coverage, Covered, cover
from quintain.grade.credit import Baseline, Credit, credit_of, requirement_of
from quintain.grade.crosscheck import cross_checked
from quintain.grade.export import Artefacts, export
from quintain.grade.findings import Finding
from quintain.grade.frozen import Frozen, as_frozen, freeze
from quintain.grade.health import Health, Void, struck
from quintain.grade.judge import headline, replays
from quintain.grade.judge_model import Judge, ModelJudge, speaks_to_a_judge
from quintain.grade.localise import (
    ClaimGrader,
    Span,
    claim_value,
    claims_of,
    edited_share,
    edited_spans,
    first_claims,
    gold_spans,
    ochiai,
    rank_of,
)
from quintain.grade.logs import LogGrader, Rule, signal_of
from quintain.grade.math import Equivalence, Same, same_answer
from quintain.grade.mathclean import extract_answer
from quintain.grade.memory import Memory
from quintain.grade.mutant import Mutant, Operator, mutants, mutants_of
from quintain.grade.mutation import Kills, Mutation, kill_rate
from quintain.grade.oracle import LEVEL, Oracle, warm_oracle
from quintain.grade.performance import Performance
from quintain.grade.pinned import PINNED, Pinned
from quintain.grade.procedural import answer_in, check_procedural, warm_scorer
from quintain.grade.process import Potential, StepRewards, StepState, returns_to_go, shaping, step_rewards
from quintain.grade.quality import Quality
from quintain.grade.reports import FORMATS, Report, ReportedTest, Told, normal_id, read_report, verdict_of
from quintain.grade.sanitise import Sanitised, infrastructure, sanitise
from quintain.grade.scalar import Scalar, Vector, Weights, lexicographic, measured, partial_credit, solved_only
from quintain.grade.script import check_script, read_rewards
from quintain.grade.sealed import SealedOracle, warm_sealed
from quintain.grade.security import Security
from quintain.grade.shadow import Wording, withheld
from quintain.grade.states import FrameState, describe, record_states
from quintain.grade.stdio import same_output
from quintain.grade.steady import unsteady
from quintain.grade.style import Style, Untidy, untidy
from quintain.grade.vacuous import vacuous_tests
from quintain.grade.world import Made, World

__all__ = [
    "Algebra", "AnswerGrader", "Artefacts", "Baseline", "ClaimGrader", "Coverage", "Covered", "Credit", "Equivalence",
    "FORMATS", "Finding", "FrameState", "Frozen", "Grader", "Health", "Judge", "Kills", "LEVEL", "LogGrader", "Made",
    "Memory", "ModelJudge", "Mutant", "Mutation", "Operator", "Oracle", "PINNED", "Performance", "Pinned",
    "Potential", "Quality", "RESERVED", "Report", "ReportedTest", "Rule", "Same", "Sanitised", "Scalar", "SealedOracle",
    "Security", "Span", "StepRewards", "StepState", "Style", "Told", "Untidy", "Vector", "Void", "Weights", "Wording",
    "World", "answer_in", "as_frozen", "check_answer", "check_output", "check_procedural", "check_script",
    "claim_value",
    "claims_of", "close", "cost_of", "cover", "credit_of", "cross_checked", "describe", "edited_share",
    "edited_spans", "export", "extract_answer", "first_claims", "freeze", "gold_spans", "headline", "infrastructure",
    "kill_rate", "lexicographic", "measured", "mutants", "mutants_of", "normal_id", "ochiai", "partial_credit",
    "rank_of", "read_report", "read_rewards", "record_states", "replays", "requirement_of", "returns_to_go",
    "reward_of", "reward_of_fault", "same_answer", "same_output", "sanitise", "shaping", "signal_of", "solved_only",
    "speaks_to_a_judge", "step_rewards", "struck", "unsteady", "untidy", "vacuous_tests", "verdict_of",
    "verifier_build", "warm_oracle", "warm_scorer", "warm_sealed", "withheld",
]
