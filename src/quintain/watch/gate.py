"""What is stopped, why and by whom: breakers and holds of a run, in one file that every process of it reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec

from quintain.watch.breaker import Breaker, State, Terms, looked, seen
from quintain.watch.files import alone, read_file, stamp_of, write_file

#: Of each scope so many are followed by a breaker; what comes beyond is not.
_MOST = 512
BREAKER = "breaker"


class Scope(StrEnum):
    KIND = "kind"
    IMAGE = "image"
    HOST = "host"
    WORKER = "worker"
    RUN = "run"


class Hold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is stopped. `by` says who did it: `breaker`, `alert:NAME`, or a person. `state` is OPEN for what
    is stopped altogether, HALF_OPEN where `probes` at a time may go."""

    scope: Scope
    key: str
    reason: str
    by: str
    since_unix_seconds: float
    state: State = State.OPEN
    probes: int = 0

    @property
    def is_probed(self) -> bool:
        return self.state is State.HALF_OPEN

    def __str__(self) -> str:
        return f"{self.scope.value} {self.key}: {self.reason} ({self.by})"


class _Followed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: Scope
    key: str
    breaker: Breaker


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file holds: everything that is stopped, and every breaker with what it has seen."""

    holds: tuple[Hold, ...] = ()
    breakers: tuple[_Followed, ...] = ()


class Gate:
    """Ask `hold` before something is begun. `saw` takes in results and is for one process of a run, which also calls
    `look` now and then; the others only read. `stop` and `release` may come from any process and are seen by all within
    `poll_seconds`; to release what a breaker has opened closes the breaker. Raises HouseError(STORE_ERROR) where the
    file cannot be written; a damaged one is set aside, and nothing is stopped then."""

    def __init__(
        self, path: Path, *, terms: Terms | None = None, poll_seconds: float = 0.5,
        clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.terms = terms or Terms()
        self._poll_seconds = poll_seconds
        self._ticks = ticks
        self._wall, self._tick = clock(), ticks()
        self._stamp: tuple[int, int, int] | None = None
        self._holds: dict[tuple[Scope, str], Hold] = {}
        self._breakers: dict[tuple[Scope, str], Breaker] = {}
        self._polled = -1.0
        self._read(first=True)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Everything that is stopped now, sorted."""
        self._poll()
        return tuple(self._holds[key] for key in sorted(self._holds))

    def hold(self, scope: Scope, key: str) -> Hold | None:
        """What stops it, if anything does."""
        self._poll()
        return self._holds.get((scope, key))

    def saw(self, scope: Scope, key: str, crashed: bool, *, began_unix_seconds: float, fault: str = "") -> Hold | None:
        """Take in a result; the hold that comes of it where that is new."""
        about = (scope, key)

        def after() -> Breaker:
            return seen(self._breakers.get(about, Breaker()), crashed, at_seconds=self._now(),
                        began_seconds=began_unix_seconds, terms=self.terms, fault=fault[:200])

        before = self._breakers.get(about)
        if before is None and sum(known is scope for known, _ in self._breakers) >= _MOST:
            return None
        now = after()
        if now.state is (before or Breaker()).state:
            self._breakers[about] = now
            return None
        self._change(lambda: self._put(about, after()))
        return self._holds.get(about)

    def look(self) -> None:
        """Let probes go where a breaker has rested."""
        self._poll()

        def rested() -> list[tuple[tuple[Scope, str], Breaker]]:
            found = ((about, breaker, looked(breaker, at_seconds=self._now()))
                     for about, breaker in self._breakers.items())
            return [(about, after) for about, breaker, after in found if after is not breaker]

        def put() -> None:
            for about, after in rested():
                self._put(about, after)

        if rested():
            self._change(put)

    def probe_now(self, scope: Scope, key: str) -> None:
        """Let probes go at once: there is nothing else to do meanwhile."""
        about = (scope, key)

        def put() -> None:
            breaker = self._breakers.get(about)
            if breaker is not None and breaker.state is State.OPEN:
                at_once = looked(msgspec.structs.replace(breaker, rest_seconds=0.0), at_seconds=self._now())
                self._put(about, msgspec.structs.replace(at_once, rest_seconds=breaker.rest_seconds))

        if self._breakers.get(about, Breaker()).state is State.OPEN:
            self._change(put)

    def stop(self, scope: Scope, key: str, *, reason: str, by: str) -> Hold:
        """Until somebody releases it."""
        hold = Hold(scope=scope, key=key, reason=reason, by=by, since_unix_seconds=self._now())
        self._change(lambda: self._holds.__setitem__((scope, key), hold))
        return hold

    def release(self, scope: Scope, key: str) -> bool:
        """Whether it was stopped. Its breaker begins anew."""
        found: list[Hold | None] = []

        def put() -> None:
            found.append(self._holds.pop((scope, key), None))
            self._breakers.pop((scope, key), None)

        self._change(put)
        return found[-1] is not None

    def save(self) -> None:
        """Keep what the breakers have seen: for the end of a process."""
        self._change(lambda: None)

    def _now(self) -> float:
        """Unix time as it was when this began, and the steady clock since: it never goes back."""
        return self._wall + (self._ticks() - self._tick)

    def _put(self, about: tuple[Scope, str], breaker: Breaker) -> None:
        self._breakers[about] = breaker
        held = self._holds.get(about)
        if held is not None and held.by != BREAKER:
            return  # a person's or an alert's stop is not a breaker's to change
        if breaker.state is State.CLOSED:
            self._holds.pop(about, None)
            return
        reason = breaker.why or (held.reason if held is not None else "")
        self._holds[about] = Hold(
            scope=about[0], key=about[1], reason=reason, by=BREAKER, since_unix_seconds=breaker.since_seconds,
            state=breaker.state, probes=self.terms.probes if breaker.state is State.HALF_OPEN else 0,
        )

    def _poll(self) -> None:
        now = self._ticks()
        if self._polled < 0 or now - self._polled >= self._poll_seconds:
            self._polled = now
            if stamp_of(self.path) != self._stamp:
                self._read()

    def _read(self, *, first: bool = False) -> None:
        """Take in what others have written: their holds, and which of our breakers were released."""
        kept = read_file(self.path, _Kept, _Kept())
        self._stamp = stamp_of(self.path)
        self._holds = {(hold.scope, hold.key): hold for hold in kept.holds}
        if first:
            self._breakers = {(one.scope, one.key): one.breaker for one in kept.breakers}
            return
        for about, breaker in tuple(self._breakers.items()):
            if breaker.state is not State.CLOSED and about not in self._holds:
                del self._breakers[about]

    def _change(self, change: Callable[[], None]) -> None:
        """Change what is kept, by what is there now and alone with it."""
        with alone(self.path):
            if stamp_of(self.path) != self._stamp:
                self._read()
            change()
            followed = tuple(
                _Followed(scope=scope, key=key, breaker=breaker) for (scope, key), breaker in self._breakers.items()
                if breaker.results or breaker.state is not State.CLOSED)
            write_file(self.path, _Kept(holds=tuple(self._holds.values()), breakers=followed))
            self._stamp = stamp_of(self.path)
