"""Which cases of a suite are shown, which decide the reward, which are kept for audits, and when they change places.
Pure: the same cases and seed give the same deal on every machine.

At most 40 % of the cases are shown and never one at a border of the domain; at least 40 % decide the reward; 20 % are
the reserve, which no reward ever rests on. A case that was once shown is never hidden again: it has been learnt.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import msgspec

from quintain.guard.suites import TestCase
from quintain.types import content_digest

VISIBLE_AT_MOST = 0.40
HIDDEN_AT_LEAST = 0.40
RESERVE_SHARE = 0.20
#: Above this difference of solved rates between two tiers, or this pass rate, the reserve is dealt anew.
GAP_LIMIT = 0.10
PASS_RATE_LIMIT = 0.90
#: Above this one a task is suspended.
SUSPEND_GAP = 0.20


class Tier(StrEnum):
    """What a case is for."""

    VISIBLE = "visible"  # shown, and run at every turn
    HIDDEN = "hidden"  # decides the reward
    RESERVE = "reserve"  # audits only, never rewarded
    CANARY = "canary"  # must fail: its expectation is wrong on a fresh input; made anew for each run
    GENERATED = "generated"  # made from properties and mutations (`grow`), admitted by the oracle; hidden, too


class Deal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cases of one suite by tier, as ids. `cases` is the digest of what they are, `version` that of the deal: a
    reward that carries it says by which deal it was earned."""

    cases: str
    seed: int
    epoch: int = 0
    visible: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    reserve: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return content_digest(self)

    def tier_of(self, case: str) -> Tier:
        """Raises KeyError for a case that was not dealt."""
        for tier in (Tier.VISIBLE, Tier.HIDDEN, Tier.RESERVE):
            if case in getattr(self, tier.value):
                return tier
        raise KeyError(f"expected one of the {len(self.visible + self.hidden + self.reserve)} dealt cases, "
                       f"found {case!r}")


class Reason(StrEnum):
    """Why the reserve is dealt anew."""

    EPOCH = "epoch"
    GAP = "gap"  # what is shown or rewarded is solved more often than what is not
    PASS_RATE = "pass_rate"  # nearly everything passes: the suite no longer tells answers apart


def deal(
    cases: Iterable[TestCase], *, seed: int, shown: Collection[str] = (), visible_at_most: float = VISIBLE_AT_MOST,
) -> Deal:
    """The first deal. `shown` are ids that a policy has seen already: they are visible whatever the shares say.

    With fewer than three cases that are not shown there is no reserve. Raises ValueError for no cases, an id that comes
    twice, and a share above 40 %.
    """
    if not 0.0 <= visible_at_most <= VISIBLE_AT_MOST:
        raise ValueError(f"expected visible_at_most in [0, {VISIBLE_AT_MOST}], found {visible_at_most}")
    known = _known(cases)
    free = _shuffled([case.id for case in known if case.id not in shown], seed, 0)
    border = {case.id for case in known if case.boundary}
    count = len(free)
    least_hidden = math.ceil(HIDDEN_AT_LEAST * len(known))
    reserved = min(count - 1, max(1, round(RESERVE_SHARE * count))) if count >= 3 else 0
    room = max(0, math.floor(visible_at_most * len(known)) - len(set(shown) & {case.id for case in known}))
    open_to_view = [id for id in free[reserved:] if id not in border]
    visible = open_to_view[:max(0, min(room, count - reserved - least_hidden))]
    hidden = [id for id in free[reserved:] if id not in visible]
    seen = [case.id for case in known if case.id in shown]
    return Deal(
        cases=_digest(known), seed=seed, visible=tuple(sorted([*seen, *visible])), hidden=tuple(sorted(hidden)),
        reserve=tuple(sorted(free[:reserved])),
    )


def rotate(last: Deal, cases: Iterable[TestCase], *, generated: Collection[str] = ()) -> Deal:
    """The next deal: the reserve is drawn from what decided the reward until now, first of all from what is new there,
    and what was the reserve decides from now on. Nothing that was shown comes back.

    `cases` may hold new ones (ids in `generated` or not known to `last`): they join the hidden. Raises ValueError when
    a dealt case is not among them.
    """
    known = _known(cases)
    ids = {case.id for case in known}
    lost = sorted({*last.visible, *last.hidden, *last.reserve} - ids)
    if lost:
        raise ValueError(f"expected every dealt case among the {len(ids)} given, found none of {', '.join(lost[:5])}")
    pool = _shuffled(sorted(ids - set(last.visible)), last.seed, last.epoch + 1)
    rested = [id for id in pool if id not in last.reserve]
    fresh = [id for id in rested if id in generated or id not in last.hidden]
    count = min(len(rested), max(1, round(RESERVE_SHARE * len(pool)))) if len(pool) >= 3 else 0
    reserve = [*fresh, *(id for id in rested if id not in fresh)][:count]
    return Deal(
        cases=_digest(known), seed=last.seed, epoch=last.epoch + 1, visible=last.visible,
        hidden=tuple(sorted(set(pool) - set(reserve))), reserve=tuple(sorted(reserve)),
    )


def rotation_due(
    *, epoch_ended: bool = False, gap: float | None = None, pass_rate: float | None = None,
) -> tuple[Reason, ...]:
    """Why the reserve should be dealt anew now; nothing while it need not be. `gap` is a difference of solved rates,
    `pass_rate` the share of attempts that the hidden cases pass; `None` is not measured."""
    reasons = []
    if epoch_ended:
        reasons.append(Reason.EPOCH)
    if gap is not None and gap > GAP_LIMIT:
        reasons.append(Reason.GAP)
    if pass_rate is not None and pass_rate > PASS_RATE_LIMIT:
        reasons.append(Reason.PASS_RATE)
    return tuple(reasons)


def _known(cases: Iterable[TestCase]) -> Sequence[TestCase]:
    known = sorted(cases, key=lambda case: case.id)
    if not known:
        raise ValueError("expected at least one case to deal, found none")
    ids = [case.id for case in known]
    twice = sorted({id for id in ids if ids.count(id) > 1})
    if twice:
        raise ValueError(f"expected each case once, found more of {', '.join(twice[:5])}")
    return known


def _digest(cases: Sequence[TestCase]) -> str:
    return content_digest([(case.id, case.digest) for case in cases])


def _shuffled(ids: Sequence[str], seed: int, epoch: int) -> list[str]:
    return sorted(ids, key=lambda id: hashlib.sha256(f"{seed}\0{epoch}\0{id}".encode()).digest())
