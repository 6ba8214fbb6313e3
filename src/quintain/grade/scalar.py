"""One number of a vector: what a trainer may choose, within an order that no choice can break."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from quintain.types import Score

TAMPER = -1.0
#: The names of scores that have a place of their own in the combination; every other score is a quality.
LOCALISATION = "localisation"
TEST_VALUE = "test_value"
JUDGE = "judge"
#: A model's opinion moves a reward by at most so much, whatever weight it says.
JUDGE_WEIGHT = 0.05


class Vector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt was worth, before any weighing. The attempt is honest: tampering has its own total.

    `solved` is 0 or 1, `partial` in [0, 1] the credit for what works, `cost` in [-1, 0] that of the worst fault,
    `localisation` in [0, 1] or `None`; `quality` (name → [-1, 1], 0 neutral, weight already in it) has what was
    measured only; `level` is the isolation that the verdict reached.
    """

    solved: float
    partial: float
    cost: float = 0.0
    localisation: float | None = None
    quality: dict[str, float] = {}
    level: str = "L4"


Scalar = Callable[[Vector], float]


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lexicographic scalar: correctness first, then quality. A `Weights` is called with a `Vector`.

    Any values are good that keep the order: a solved attempt at its worst quality stays above an unsolved one at its
    best. Raises ValueError for others.
    """

    solved: float = 0.80
    partial: float = 0.35
    localisation: float = 0.10
    quality_down: float = 0.22
    quality_up: float = 0.09

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"weights.{name} must be a number of at least 0, found {value!r}")
        best, worst = self.partial + self.localisation, self.solved - self.quality_down
        if not best < worst:
            raise ValueError(
                f"weights: a solved attempt of the worst quality (solved - quality_down = {worst:g}) must be above an "
                f"unsolved one of the best (partial + localisation = {best:g})")
        if self.solved + self.quality_up > 1.0:
            raise ValueError(f"weights: solved + quality_up must be at most 1, found {self.solved + self.quality_up:g}")

    def __call__(self, vector: Vector) -> float:
        return min(max(math.fsum(self.contributions(vector).values()), -1.0), 1.0)

    def contributions(self, vector: Vector) -> Mapping[str, float]:
        """What each component adds to the total; the total is their sum."""
        if vector.solved:
            moved = math.fsum(vector.quality.values())
            kept = min(max(moved, -self.quality_down), self.quality_up)
            share = kept / moved if moved else 0.0
            return {"solved": self.solved, **{name: value * share for name, value in vector.quality.items()}}
        found = {"partial": self.partial * vector.partial, "error_class": vector.cost}
        if vector.localisation is not None:
            found[LOCALISATION] = self.localisation * vector.localisation
        return found


#: The default.
lexicographic = Weights()


def solved_only(vector: Vector) -> float:
    """1 for a solved attempt, 0 for any other."""
    return 1.0 if vector.solved else 0.0


def partial_credit(vector: Vector) -> float:
    """1 for a solved attempt, else the share of the requirements that it meets, below 1."""
    return 1.0 if vector.solved else min(vector.partial, 0.99)


def moved_by(score: Score) -> float | None:
    """How far a quality may move the total, in [-weight, weight]; 0.5 is neutral, `None` is not measured."""
    if score.value is None or not math.isfinite(score.weight) or score.weight < 0.0:
        return None
    weight = min(score.weight, JUDGE_WEIGHT) if score.name == JUDGE else min(score.weight, 1.0)
    return weight * (2.0 * score.value - 1.0)


def measured(name: str, value: float | None, *, weight: float = 1.0, evidence: str = "") -> Score:
    """The score of a number that somebody computed: one that is no number in [0, 1] is not measured, and says so."""
    if value is None or (math.isfinite(value) and 0.0 <= value <= 1.0):
        return Score(name=name, value=value, weight=weight, evidence=evidence)
    found = f"not measured: expected a number in [0, 1], found {value!r}"
    return Score(name=name, value=None, weight=weight, evidence=f"{found}; {evidence}" if evidence else found)
