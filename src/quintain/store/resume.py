"""Where a run stands: a fold over its journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from quintain.types import Broke, Closed, Event, Opened, Owner


class Standing(StrEnum):
    """What is to be done about an episode."""

    NEW = "new"  # nothing is known of it: start it
    UNFINISHED = "unfinished"  # its writer died: go on at its last step
    BROKEN = "broken"  # the house failed it: try again as a new attempt
    FINISHED = "finished"  # leave it alone


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The episodes of a run by their standing, each in the order of its first event."""

    finished: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def last_attempt(log: Sequence[Event]) -> Sequence[Event]:
    """The events from the last Opened on; none of an empty log."""
    starts = [at for at, event in enumerate(log) if isinstance(event, Opened)]
    return log[starts[-1]:] if starts else ()


def standing(log: Sequence[Event]) -> Standing:
    """Where one episode stands, by its own events in order."""
    attempt = last_attempt(log)
    if not attempt:
        return Standing.NEW
    if not isinstance(attempt[-1], Closed):
        return Standing.UNFINISHED
    owners = [event.fault.owner for event in attempt if isinstance(event, Broke)]
    return Standing.BROKEN if owners and owners[-1] is Owner.HOUSE else Standing.FINISHED


def progress(events: Iterable[Event]) -> Progress:
    """Where every episode of a run stands; agrees with `standing` of each."""
    latest: dict[str, Standing] = {}
    house_failed: set[str] = set()
    for event in events:
        latest[event.episode] = Standing.UNFINISHED
        if isinstance(event, Opened):
            house_failed.discard(event.episode)
        elif isinstance(event, Broke):
            (house_failed.add if event.fault.owner is Owner.HOUSE else house_failed.discard)(event.episode)
        elif isinstance(event, Closed):
            latest[event.episode] = Standing.BROKEN if event.episode in house_failed else Standing.FINISHED
    return Progress(
        finished=tuple(e for e, s in latest.items() if s is Standing.FINISHED),
        broken=tuple(e for e, s in latest.items() if s is Standing.BROKEN),
        unfinished=tuple(e for e, s in latest.items() if s is Standing.UNFINISHED),
    )
