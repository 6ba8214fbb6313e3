"""Solved attempts judged again when their suite has changed: how many the new suite still calls solved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from quintain.grade import Oracle
from quintain.tasks import Suite
from quintain.types import HouseError, Limits, Owner, Program, Verdict, content_digest

#: So many of the last solved attempts are judged again.
LAST = 1_000
#: Above this share of attempts that are not solved any more, the change raises an alarm.
DROP_LIMIT = 0.03


class Solved(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that the old suite called solved."""

    attempt: str
    program: Program


class Rescore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new suite says. `judged` counts attempts with a verdict, `unjudged` those on which the house or the task
    failed: they are in no rate. `lost` are the attempts that are not solved any more."""

    suite: str
    judged: int
    unjudged: int
    lost: tuple[str, ...]

    @property
    def drop(self) -> float:
        """The share that is not solved any more, in [0, 1]."""
        return len(self.lost) / self.judged if self.judged else 0.0

    @property
    def alarm(self) -> bool:
        """Whether so many are lost that either they were hacks or the new suite is wrong: look before you go on."""
        return self.drop > DROP_LIMIT


async def rescore(
    oracle: Oracle, attempts: Iterable[Solved], suite: Suite, *, image: str = "host", limits: Limits, last: int = LAST,
) -> Rescore:
    """Judge the last `last` attempts by `suite`. `attempts` come newest first. One after another: whoever wants several
    at once calls this for several tasks."""
    lost: list[str] = []
    judged = unjudged = 0
    for one in islice(attempts, last):
        try:
            verdict = await oracle.grade(suite, one.program, image=image, limits=limits)
        except HouseError:
            unjudged += 1
            continue
        if _is_nobodys(verdict):
            unjudged += 1
            continue
        judged += 1
        if not verdict.solved:
            lost.append(one.attempt)
    return Rescore(suite=content_digest(suite), judged=judged, unjudged=unjudged, lost=tuple(lost))


def _is_nobodys(verdict: Verdict) -> bool:
    faults: Sequence[object] = [
        f for f in (verdict.fault, *(test.fault for test in verdict.tests))
        if f is not None and f.owner is not Owner.POLICY
    ]
    return bool(faults)
