"""How good it was, and why."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quintain.types.fault import Fault


class Score(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured quality in [0, 1]; `None` = not measured, which is not zero. `contribution` is what it added to the
    total of the reward that it is part of; `None` where it is part of none yet."""

    name: str
    value: float | None
    weight: float = 1.0
    evidence: str = ""
    contribution: float | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not 0.0 <= self.value <= 1.0:
            raise ValueError(f"score {self.name!r} must be in [0, 1] or None, found {self.value!r}")


class Severity(StrEnum):
    SOFT = "soft"  # masks, and queues for review
    HARD = "hard"  # deterministic evidence: penalises


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    detector: str
    severity: Severity
    evidence: str


class Trainable(StrEnum):
    YES = "yes"
    MASK = "mask"
    DROP = "drop"


class Passed(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"  # expected and not reported: counts as failed


class TestResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One expected test and how it went."""

    __test__ = False  # not a test class, whatever its name says to pytest

    id: str
    passed: Passed
    fault: Fault | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing seen from the verifier's side that a verdict or a flag rests on. `source` is what saw it ("report",
    "exit status", "cgroup", "canary", "denials", "files", ...), `text` what it saw, at most a few lines; `blob` and
    `offset_bytes` say where the whole of it is kept, if it is."""

    source: str
    text: str
    blob: str | None = None
    offset_bytes: int | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a suite says of a program: each expected test exactly once. `level` is the isolation that was reached
    (L0 in place … L4 out-of-process oracle); `suite` is the digest of the tests, `build` that of the verifier's own
    code; `runs` counts the runs that agree on it (2 = confirmed with another seed, order and directory)."""

    suite: str
    level: str
    tests: tuple[TestResult, ...]
    fault: Fault | None = None
    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    evidence: tuple[Evidence, ...] = ()
    build: str = ""
    runs: int = 1

    @property
    def solved(self) -> bool:
        return bool(self.tests) and all(t.passed is Passed.PASSED for t in self.tests) and self.fault is None

    @property
    def share(self) -> float:
        """Share of the expected tests that passed, in [0, 1]."""
        return sum(t.passed is Passed.PASSED for t in self.tests) / len(self.tests) if self.tests else 0.0


class Reward(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reward keeps its reasons. `total` is in [-1, 1]."""

    total: float
    solved: bool
    scores: tuple[Score, ...] = ()
    flags: tuple[Flag, ...] = ()
    trainable: Trainable = Trainable.YES
    suite: str = ""
    level: str = ""
