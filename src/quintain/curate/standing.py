"""How a task stands: its state, the reasons and times of its moves, and the fold over the ledger that says so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from quintain.curate.chart import Chart


class State(StrEnum):
    """candidate → probation → active → suspended → retired."""

    CANDIDATE = "candidate"  # known, not admitted: never drawn
    PROBATION = "probation"  # admitted, drawn at a quarter of its weight until enough verdicts have gone well
    ACTIVE = "active"
    SUSPENDED = "suspended"  # not drawn, its pending rewards are masked, and it can come back
    RETIRED = "retired"  # for good, in this version

    @property
    def is_drawn(self) -> bool:
        return self in (State.PROBATION, State.ACTIVE)


class Why(StrEnum):
    """Why a task moved."""

    ADMITTED = "admitted"
    PROVEN = "proven"  # enough verdicts on probation, and nothing wrong
    FLAKY = "flaky"  # a test of it fails now and then on answers that are right
    ORACLE_FAILED = "oracle_failed"  # the author's answer is not solved any more, and not by accident
    NULL_PASSED = "null_passed"  # an answer that does nothing is solved
    CRASHES = "crashes"
    INFRASTRUCTURE = "infrastructure"
    TAMPER = "tamper"
    ALWAYS_SOLVED = "always_solved"
    NEVER_SOLVED = "never_solved"
    GAP = "gap"  # what is shown is solved much more often than what is hidden
    REFRESHED = "refreshed"  # another version took its place
    RECHECKED = "rechecked"  # looked at again, and well
    REPEATED = "repeated"  # suspended once too often
    BY_HAND = "by_hand"


#: From which state a task may go where. A retired version never comes back: what was mended is another version.
NEXT: dict[State, frozenset[State]] = {
    State.CANDIDATE: frozenset({State.PROBATION, State.RETIRED}),
    State.PROBATION: frozenset({State.ACTIVE, State.SUSPENDED, State.RETIRED}),
    State.ACTIVE: frozenset({State.SUSPENDED, State.RETIRED}),
    State.SUSPENDED: frozenset({State.PROBATION, State.RETIRED}),
    State.RETIRED: frozenset(),
}


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    task: str
    version: str
    at_unix_seconds: float


class Named(_Record, frozen=True, kw_only=True, tag="named"):
    """A task was named: it is a candidate. Another version of a known task takes its place, and begins anew."""


class Moved(_Record, frozen=True, kw_only=True, tag="moved"):
    """A task went to another state. `tests` are those that it was suspended for, `by` who said so."""

    to: State
    why: Why
    evidence: str = ""
    tests: tuple[str, ...] = ()
    by: str = ""


class Checked(_Record, frozen=True, kw_only=True, tag="checked"):
    """A task was looked at again by the verifier `build`: `trouble` is what was wrong, empty where nothing was."""

    build: str
    trouble: str = ""


class Tallied(_Record, frozen=True, kw_only=True, tag="tallied"):
    """What has been seen of a task so far: replaces the chart before it."""

    chart: Chart


Record = Named | Moved | Checked | Tallied


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the ledger says of a task. `since` is the time of its last move; `moves` are all of this version, oldest
    first; `checked` is the last look by hand of the house."""

    task: str
    version: str
    state: State
    since_unix_seconds: float
    moves: tuple[Moved, ...] = ()
    checked: Checked | None = None
    chart: Chart = Chart()

    @property
    def suspensions(self) -> int:
        return sum(move.to is State.SUSPENDED for move in self.moves)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that it is suspended for; none while it is not."""
        return self.moves[-1].tests if self.state is State.SUSPENDED and self.moves else ()


def fold(records: Iterable[Record]) -> dict[str, Standing]:
    """The standing of every task. Raises ValueError for a record that cannot come where it stands."""
    standings: dict[str, Standing] = {}
    for record in records:
        standings[record.task] = advance(standings.get(record.task), record)
    return standings


def advance(standing: Standing | None, record: Record) -> Standing:
    """The standing after one more record. Raises ValueError for a move that its state does not allow, and for a record
    of a task or a version that was not named."""
    replace = msgspec.structs.replace
    if isinstance(record, Named):
        if standing is not None and standing.version == record.version:
            raise ValueError(f"task {record.task}: version {record.version[:12]} was named before")
        return Standing(
            task=record.task, version=record.version, state=State.CANDIDATE, since_unix_seconds=record.at_unix_seconds,
        )
    if standing is None or standing.version != record.version:
        known = standing.version[:12] if standing is not None else "none"
        raise ValueError(f"task {record.task}: expected a record of version {known}, found {record.version[:12]}")
    match record:
        case Moved(to=to):
            if to not in NEXT[standing.state]:
                allowed = ", ".join(sorted(NEXT[standing.state])) or "nowhere"
                raise ValueError(f"task {record.task}: from {standing.state.value} it goes to {allowed}, "
                                 f"found {to.value}")
            chart = Chart() if to is State.PROBATION else standing.chart  # what comes back begins anew
            return replace(standing, state=to, since_unix_seconds=record.at_unix_seconds, chart=chart,
                           moves=(*standing.moves, record))
        case Checked():
            return replace(standing, checked=record)
        case Tallied(chart=chart):
            return replace(standing, chart=chart)


def drawn(standings: Mapping[str, Standing]) -> tuple[str, ...]:
    """The tasks that may be drawn, sorted."""
    return tuple(sorted(task for task, standing in standings.items() if standing.state.is_drawn))
