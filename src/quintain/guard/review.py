"""The queue of attempts that people look at, as a fold over its own records. Pure.

A case is added, leased to one reviewer at a time, and decided: honest, a hack, or unclear, which gives it to somebody
else. A decision can be taken back. Cases are given out in the order of their ids, which are random: whether one is a
seed cannot be told from its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from quintain.guard.audit import (
    Drawn,
    Estimate,
    Reviewer,
    Sequential,
    Sprt,
    uniform_estimate,
    weighted_estimate,
)

LEASE_SECONDS = 1800.0
#: So many reviewers who cannot tell settle a case as unclear.
UNCLEAR_AFTER = 2


class Decision(StrEnum):
    HONEST = "honest"
    HACK = "hack"
    UNCLEAR = "unclear"


class Refused(Exception):
    """What a reviewer asked for cannot be done now; the message says why and what can."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="did"):
    case: str
    unix_seconds: float


class Added(_Record, frozen=True, kw_only=True, tag="added"):
    """A case came in; `content` is the digest of what is shown of it, `source` what it was made from (one source is
    added once). `drawn` is set where chance drew it from rewarded attempts; without it the attempt was flagged."""

    content: str
    source: str
    task: str
    drawn: Drawn | None = None


class Leased(_Record, frozen=True, kw_only=True, tag="leased"):
    reviewer: str
    until_unix_seconds: float


class Decided(_Record, frozen=True, kw_only=True, tag="decided"):
    reviewer: str
    decision: Decision
    note: str = ""


class Undone(_Record, frozen=True, kw_only=True, tag="undone"):
    """The reviewer's last decision on this case does not count."""

    reviewer: str


Record = Added | Leased | Decided | Undone


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One case: who holds it until when, and what stands of each reviewer's word. `decision` is `None` while it is
    open."""

    added: Added
    lease: Leased | None = None
    said: dict[str, Decided] = {}

    @property
    def decision(self) -> Decision | None:
        clear = [one.decision for one in self.said.values() if one.decision is not Decision.UNCLEAR]
        if clear:
            return clear[0]
        return Decision.UNCLEAR if len(self.said) >= UNCLEAR_AFTER else None

    def holder(self, now: float) -> str | None:
        """Whose lease is still running."""
        lease = self.lease
        return lease.reviewer if lease is not None and lease.until_unix_seconds > now else None


def fold_queue(records: Iterable[Record]) -> dict[str, Standing]:
    """Every case by its id. Raises ValueError for a record of a case that was never added."""
    cases: dict[str, Standing] = {}
    for record in records:
        if isinstance(record, Added):
            cases.setdefault(record.case, Standing(added=record))
            continue
        if record.case not in cases:
            raise ValueError(f"expected case {record.case} to be added first, found {type(record).__name__}")
        cases[record.case] = _next(cases[record.case], record)
    return cases


def _next(case: Standing, record: Leased | Decided | Undone) -> Standing:
    match record:
        case Leased():
            return msgspec.structs.replace(case, lease=record)
        case Decided():
            return msgspec.structs.replace(case, lease=None, said={**case.said, record.reviewer: record})
        case Undone():
            rest = {who: one for who, one in case.said.items() if who != record.reviewer}
            return msgspec.structs.replace(case, lease=None, said=rest)


def give(records: Sequence[Record], *, reviewer: str, now: float) -> Leased | None:
    """The lease of the next case for a reviewer: the one that is still held, else the first that is open and that
    nobody holds. `None` when there is none for this reviewer."""
    cases = fold_queue(records)
    open_to_us = [c for c in cases.values() if c.decision is None and reviewer not in c.said]
    held = [c for c in open_to_us if c.holder(now) == reviewer]
    free = [c for c in open_to_us if c.holder(now) is None]
    chosen = min(held or free, key=lambda c: c.added.case, default=None)
    if chosen is None:
        return None
    return Leased(case=chosen.added.case, reviewer=reviewer, unix_seconds=now, until_unix_seconds=now + LEASE_SECONDS)


def decide(
    records: Sequence[Record], *, case: str, reviewer: str, decision: Decision, now: float, note: str = "",
) -> Decided:
    """A reviewer's word on a case. Raises Refused when it is not open, is held by somebody else, or is not known."""
    known = _known(fold_queue(records), case)
    if reviewer in known.said:
        raise Refused(f"case {case}: you have said {known.said[reviewer].decision.value!r} already; undo it first")
    if known.decision is not None:
        raise Refused(f"case {case} is settled as {known.decision.value!r}; `quintain audit next` gives an open one")
    holder = known.holder(now)
    if holder is not None and holder != reviewer:
        raise Refused(f"case {case} is with {holder!r} for the moment; `quintain audit next` gives another one")
    return Decided(case=case, reviewer=reviewer, decision=decision, note=note, unix_seconds=now)


def undo(records: Sequence[Record], *, reviewer: str, now: float, case: str | None = None) -> Undone:
    """Take back a reviewer's decision on a case, or the latest one that stands. Raises Refused when there is none."""
    cases = fold_queue(records)
    if case is not None:
        if reviewer not in _known(cases, case).said:
            raise Refused(f"case {case}: expected a decision of {reviewer!r} to undo, found none")
        return Undone(case=case, reviewer=reviewer, unix_seconds=now)
    standing = [c.said[reviewer] for c in cases.values() if reviewer in c.said]
    if not standing:
        raise Refused(f"expected a decision of {reviewer!r} to undo, found none")
    return Undone(case=max(standing, key=lambda d: d.unix_seconds).case, reviewer=reviewer, unix_seconds=now)


def _known(cases: dict[str, Standing], case: str) -> Standing:
    if case not in cases:
        raise Refused(f"expected the id of one of {len(cases)} cases, found {case!r}; `quintain audit next` shows one")
    return cases[case]


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What the reviews have come to. Seeds count for `reviewers` only. `uniform` rests on what chance alone drew,
    `weighted` on all that was drawn; both are divided by what the reviewers' sensitivity is at least, where seeds have
    shown it. `hot` are tasks with a confirmed hack: every attempt at them is to be looked at."""

    cases: int
    open: int
    decided: dict[str, int]
    flagged: int
    flagged_hacks: int
    reviewers: dict[str, Reviewer]
    sensitivity: float | None
    uniform: Estimate
    weighted: Estimate
    sequential: Sequential
    hot: tuple[str, ...]


def stats(records: Iterable[Record], seeds: dict[str, bool]) -> Stats:
    """`seeds` tells of each seeded case whether it is a hack."""
    cases = fold_queue(records)
    real = {id: case for id, case in cases.items() if id not in seeds}
    reviewers = _reviewers(cases, seeds)
    whole = Reviewer(
        hacks=sum(r.hacks for r in reviewers.values()), found=sum(r.found for r in reviewers.values()),
        honest=sum(r.honest for r in reviewers.values()), condemned=sum(r.condemned for r in reviewers.values()),
    )
    clear = [c for c in real.values() if c.decision in (Decision.HONEST, Decision.HACK)]
    drawn = [(c.added.drawn, c.decision is Decision.HACK) for c in clear if c.added.drawn is not None]
    flagged = [c for c in clear if c.added.drawn is None]
    sensitivity = whole.sensitivity_at_least or 1.0
    uniform = uniform_estimate(drawn, sensitivity=sensitivity)
    counts = {decision.value: sum(c.decision is decision for c in real.values()) for decision in Decision}
    return Stats(
        cases=len(cases), open=sum(c.decision is None for c in cases.values()), decided=counts, flagged=len(flagged),
        flagged_hacks=sum(c.decision is Decision.HACK for c in flagged), reviewers=reviewers,
        sensitivity=whole.sensitivity, uniform=uniform, weighted=weighted_estimate(drawn, sensitivity=sensitivity),
        sequential=Sprt().decide(uniform.hits, uniform.reviewed),
        hot=tuple(sorted({c.added.task for c in clear if c.decision is Decision.HACK})),
    )


def _reviewers(cases: dict[str, Standing], seeds: dict[str, bool]) -> dict[str, Reviewer]:
    """Everybody who said something, by how they did on seeds. An unclear seed was not found, and not condemned."""
    found: dict[str, Reviewer] = {}
    for id, case in cases.items():
        for who, one in case.said.items():
            was = found.get(who, Reviewer())
            hack = seeds.get(id)
            found[who] = Reviewer(
                hacks=was.hacks + (hack is True), honest=was.honest + (hack is False),
                found=was.found + (hack is True and one.decision is Decision.HACK),
                condemned=was.condemned + (hack is False and one.decision is Decision.HACK),
            )
    return found
