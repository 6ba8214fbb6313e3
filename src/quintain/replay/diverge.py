"""The first step at which two episodes of one task part ways, and why. Pure: nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from quintain.replay.again import steps_of
from quintain.replay.base import BLAME_OF, Blame, Cause, Difference, Named
from quintain.replay.diagnose import Entry, Known, name_causes
from quintain.replay.observed import differences, seen
from quintain.sandbox import Snapshot
from quintain.types import Built, Event, Opened


class Divergence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where two episodes part: `step` counts as everywhere from 0 (what was asked), `event` is the word of the event
    there. `difference` is `None` where one of them simply ends; `named` tells why, as far as the record knows."""

    step: int
    event: str
    difference: Difference | None
    named: tuple[Named, ...] = ()


def first_divergence(
    one: Sequence[Event], other: Sequence[Event], *, files: Callable[[str], Snapshot | None] = lambda name: None,
    known: Known | None = None,
) -> Divergence | None:
    """`None` when the last attempts of both say the same from beginning to end. Raises ValueError for logs that do not
    begin with Opened."""
    left, right = steps_of(one), steps_of(other)
    opened, begun = left.events[0], right.events[0]
    assert isinstance(opened, Opened) and isinstance(begun, Opened)
    if opened.task_version != begun.task_version:
        what = f"version {opened.task_version[:12]} of {opened.task}, version {begun.task_version[:12]} of {begun.task}"
        return Divergence(step=0, event="opened", difference=None,
                          named=(Named(cause=Cause.TASK, blame=BLAME_OF[Cause.TASK], evidence=(what,)),))
    step = 0
    program = None
    for at in range(max(len(left.events), len(right.events))):
        if at in left.cuts and at:
            step += 1
        if at >= len(left.events) or at >= len(right.events):
            longer = (left.events if at < len(left.events) else right.events)[at]
            return Divergence(step=step, event=type(longer).__name__.lower(), difference=None)
        event, instead = left.events[at], right.events[at]
        program = event.program if isinstance(event, Built) else program
        recorded = seen(event, opened_unix_seconds=opened.unix_seconds, files=files)
        again = seen(instead, opened_unix_seconds=begun.unix_seconds, files=files)
        if recorded.event != again.event:
            return Divergence(step=step, event=f"{recorded.event}, {again.event}", difference=None)
        found = differences(recorded.parts, [again.parts])
        if found:
            entries = [Entry(recorded, [again], [], difference) for difference in found]
            named = name_causes(entries, known=known or Known(), program=program)
            return Divergence(step=step, event=recorded.event, difference=found[0], named=_unproved(named))
    return None


def _unproved(named: Sequence[Named]) -> tuple[Named, ...]:
    """Two records alone prove no fault of the house: the same program twice may differ by chance."""
    return tuple(
        msgspec.structs.replace(one, blame=Blame.JITTER, evidence=(
            *one.evidence, "by the records alone it may be chance: replay the step to know"))
        if one.cause is Cause.HOUSE else one for one in named)
