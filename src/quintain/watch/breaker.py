"""A circuit breaker: when what is played of one sort crashes too often, to be sure, and when it is well. Pure.

    closed → open → half-open → closed
                 ↖ a probe crashed ↲
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It opens when the lower bound of the crash rate (Wilson's interval, `deviations` wide to each side) of the last
    `window` results within `age_seconds` lies above `crash_rate`: three crashes in a row are enough, or eight of ten,
    or nineteen of fifty, and two are not, nor ten of a hundred. It rests, twice as long each time up to the longest,
    then lets `probes` at a time go, and closes when so many in a row went well."""

    crash_rate: float = 0.2
    deviations: float = 3.0
    window: int = 50
    age_seconds: float = 900.0
    rest_seconds: float = 30.0
    longest_rest_seconds: float = 600.0
    probes: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.crash_rate < 1.0:
            raise ValueError(f"expected a crash_rate between 0 and 1, found {self.crash_rate}")
        for name in ("deviations", "window", "age_seconds", "rest_seconds", "longest_rest_seconds", "probes"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"expected {name} greater than 0, found {getattr(self, name)}")


class Breaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`results` are the last ones, oldest first: (when, whether it crashed). Times are Unix seconds."""

    state: State = State.CLOSED
    results: tuple[tuple[float, bool], ...] = ()
    since_seconds: float = 0.0
    rest_seconds: float = 0.0
    went_well: int = 0
    why: str = ""


def lower_bound(crashed: int, of: int, deviations: float) -> float:
    """The lower end of Wilson's interval for a rate. E. B. Wilson, JASA 22 (1927), 209-212."""
    if of == 0:
        return 0.0
    rate, square = crashed / of, deviations**2
    middle = rate + square / (2 * of)
    spread = deviations * math.sqrt(rate * (1 - rate) / of + square / (4 * of**2))
    return max(0.0, (middle - spread) / (1 + square / of))


def seen(
    breaker: Breaker, crashed: bool, *, at_seconds: float, began_seconds: float, terms: Terms, fault: str = "",
) -> Breaker:
    """After one more result. What began before it opened, or before the probes were let go, says nothing of whether it
    is mended; what was played all the same since it opened (a second try, or there was nothing else) does, as probes
    do, but does not make it rest for longer."""
    replace = msgspec.structs.replace
    if breaker.state is not State.CLOSED and began_seconds < breaker.since_seconds:
        return breaker
    if breaker.state is State.OPEN and crashed:
        return replace(breaker, went_well=0)
    if breaker.state is not State.CLOSED:
        if crashed:
            rest = min(2 * breaker.rest_seconds, terms.longest_rest_seconds)
            return replace(breaker, state=State.OPEN, since_seconds=at_seconds, rest_seconds=rest, went_well=0,
                           why=f"a probe crashed ({fault})" if fault else "a probe crashed")
        well = breaker.went_well + 1
        return Breaker() if well >= terms.probes else replace(breaker, went_well=well)
    known = (*breaker.results, (at_seconds, crashed))[-terms.window:]
    results = tuple(one for one in known if one[0] > at_seconds - terms.age_seconds)
    crashes = sum(bad for _, bad in results)
    if not crashed or lower_bound(crashes, len(results), terms.deviations) <= terms.crash_rate:
        return replace(breaker, results=results)
    why = f"{crashes} of the last {len(results)} crashed"
    return Breaker(
        state=State.OPEN, since_seconds=at_seconds, rest_seconds=terms.rest_seconds,
        why=f"{why} (the latest: {fault})" if fault else why,
    )


def looked(breaker: Breaker, *, at_seconds: float) -> Breaker:
    """As time goes by: after its rest an open one lets probes go. A clock that went back does not make it rest for
    longer than it was to."""
    if breaker.state is not State.OPEN:
        return breaker
    since = min(breaker.since_seconds, at_seconds)
    if at_seconds - since >= breaker.rest_seconds:
        return msgspec.structs.replace(breaker, state=State.HALF_OPEN, since_seconds=at_seconds, went_well=0)
    if since == breaker.since_seconds:
        return breaker
    return msgspec.structs.replace(breaker, since_seconds=since)
