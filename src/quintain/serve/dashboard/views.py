"""What the dashboard shows, as values: what its HTTP face sends as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec


class Pace(StrEnum):
    """How a run stands."""

    LIVE = "live"
    ENDED = "ended"
    INTERRUPTED = "interrupted"


class State(StrEnum):
    """Where an episode is: what is awaited while it goes on, and what it came to."""

    GENERATING = "generating"
    BUILDING = "building"
    RUNNING = "running"
    GRADING = "grading"
    SOLVED = "solved"
    FAILED = "failed"
    BROKEN = "broken"  # by the house or the task: no reward


class _View(msgspec.Struct, frozen=True, kw_only=True):
    pass


class RunLine(_View, frozen=True, kw_only=True):
    """A run in a list. `None`: not known without reading its journal, or there is none."""

    name: str
    pace: Pace
    taskset: str
    policy: str
    created_unix_seconds: float
    episodes: int | None = None
    open: int | None = None
    solved: int | None = None
    faults: dict[str, int] = {}
    reward: float | None = None
    seconds: float | None = None
    is_training: bool = False


class Moment(_View, frozen=True, kw_only=True):
    """A stretch of time: when it ends, how many episodes closed in it, and what those that have a reward came to."""

    unix_seconds: float
    closed: int
    solved: int
    reward: float | None


class FaultLine(_View, frozen=True, kw_only=True):
    owner: str
    fault: str
    count: int


class Curve(_View, frozen=True, kw_only=True):
    """Points (step, value) under a name."""

    name: str
    points: tuple[tuple[float, float], ...]


class Overview(_View, frozen=True, kw_only=True):
    """A run at a glance. `rewards` counts in 20 equal bins over [-1, 1]; `per_minute` are the episodes that closed in
    the last minute of its journal; `components` are means over the episodes where they were measured; `sandboxes` as
    last metered, empty where nobody metered them; `tasks` counts them by how they fare."""

    line: RunLine
    states: dict[str, int]
    owners: dict[str, int]
    faults: tuple[FaultLine, ...] = ()
    rewards: tuple[int, ...] = ()
    moments: tuple[Moment, ...] = ()
    step_seconds: float = 0.0
    per_minute: int = 0
    masked: int = 0
    turns: float | None = None
    components: dict[str, float] = {}
    flags: dict[str, int] = {}
    sandboxes: dict[str, float] = {}
    tasks: dict[str, int] = {}
    numbers: dict[str, float] = {}
    curves: tuple[Curve, ...] = ()
    versions: tuple[Curve, ...] = ()
    alerts: int = 0
    damaged: int = 0


class EpisodeLine(_View, frozen=True, kw_only=True):
    """An episode in a list."""

    id: str
    task: str
    kind: str
    group: str
    attempt: int
    state: State
    stop: str | None
    turns: int
    reward: float | None
    trainable: str | None
    owner: str | None
    fault: str | None
    flags: tuple[str, ...]
    seconds: float
    opened_unix_seconds: float
    version: str


class EpisodePage(_View, frozen=True, kw_only=True):
    """`total` are all that the filters let through; `tasks` and `faults` what there is to filter by."""

    run: str
    total: int
    episodes: tuple[EpisodeLine, ...]
    kinds: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Move(_View, frozen=True, kw_only=True):
    """One move of a task in a ledger."""

    to: str
    why: str
    evidence: str
    by: str
    unix_seconds: float


class TaskStanding(_View, frozen=True, kw_only=True):
    """How a task stands in a ledger, with its reasons, the latest last."""

    task: str
    version: str
    state: str
    since_unix_seconds: float
    verdicts: int
    moves: tuple[Move, ...] = ()


class TaskLine(_View, frozen=True, kw_only=True):
    """A task: how it fared in a run, and how it stands where there is a ledger."""

    task: str
    kind: str
    attempts: int
    solved: int
    broken: int
    reward: float | None
    fares: str
    fault: str | None = None
    standing: TaskStanding | None = None


class TaskPage(_View, frozen=True, kw_only=True):
    run: str
    ledger: str | None
    tasks: tuple[TaskLine, ...]


class AlertLine(_View, frozen=True, kw_only=True):
    """`turn` is `fired` or `resolved` in a history, and the alert's state (`pending`, `firing`) among those on."""

    run: str
    rule: str
    labels: dict[str, str]
    turn: str
    severity: str
    text: str
    value: float
    unix_seconds: float
    silenced: bool = False


class HoldLine(_View, frozen=True, kw_only=True):
    """What a breaker, an alert or a person has stopped. `undo` is the command that lets it go."""

    run: str
    scope: str
    key: str
    reason: str
    by: str
    state: str
    since_unix_seconds: float
    undo: str = ""


class SilenceLine(_View, frozen=True, kw_only=True):
    """Alerts of rules like `rule` with these labels do nothing until then."""

    run: str
    id: str
    rule: str
    labels: dict[str, str]
    reason: str
    by: str
    until_unix_seconds: float


class AlarmsView(_View, frozen=True, kw_only=True):
    """`sandboxes` by state and the `numbers` of a training's last update are as last metered."""

    on: tuple[AlertLine, ...] = ()
    history: tuple[AlertLine, ...] = ()
    holds: tuple[HoldLine, ...] = ()
    silences: tuple[SilenceLine, ...] = ()
    sandboxes: dict[str, float] = {}
    numbers: dict[str, float] = {}


class CaseView(_View, frozen=True, kw_only=True):
    """A case for a reviewer, who holds it until then (0: it is held by nobody). `content` is a `guard.Case` as JSON."""

    case: str
    until_unix_seconds: float
    content: msgspec.Raw


class ReviewStats(_View, frozen=True, kw_only=True):
    """What the reviews have come to; `upper` is the bound at 95 % on the share of hacks among what chance drew."""

    cases: int
    open: int
    decided: dict[str, int]
    reviewed: int
    hits: int
    upper: float
    mine: int


class Declined(Exception):
    """What a viewer asked for cannot be done now; the message says why, and what can."""


class Reviews(Protocol):
    """A queue of attempts that people look at. Methods raise Declined for what it does not allow."""

    def stats(self, reviewer: str) -> ReviewStats: ...
    def next(self, reviewer: str) -> CaseView | None: ...
    def decide(self, reviewer: str, case: str, decision: str, note: str) -> None: ...
    def undo(self, reviewer: str) -> CaseView: ...


class Replays(Protocol):
    """Runs an episode again from a step on, and tells what differs, as text. Raises Declined."""

    async def replay(self, run: Path, episode: str, step: int) -> str: ...


class Alarms(Protocol):
    """What the watch of a run has written down, and what a viewer may say to it. Raises Declined for what is not there
    any more."""

    def of(self, run: Path) -> AlarmsView: ...
    def silence(self, run: Path, rule: str, labels: Mapping[str, str], seconds: float, reason: str) -> None: ...
    def unsilence(self, run: Path, id: str) -> None: ...
    def release(self, run: Path, scope: str, key: str) -> None: ...


class Standings(Protocol):
    """The standings of tasks in a ledger, by task."""

    def __call__(self, ledger: Path) -> Mapping[str, TaskStanding]: ...
