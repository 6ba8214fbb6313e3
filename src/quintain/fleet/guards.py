"""Who may stop a kind of work: circuit breakers and quotas, as functions that are asked now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from quintain.fleet._card import Lease
from quintain.fleet.base import Job, Line, Queue
from quintain.types import Event, HouseError

_log = logging.getLogger(__name__)


class Guard(Protocol):
    """Says why no more of a kind may be handed out now, from how it stands in the queue and whatever else the guard
    knows; nothing (the empty string) where it may. Asked about once a second for each kind, so it must be quick, and
    asked again while the kind is stopped: it is handed out again as soon as the guard has nothing against it."""

    def __call__(self, kind: str, line: Line) -> str: ...


class Sentry(Protocol):
    """Who stands beside a worker: it may hold it back, and sees what it plays. All of it must be quick."""

    def rests(self) -> str:
        """Why the worker takes nothing at all now; nothing (the empty string) where it may."""
        ...

    def yields(self, lease: Lease[Job]) -> str:
        """Why this one is not begun here now: it is given back and rests a while, and that was no delivery."""
        ...

    def began(self, lease: Lease[Job]) -> None: ...

    def saw(self, event: Event) -> None:
        """An event of an episode that it plays, once that is kept."""
        ...

    def ended(self, lease: Lease[Job]) -> None:
        """One that began is out of the worker's hands."""
        ...


def quota(most: Mapping[str, int]) -> Guard:
    """At most so many of a kind in workers' hands, give or take what is taken between two looks."""
    wrong = {kind: n for kind, n in most.items() if n < 0}
    if wrong:
        raise ValueError(f"expected quotas of at least 0, found {wrong}")

    def over(kind: str, line: Line) -> str:
        least = most.get(kind)
        if least is None or line.count.leased < least:
            return ""
        return f"{line.count.leased} are out, its quota is {least}"

    return over


def strictest(*guards: Guard) -> Guard:
    """Stops what any of them stops, for the reason of the first."""

    def first(kind: str, line: Line) -> str:
        return next((why for guard in guards if (why := guard(kind, line))), "")

    return first


async def heed(
    queue: Queue, guard: Guard, *, told: asyncio.Event, look_seconds: float = 0.5,
    hear: Callable[[str, str], None] = lambda kind, why: None, kept: Path | None = None,
) -> None:
    """Stop and resume the kinds of a queue as the guard says, until `told` is set, and then resume what the guard had
    stopped. No job is lost: those of a stopped kind wait in their order, and what runs goes on. What somebody else
    stopped (`quintain queue stop`) is left alone. `hear` is told of each change: the kind, and why (nothing: resumed).
    `kept` is a file of what the guard has stopped: who follows after a kill takes it for its own, or nobody would ever
    resume it.
    """
    ours, is_old = _read(kept), True
    while True:
        try:
            kinds = (await queue.stats()).kinds
            if is_old:  # of what was written down, only what was then done, and nobody has undone since
                ours, is_old = {kind: why for kind, why in ours.items() if kind in kinds and kinds[kind].stopped}, False
            for kind, line in kinds.items():
                why = "" if told.is_set() else guard(kind, line)
                if why and kind not in ours and not line.stopped:
                    ours[kind] = why
                    _write(kept, ours)
                    await queue.stop(kind)
                    hear(kind, why)
                elif not why and kind in ours:
                    await queue.resume(kind)
                    del ours[kind]
                    _write(kept, ours)
                    hear(kind, "")
        except HouseError as error:
            _log.warning("no news of the queue: %s", error)
        if told.is_set():
            return
        try:
            async with asyncio.timeout(look_seconds):
                await told.wait()
        except TimeoutError:
            pass


def _read(kept: Path | None) -> dict[str, str]:
    if kept is None or not kept.exists():
        return {}
    try:
        return msgspec.json.decode(kept.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("%s: expected the kinds that a guard has stopped, found %s", kept, error)
        return {}


def _write(kept: Path | None, ours: Mapping[str, str]) -> None:
    if kept is None:
        return
    try:
        new = kept.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(ours))
        new.replace(kept)
    except OSError as error:
        _log.warning("%s: cannot be written: %s", kept, error)
