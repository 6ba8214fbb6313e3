"""What stays and for how long: rules by kind, age and outcome, and what they mean for each episode. Pure."""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from quintain.types import FaultKind, HouseError

DAY_SECONDS = 86_400.0
OUTCOMES = ("solved", "failed", "broken", "unfinished", "damaged", "anomalous", "reviewed")
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of the episodes of these kinds and outcomes (empty: of all) that are so old, the share `keep` in [0, 1] stays.
    An outcome is one of `OUTCOMES`: `anomalous` are those with a flag or with damage, `reviewed` those that a person
    looked at."""

    keep: float
    kind: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    older_than_days: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.keep <= 1.0:
            raise ValueError(f"keep must be in [0, 1], found {self.keep}")
        for outcome in self.outcome:
            if outcome not in OUTCOMES:
                raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, found {outcome!r}")


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rule that fits an episode decides; one that no rule fits stays. `budget` bounds the bytes of the files:
    beyond it the oldest go, though none that a rule keeps whole. What is taken out can be put back for `undo_days`.
    """

    rule: tuple[Rule, ...] = ()
    budget: str | None = None
    undo_days: float = 7.0

    def __post_init__(self) -> None:
        if self.undo_days < 0:
            raise ValueError(f"undo_days must be at least 0, found {self.undo_days}")
        if self.budget is not None and not re.fullmatch(r"\d+(\.\d+)?\s*([KMGT]iB)?", self.budget):
            raise ValueError(f"budget must be a size as in 200GiB, found {self.budget!r}")

    @property
    def budget_bytes(self) -> int | None:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB)?", self.budget or "")
        return int(float(found[1]) * _UNITS[found[2] or ""]) if found else None


#: Every solved, anomalous and reviewed episode stays; of the others a tenth when they are a month old.
STANDARD = Lifecycle(rule=(
    Rule(keep=1.0, outcome=("solved", "anomalous", "reviewed")),
    Rule(keep=0.1, older_than_days=30.0),
))


class Candidate(NamedTuple):
    """An episode to decide about: `outcomes` are all that fit it, `bytes` what it takes in the files, about."""

    run: str
    episode: str
    kind: str
    outcomes: frozenset[str]
    at_unix_seconds: float
    bytes: int


class Choice(NamedTuple):
    """What becomes of an episode, and why."""

    candidate: Candidate
    stays: bool
    why: str


def read_lifecycle(text: str, *, file: str = "lifecycle.toml") -> Lifecycle:
    """Rules from TOML. Raises HouseError(STORE_ERROR) naming the file and what was expected there."""
    try:
        return msgspec.convert(tomllib.loads(text), Lifecycle)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{file}: {error}")


def choose(
    candidates: Iterable[Candidate], rules: Lifecycle, *, now: float, held: Collection[tuple[str, str]] = (),
    total_bytes: int = 0,
) -> list[Choice]:
    """What becomes of each episode, those that go first in the order in which they were opened. `held` are those that a
    checkpoint, a suite, or a review refers to: they stay, whatever the rules say. Which of a share stay depends on
    their names only, so that thinning twice is the same as once."""
    chosen: list[Choice] = []
    spare: list[int] = []
    for candidate in sorted(candidates, key=lambda c: (c.at_unix_seconds, c.run, c.episode)):
        choice, is_spare = _one(candidate, rules, now, held)
        if choice.stays and is_spare:
            spare.append(len(chosen))
        chosen.append(choice)
    budget = rules.budget_bytes
    if budget is not None:
        left = total_bytes - sum(choice.candidate.bytes for choice in chosen if not choice.stays)
        for at in spare:
            if left <= budget:
                break
            chosen[at] = Choice(chosen[at].candidate, False, f"beyond the budget of {rules.budget}")
            left -= chosen[at].candidate.bytes
    return sorted(chosen, key=lambda choice: choice.stays)


def render_s3(rules: Lifecycle, *, prefix: str = "") -> tuple[dict[str, object], tuple[str, ...]]:
    """The same rules as a bucket's lifecycle configuration (`aws s3api put-bucket-lifecycle-configuration`), and those
    that a bucket cannot keep, in words: it knows no shares, no budgets, and nothing of what refers to an object. It
    knows kinds and outcomes by the tags `quintain-kind` and `quintain-outcome` that `ObjectBlobs(tags=…)` gives to all
    that it puts."""
    days = max(1, math.ceil(rules.undo_days))
    made: list[dict[str, object]] = [
        {"ID": "quintain-unfinished-uploads", "Status": "Enabled", "Filter": {"Prefix": prefix},
         "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}},
        {"ID": "quintain-undo", "Status": "Enabled", "Filter": {"Prefix": prefix},
         "NoncurrentVersionExpiration": {"NoncurrentDays": days}},
    ]
    left: list[str] = []
    for number, rule in enumerate(rules.rule, 1):
        if rule.keep == 1.0:
            left.append(f"rule {number} keeps all of it: a bucket keeps what no rule of its own removes")
        elif rule.keep > 0.0 or not (rule.kind or rule.outcome) or {"anomalous", "reviewed"} & set(rule.outcome):
            left.append(f"rule {number}: a bucket knows no shares, reviews, or all that is left: quintain gc")
        else:
            made.extend(_expirations(number, rule, prefix))
    if rules.budget is not None:
        left.append(f"budget {rules.budget}: a bucket knows no budgets: quintain gc")
    return {"Rules": made}, tuple(left)


def _expirations(number: int, rule: Rule, prefix: str) -> Iterable[dict[str, object]]:
    for at, (kind, outcome) in enumerate(product(rule.kind or (None,), rule.outcome or (None,)), 1):
        tags = [{"Key": key, "Value": value} for key, value in
                (("quintain-kind", kind), ("quintain-outcome", outcome)) if value is not None]
        yield {
            "ID": f"quintain-rule-{number}-{at}", "Status": "Enabled",
            "Filter": {"And": {"Prefix": prefix, "Tags": tags}},
            "Expiration": {"Days": max(1, math.ceil(rule.older_than_days))},
        }


def _one(
    candidate: Candidate, rules: Lifecycle, now: float, held: Collection[tuple[str, str]],
) -> tuple[Choice, bool]:
    """The choice by the rules alone, and whether the budget may overrule it."""
    if (candidate.run, candidate.episode) in held:
        return Choice(candidate, True, "something refers to it"), False
    age_days = (now - candidate.at_unix_seconds) / DAY_SECONDS
    for number, rule in enumerate(rules.rule, 1):
        if _fits(rule, candidate, age_days):
            stays = rule.keep == 1.0 or _draw(candidate) < rule.keep
            return Choice(candidate, stays, f"rule {number}"), rule.keep < 1.0
    return Choice(candidate, True, "no rule fits it"), True


def _fits(rule: Rule, candidate: Candidate, age_days: float) -> bool:
    return (
        (not rule.kind or candidate.kind in rule.kind)
        and (not rule.outcome or not candidate.outcomes.isdisjoint(rule.outcome))
        and age_days >= rule.older_than_days
    )


def _draw(candidate: Candidate) -> float:
    """A number in [0, 1) that the name decides."""
    name = f"{candidate.run}\0{candidate.episode}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") / 2**64


def sum_by_reason(choices: Sequence[Choice]) -> dict[str, int]:
    """How many go, by why."""
    counts: dict[str, int] = {}
    for choice in choices:
        if not choice.stays:
            counts[choice.why] = counts.get(choice.why, 0) + 1
    return counts
