"""Whether the sampler and the trainer are one policy: their log-probabilities of the same tokens, compared.

They never agree to the last bit (other kernels, other precision, batches of other sizes); a difference that grows means
wrong weights, wrong ids, a wrong template or a temperature that one of them does not know of, and the gradient is then
another policy's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from quintain.train.trajectory import Trajectory


class Drift(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampler μ against trainer π over `tokens` sampled tokens, in nats. `mean` and `largest` are of |log π − log μ|,
    `kl` estimates KL(μ‖π) (k3, never negative), `outside` is the share in [0, 1] of tokens whose ratio π/μ lies
    outside [½, 2], `infinite` counts tokens that either called impossible."""

    tokens: int
    mean: float
    largest: float
    kl: float
    outside: float
    infinite: int = 0


class DriftBounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where on a drift is an alarm. The defaults leave room for bfloat16 against float32 (a mean of some 0.01 nats
    is usual there) and none for another temperature or another prefix (0.1 and more)."""

    mean: float = 0.05
    kl: float = 0.01
    outside: float = 0.02

    def broken_by(self, drift: Drift) -> tuple[str, ...]:
        """What is out of bounds, in words; empty where all is well."""
        found = [f"{drift.infinite} tokens are impossible for one of the two"] if drift.infinite else []
        for name, bound in (("mean", self.mean), ("kl", self.kl), ("outside", self.outside)):
            value = getattr(drift, name)
            if value > bound:
                found.append(f"{name} {value:.4g} is above {bound:g}")
        return tuple(found)


def drift_of(
    sampler_N: Iterable[float], trainer_N: Iterable[float], mask_N: Iterable[bool | int],
) -> Drift:
    """Compare two rows of log-probabilities where the mask is set. Raises ValueError for lengths that differ."""
    return _drift(list(zip(sampler_N, trainer_N, mask_N, strict=True)))


def drift_of_rows(rows_B: Sequence[Trajectory], trainer_B: Sequence[Sequence[float]]) -> Drift | None:
    """The same over a batch of trajectories; `None` where no sampler gave log-probabilities. `trainer_B` has for each
    row one value per token. Raises ValueError for lengths that differ."""
    if len(rows_B) != len(trainer_B):
        raise ValueError(f"expected the log-probabilities of {len(rows_B)} rows, found {len(trainer_B)}")
    triples: list[tuple[float, float, bool | int]] = []
    for row, trainer in zip(rows_B, trainer_B, strict=True):
        if len(trainer) != len(row.token_ids):
            raise ValueError(
                f"trajectory {row.episode}: expected {len(row.token_ids)} log-probabilities, found {len(trainer)}")
        if row.logprobs is not None:
            triples += zip(row.logprobs, trainer, row.loss_mask, strict=True)
    return _drift(triples) if any(mask for _, _, mask in triples) else None


class DriftMonitor:
    """Tells when drift lasts: an alarm after `patience` batches in a row that are out of bounds; one good batch clears
    it. A single odd batch is no alarm, except one with impossible tokens."""

    def __init__(self, bounds: DriftBounds | None = None, *, patience: int = 3) -> None:
        if patience < 1:
            raise ValueError(f"patience must be at least 1, found {patience}")
        self._bounds = bounds or DriftBounds()
        self._patience = patience
        self._bad = 0

    def add(self, drift: Drift) -> str | None:
        """Take in one batch; what is wrong, if the alarm is on."""
        broken = self._bounds.broken_by(drift)
        self._bad = self._bad + 1 if broken else 0
        if not broken or (self._bad < self._patience and not drift.infinite):
            return None
        return f"sampler and trainer differ for {self._bad} batches: " + "; ".join(broken)


def _drift(triples: Sequence[tuple[float, float, bool | int]]) -> Drift:
    gaps = [trainer - sampler for sampler, trainer, mask in triples if mask]
    finite = [gap for gap in gaps if math.isfinite(gap)]
    count = max(1, len(finite))
    return Drift(
        tokens=len(gaps), mean=math.fsum(map(abs, finite)) / count, largest=max(map(abs, finite), default=0.0),
        kl=math.fsum(math.expm1(min(gap, 20.0)) - gap for gap in finite) / count,
        outside=sum(abs(gap) > math.log(2.0) for gap in finite) / count, infinite=len(gaps) - len(finite),
    )
