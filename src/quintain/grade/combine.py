"""From a verdict to a reward: one number whose order can be trusted, with the vector that it was made of.

The order, whatever the weights: reaching for the judge is worst; no answer, then one that does not build, then one that
breaks, then one that is wrong; any solved attempt is above any unsolved one, so quality never buys correctness; and a
time-out is never better than failing the same tests. What was not the policy's doing has no reward at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from quintain.types import (
    CLASS_OF,
    Fault,
    FaultKind,
    Flag,
    Owner,
    Passed,
    Reward,
    Score,
    Severity,
    Trainable,
    Verdict,
)

SOLVED = 0.80
PARTIAL = 0.35
TAMPER = -1.0
#: How far quality may move a solved attempt, down and up.
QUALITY = (-0.22, 0.09)
#: What each class of fault costs. Class F (there is no result) also forfeits the partial credit.
COST = {"A": -0.50, "B": -0.40, "C": -0.20, "D": 0.0, "E": -0.30, "F": -0.20}
_COST_OF_KIND = {
    FaultKind.TRUNCATED: -0.45, FaultKind.MISSING_ENTRY_POINT: -0.35, FaultKind.MISSING_DEPENDENCY: -0.35,
    FaultKind.BUILD_ERROR: -0.35,
}


def cost_of(fault: Fault) -> float:
    """What a fault of the policy adds to the reward, in [-1, 0]."""
    letter = CLASS_OF[fault.kind]
    return TAMPER if letter == "G" else _COST_OF_KIND.get(fault.kind, COST.get(letter, 0.0))


def reward_of_fault(fault: Fault) -> Reward | None:
    """The reward of an attempt that came to no verdict; None when the fault was not the policy's."""
    if fault.owner is not Owner.POLICY:
        return None
    cost = cost_of(fault)
    return Reward(total=cost, solved=False, scores=(
        Score(name="integrity", value=0.0 if cost == TAMPER else 1.0, evidence=str(fault)),
        Score(name="solved", value=0.0, weight=SOLVED, evidence="there was nothing to test"),
        _cost_score(cost, fault),
    ))


def reward_of(verdict: Verdict, *, scores: Sequence[Score] = (), flags: Sequence[Flag] = ()) -> Reward | None:
    """The reward of a verdict, or None when the task or the house was at fault.

    `scores` of other graders (style, speed ...) count for solved attempts only, each moving the total by at most its
    weight, all together by at most QUALITY; 0.5 is neutral, None is not measured. A HARD flag is tampering; a SOFT one
    leaves the total alone and masks the attempt.
    """
    faults = [f for f in (verdict.fault, *(t.fault for t in verdict.tests)) if f is not None]
    if any(f.owner is not Owner.POLICY for f in faults):
        return None
    hard = [f for f in flags if f.severity is Severity.HARD]
    tampered = bool(hard) or any(f.kind is FaultKind.TAMPER for f in faults)
    solved = verdict.solved and not tampered
    worst = min(faults, key=cost_of, default=None)
    cost = cost_of(worst) if worst is not None else 0.0
    forfeited = any(CLASS_OF[f.kind] == "F" for f in faults)
    partial = 0.0 if forfeited else verdict.share
    if tampered:
        total = TAMPER
    elif solved:
        total = SOLVED + min(max(sum(_moves(s) for s in scores), QUALITY[0]), QUALITY[1])
    else:
        total = PARTIAL * partial + cost
    passed = sum(t.passed is Passed.PASSED for t in verdict.tests)
    count = f"{passed}/{len(verdict.tests)} tests"
    vector = [
        Score(name="integrity", value=0.0 if tampered else 1.0, evidence=_integrity(hard, faults)),
        Score(name="solved", value=1.0 if solved else 0.0, weight=SOLVED, evidence=count),
        Score(name="partial", value=partial, weight=PARTIAL, evidence="no result, no credit" if forfeited else ""),
    ]
    if worst is not None:
        vector.append(_cost_score(cost, worst))
    return Reward(
        total=min(max(total, -1.0), 1.0), solved=solved, scores=(*vector, *scores), flags=tuple(flags),
        trainable=Trainable.MASK if flags and not hard else Trainable.YES, suite=verdict.suite, level=verdict.level,
    )


def _moves(score: Score) -> float:
    return 0.0 if score.value is None else score.weight * (2.0 * score.value - 1.0)


def _cost_score(cost: float, fault: Fault) -> Score:
    return Score(name="error_class", value=1.0 + cost, weight=1.0, evidence=f"{cost:+.2f} {fault}")


def _integrity(hard: Sequence[Flag], faults: Sequence[Fault]) -> str:
    return "; ".join([f"{f.detector}: {f.evidence}" for f in hard] + [
        str(f) for f in faults if f.kind is FaultKind.TAMPER])
