"""Partial credit: how much of what was asked for works, whatever the number of tests that ask for it.

Tests are grouped by requirement, so that a duplicate, a rerun or one more parameter raises no weight; what an answer
that does nothing gets is no credit; and what worked before and is broken now takes credit away.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quintain.types import CLASS_OF, Passed, Verdict


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a suite before any answer.

    `requirements` (test id → requirement) groups tests; a test that is not named belongs to its function, all
    parameters of it together. `passing` are the ids that pass with no answer at all (p2p): they give no credit, and an
    answer that breaks one regresses. `null_share` is the credit in [0, 1) that a null answer is known to reach, where
    only the number is known.
    """

    requirements: dict[str, str] = {}
    passing: tuple[str, ...] = ()
    null_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.null_share < 1.0:
            raise ValueError(f"null_share must be in [0, 1), found {self.null_share!r}")


class Credit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`value` in [0, 1]: the share of requirements met, above the baseline, times (1 - regressed)². `regressed` is the
    share in [0, 1] of what worked before and does not any more. `count` says it in words."""

    value: float
    regressed: float
    count: str


def credit_of(verdict: Verdict, baseline: Baseline | None = None) -> Credit:
    """The partial credit of a verdict. A result that was cut short (class F) forfeits it; an id that is reported more
    than once has passed if each report says so."""
    known = baseline or Baseline()
    before = frozenset(known.passing)
    best: dict[str, bool] = {}
    guarded: dict[str, bool] = {}
    for test in verdict.tests:
        group = guarded if test.id in before else best  # by id: a time-out there is a regression as well
        group[test.id] = group.get(test.id, True) and test.passed is Passed.PASSED
    regressed = 1.0 - _mean([1.0 if ok else 0.0 for ok in guarded.values()]) if guarded else 0.0
    clusters: dict[str, list[float]] = {}
    for name, ok in best.items():
        clusters.setdefault(known.requirements.get(name) or requirement_of(name), []).append(1.0 if ok else 0.0)
    share = _mean([_mean(cluster) for cluster in clusters.values()])
    above = max(0.0, (share - known.null_share) / (1.0 - known.null_share))
    count = f"{sum(best.values()) + sum(guarded.values())}/{len(best) + len(guarded)} tests"
    if guarded and regressed:
        count += f", {sum(not ok for ok in guarded.values())} of {len(guarded)} that passed before are broken"
    if _cut_short(verdict):
        return Credit(value=0.0, regressed=regressed, count=f"{count}; no result, no credit")
    return Credit(value=above * (1.0 - regressed) ** 2, regressed=regressed, count=count)


def requirement_of(test_id: str) -> str:
    """The test's function: its id without the parameters, `t.py::test_a[1-2]` → `t.py::test_a`."""
    if not test_id.endswith("]"):
        return test_id
    start = test_id.find("[", test_id.find("::") + 1)
    return test_id[:start] if start > 0 else test_id


def _cut_short(verdict: Verdict) -> bool:
    faults = (verdict.fault, *(test.fault for test in verdict.tests))
    return any(fault is not None and CLASS_OF[fault.kind] == "F" for fault in faults)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
