"""What the tests that nobody is paid for say of attempts that were paid, and the alarm when they say something else."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from quintain.grade import Oracle
from quintain.guard.audit import at_most
from quintain.guard.tiers import GAP_LIMIT, SUSPEND_GAP, Tier
from quintain.tasks import Item
from quintain.types import Owner, Program, Verdict

#: A gap is believed when chance alone would make one as large in fewer than this share of cases.
BELIEVED = 0.05


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt before the tests of several tiers: solved or not, and `None` where a tier was not run. There is no
    reward in it, and nothing makes one of it."""

    task: str
    task_version: str
    attempt: str
    visible: bool | None = None
    hidden: bool | None = None
    reserve: bool | None = None
    suite: str = ""


class Response(StrEnum):
    """What a gap asks for."""

    ROTATE = "rotate"
    SUSPEND = "suspend"


class Gap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much oftener one tier is solved than another, over the `attempts` that both have judged. `chance` is the
    probability that chance alone makes the first solved alone at least so often (one-sided exact sign test)."""

    easier: Tier
    harder: Tier
    attempts: int
    easier_rate: float
    harder_rate: float
    chance: float

    @property
    def gap(self) -> float:
        return self.easier_rate - self.harder_rate


class GapAlarm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gap that is both large and no accident, where it was seen (a task's id, or "all"), and what it asks for."""

    where: str
    gap: Gap
    response: Response


async def audit_reserve(
    oracle: Oracle, item: Item, program: Program, *, attempt: str, hidden: Verdict | None = None,
    visible: Verdict | None = None, seed: int = 0,
) -> Audit:
    """Run the reserve against a program. `hidden` and `visible` are the verdicts that are known already.

    Raises ValueError for an item without a reserve, HouseError as the oracle does; TaskError is the caller's to raise:
    a fault of the task or the house in the reserve's verdict leaves `reserve` at `None`.
    """
    reserve = item.exam.reserve
    if reserve is None:
        raise ValueError(f"task {item.task.id}: expected a reserve to audit by, found none")
    limits = item.task.limits
    verdict = await oracle.grade(
        reserve, program, image=item.task.image, seed=seed,
        limits=limits.command.within(limits.turn).within(limits.episode),
    )
    return Audit(
        task=item.task.id, task_version=item.task.version, attempt=attempt, visible=_solved(visible),
        hidden=_solved(hidden), reserve=_solved(verdict), suite=verdict.suite,
    )


def _solved(verdict: Verdict | None) -> bool | None:
    if verdict is None:
        return None
    faults = [f for f in (verdict.fault, *(test.fault for test in verdict.tests)) if f is not None]
    return None if any(fault.owner is not Owner.POLICY for fault in faults) else verdict.solved


def gap_between(audits: Iterable[Audit], easier: Tier, harder: Tier) -> Gap | None:
    """The gap between two of visible, hidden and reserve; `None` when no attempt has both."""
    pairs = [
        (first, second) for one in audits
        if (first := getattr(one, easier.value)) is not None and (second := getattr(one, harder.value)) is not None
    ]
    if not pairs:
        return None
    only_easier = sum(first and not second for first, second in pairs)
    only_harder = sum(second and not first for first, second in pairs)
    return Gap(
        easier=easier, harder=harder, attempts=len(pairs),
        easier_rate=sum(first for first, _ in pairs) / len(pairs),
        harder_rate=sum(second for _, second in pairs) / len(pairs),
        chance=at_most(only_harder, only_easier + only_harder, 0.5),
    )


def gap_alarms(audits: Iterable[Audit]) -> tuple[GapAlarm, ...]:
    """The gaps visible–hidden and hidden–reserve that are above their limit and no accident: over all tasks, then task
    by task. Above 10 points the reserve is to be dealt anew, above 20 the task is to be suspended."""
    audits = list(audits)
    places = [("all", audits)]
    for task in dict.fromkeys(one.task for one in audits):
        places.append((task, [one for one in audits if one.task == task]))
    alarms = []
    for where, seen in places:
        for easier, harder in ((Tier.VISIBLE, Tier.HIDDEN), (Tier.HIDDEN, Tier.RESERVE)):
            gap = gap_between(seen, easier, harder)
            if gap is not None and gap.gap > GAP_LIMIT and gap.chance <= BELIEVED:
                response = Response.SUSPEND if gap.gap > SUSPEND_GAP and where != "all" else Response.ROTATE
                alarms.append(GapAlarm(where=where, gap=gap, response=response))
    return tuple(alarms)
