"""From a verdict to a reward: one number whose order can be trusted, with the vector that it was made of.

The order, whatever the weights: reaching for the judge is worst; no answer, then one that does not build, then one that
breaks, then one that is wrong; any solved attempt is above any unsolved one, so quality never buys correctness; and a
time-out is never better than failing the same tests. What was not the policy's doing has no reward at all. A verdict
that was not reached behind a wall (below L3) pays no more than the best partial credit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import msgspec

from quintain.grade.credit import Baseline, credit_of
from quintain.grade.scalar import (
    JUDGE,
    JUDGE_WEIGHT,
    LOCALISATION,
    TAMPER,
    TEST_VALUE,
    Scalar,
    Vector,
    Weights,
    lexicographic,
    moved_by,
)
from quintain.types import (
    CLASS_OF,
    Attribution,
    Fault,
    FaultKind,
    Flag,
    Owner,
    Reward,
    Score,
    Severity,
    Trainable,
    Verdict,
)

#: What each class of fault costs. Class F (there is no result) also forfeits the partial credit.
COST = {"A": -0.50, "B": -0.40, "C": -0.20, "D": 0.0, "E": -0.30, "F": -0.20, "G": TAMPER}
_COST_OF_KIND = {
    FaultKind.TRUNCATED: -0.45, FaultKind.MISSING_ENTRY_POINT: -0.35, FaultKind.MISSING_DEPENDENCY: -0.35,
    FaultKind.BUILD_ERROR: -0.35,
}
LEVELS = ("L0", "L1", "L2", "L3", "L4")
#: The isolation from which on a solved attempt is paid as one.
TRUSTED_LEVEL = "L3"
#: The rows of a reward that are no grader's.
RESERVED = frozenset({"integrity", "solved", "partial", "error_class", "level", "scalar"})
#: What is paid at most below it.
UNTRUSTED = 0.35


def cost_of(fault: Fault) -> float:
    """What a fault of the policy adds to the reward, in [-1, 0]."""
    return _COST_OF_KIND.get(fault.kind, COST.get(CLASS_OF[fault.kind], 0.0))


def reward_of_fault(fault: Fault, *, scalar: Scalar = lexicographic) -> Reward | None:
    """The reward of an attempt that came to no verdict; None when the fault was not the policy's."""
    if fault.owner is not Owner.POLICY:
        return None
    tampered = fault.attribution is Attribution.TAMPER
    vector = Vector(solved=0.0, partial=0.0, cost=cost_of(fault))
    total, added = (TAMPER, {"integrity": TAMPER}) if tampered else _weighed(scalar, vector, TRUSTED_LEVEL)
    rows = [
        Score(name="integrity", value=0.0 if tampered else 1.0, evidence=str(fault)),
        Score(name="solved", value=0.0, weight=lexicographic.solved, evidence="there was nothing to test"),
        _cost_score(vector.cost, fault),
        *_own_rows(added),
    ]
    return Reward(total=total, solved=False, scores=tuple(_with_contributions(rows, added)))


def reward_of(
    verdict: Verdict, *, scores: Sequence[Score] = (), flags: Sequence[Flag] = (), scalar: Scalar = lexicographic,
    baseline: Baseline | None = None, required: Collection[str] = (), trusted_level: str = TRUSTED_LEVEL,
) -> Reward | None:
    """The reward of a verdict, or None when the task or the house was at fault, or a score of a `required` name is
    missing or not measured.

    `scores` of other graders (style, speed ...) count for solved attempts only, each moving the total by at most its
    weight, all together by at most what `scalar` allows; 0.5 is neutral, and so is None (not measured). Two have a
    place of their own: "localisation" counts for an unsolved attempt that ran, "test_value" replaces the partial
    credit. A HARD flag is tampering; a SOFT one leaves the total alone and masks what would be paid: an attempt that
    failed anyway trains as the failure that it is, or looking odd would be a shelter. `scalar` makes the number of an
    honest attempt; `trusted_level` is the least level at which solved is paid as solved. Each score of the reward has
    in `contribution` what it added to the total. Raises ValueError for a scalar that makes no number in [-1, 1], and
    for a score whose name is in RESERVED.
    """
    taken = RESERVED & {score.name for score in scores}
    if taken:
        raise ValueError(f"expected scores with names of their own, found {sorted(taken)}, which a reward makes itself")
    faults = [f for f in (verdict.fault, *(t.fault for t in verdict.tests)) if f is not None]
    if any(f.owner is not Owner.POLICY for f in faults) or not _all_there(scores, required):
        return None
    hard = [f for f in flags if f.severity is Severity.HARD]
    tampered = bool(hard) or any(f.attribution is Attribution.TAMPER for f in faults)
    worst = min(faults, key=cost_of, default=None)
    credit = credit_of(verdict, baseline)
    vector = _vector(verdict, tampered, worst, credit.value, scores)
    total, added = (TAMPER, {"integrity": TAMPER}) if tampered else _weighed(scalar, vector, trusted_level)
    weights = scalar if isinstance(scalar, Weights) else lexicographic
    rows = [
        Score(name="integrity", value=0.0 if tampered else 1.0, evidence=_integrity(hard, faults)),
        Score(name="solved", value=vector.solved, weight=weights.solved, evidence=credit.count),
        Score(name="partial", value=vector.partial, weight=weights.partial),
        *([_cost_score(vector.cost, worst)] if worst is not None else ()),
        *_own_rows(added),
        *scores,
    ]
    return Reward(
        total=total, solved=bool(vector.solved), scores=tuple(_with_contributions(rows, added)), flags=tuple(flags),
        trainable=Trainable.MASK if flags and not hard and total > 0.0 else Trainable.YES, suite=verdict.suite,
        level=verdict.level,
    )


_OWN_ROWS = {
    "level": "the verdict was not reached behind a wall: paid as partial credit at most",
    "scalar": "the total is a number of the user's own making",
}


def _own_rows(added: dict[str, float]) -> list[Score]:
    return [Score(name=name, value=None, evidence=_OWN_ROWS[name]) for name in added if name in _OWN_ROWS]


def _vector(
    verdict: Verdict, tampered: bool, worst: Fault | None, partial: float, scores: Sequence[Score]
) -> Vector:
    value = next((s.value for s in scores if s.name == TEST_VALUE and s.value is not None), None)
    place = next((s.value for s in scores if s.name == LOCALISATION and s.value is not None), None)
    ran = worst is None or CLASS_OF[worst.kind] in "CDE"
    quality: dict[str, float] = {}
    for score in scores:
        moves = moved_by(score) if score.name not in (LOCALISATION, TEST_VALUE) else None
        if moves is not None:
            quality[score.name] = quality.get(score.name, 0.0) + moves
    return Vector(
        solved=1.0 if verdict.solved and not tampered else 0.0, partial=partial if value is None else value,
        cost=cost_of(worst) if worst is not None else 0.0, localisation=place if ran else None, quality=quality,
        level=verdict.level,
    )


def _weighed(scalar: Scalar, vector: Vector, trusted_level: str) -> tuple[float, dict[str, float]]:
    """The total and what each component added to it."""
    total = scalar(vector)
    if not (math.isfinite(total) and -1.0 <= total <= 1.0):
        raise ValueError(f"expected a scalar in [-1, 1] of {vector}, found {total!r}")
    added = dict(scalar.contributions(vector)) if isinstance(scalar, Weights) else {"scalar": total}
    if total > UNTRUSTED and _rank(vector.level) < _rank(trusted_level):
        return UNTRUSTED, {**added, "level": UNTRUSTED - total}
    return total, added


def _rank(level: str) -> int:
    """A level that nobody knows proves nothing."""
    return LEVELS.index(level) if level in LEVELS else 0


def _all_there(scores: Sequence[Score], required: Collection[str]) -> bool:
    return set(required) <= {score.name for score in scores if score.value is not None}


def _with_contributions(rows: Sequence[Score], added: dict[str, float]) -> list[Score]:
    """The first row of each name holds what the name added: 0 where it was measured and did not count."""
    left = dict(added)
    return [
        msgspec.structs.replace(row, contribution=left.pop(row.name, 0.0), weight=_capped(row)) for row in rows
    ]


def _capped(score: Score) -> float:
    return min(score.weight, JUDGE_WEIGHT) if score.name == JUDGE else score.weight


def _cost_score(cost: float, fault: Fault) -> Score:
    return Score(name="error_class", value=1.0 + cost, evidence=f"{cost:+.2f} {fault}")


def _integrity(hard: Sequence[Flag], faults: Sequence[Fault]) -> str:
    return "; ".join([f"{f.detector}: {f.evidence}" for f in hard] + [
        str(f) for f in faults if f.attribution is Attribution.TAMPER])
