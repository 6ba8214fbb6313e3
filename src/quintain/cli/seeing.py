"""What the dashboard is shown, from the rooms that know: the review queue, the ledger of tasks, the watch, replays."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from quintain.curate import HealthLedger
from quintain.guard import Decision, Desk, Refused
from quintain.serve import (
    AlarmsView,
    AlertLine,
    CaseView,
    Declined,
    HoldLine,
    Move,
    ReviewStats,
    SilenceLine,
    TaskStanding,
)
from quintain.watch import (
    Alert,
    Change,
    Gate,
    Scope,
    Silence,
    Snapshot,
    alerts_on,
    folder_of,
    last_snapshot,
    silence,
    silences,
    unsilence,
)

#: A replay is given up after this.
REPLAY_SECONDS = 300.0
_TOLD_BYTES = 200_000
_HISTORY_BYTES = 256 * 1024
_RUNS_HELD = 64
#: All that is read of a watch.
_FILES = ("alerts.json", "silences.json", "gate.json", "alerts.jsonl", "metrics.json")


class ReviewDesk:
    """A queue of `quintain audit`."""

    def __init__(self, folder: Path) -> None:
        self._desk = Desk(folder)

    def stats(self, reviewer: str) -> ReviewStats:
        found, cases = self._desk.stats(), self._desk.cases()
        return ReviewStats(
            cases=found.cases, open=found.open, decided=found.decided, reviewed=found.uniform.reviewed,
            hits=found.uniform.hits, upper=found.uniform.upper,
            mine=sum(reviewer in case.said for case in cases.values()),
        )

    def next(self, reviewer: str) -> CaseView | None:
        _named(reviewer)
        found = self._desk.next(reviewer, now=time.time())
        if found is None:
            return None
        lease, case = found
        return CaseView(case=lease.case, until_unix_seconds=lease.until_unix_seconds, content=_raw(case))

    def decide(self, reviewer: str, case: str, decision: str, note: str) -> None:
        _named(reviewer)
        try:
            self._desk.decide(case, reviewer, Decision(decision), now=time.time(), note=note[:2000])
        except (Refused, ValueError) as error:
            raise Declined(str(error)) from error

    def undo(self, reviewer: str) -> CaseView:
        _named(reviewer)
        try:
            made = self._desk.undo(reviewer, now=time.time())
        except Refused as error:
            raise Declined(str(error)) from error
        return CaseView(case=made.case, until_unix_seconds=0.0, content=_raw(self._desk.case(made.case)))


def _named(reviewer: str) -> None:
    if not reviewer.strip() or len(reviewer) > 100:
        raise Declined("expected the name of a reviewer, of at most 100 characters")


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def standings_of(ledger: Path) -> Mapping[str, TaskStanding]:
    """How tasks stand, with every move and its reason. Raises HouseError(STORE_ERROR)."""
    return {
        task: TaskStanding(
            task=task, version=one.version, state=one.state.value, since_unix_seconds=one.since_unix_seconds,
            verdicts=one.chart.verdicts, moves=tuple(
                Move(to=move.to.value, why=move.why.value, evidence=move.evidence, by=move.by,
                     unix_seconds=move.at_unix_seconds) for move in one.moves))
        for task, one in HealthLedger(ledger).standings.items()
    }


class WatchedAlarms:
    """What the watch of a run has written down; nothing where there is none. What has not changed is not read again."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[object, ...], _Written]] = {}

    def of(self, run: Path) -> AlarmsView:
        folder = folder_of(run)
        if not folder.is_dir():
            return AlarmsView()
        found, now = self._read(run, folder), time.time()
        hushed = [one for one in found.silences if one.until_unix_seconds > now]
        return AlarmsView(
            on=tuple(_line(run.name, alert, alert.state.value, alert.since_unix_seconds,
                           any(one.covers(alert, now) for one in hushed)) for alert in found.alerts),
            holds=found.holds, history=found.history, sandboxes=found.sandboxes, numbers=found.numbers,
            silences=tuple(SilenceLine(run=run.name, id=one.id, rule=one.rule, labels=one.labels, reason=one.reason,
                                       by=one.by, until_unix_seconds=one.until_unix_seconds) for one in hushed))

    def silence(self, run: Path, rule: str, labels: Mapping[str, str], seconds: float, reason: str) -> None:
        silence(folder_of(run), Silence(
            id=secrets.token_hex(4), rule=rule, until_unix_seconds=time.time() + seconds, labels=dict(labels),
            reason=reason, by="the dashboard"))

    def unsilence(self, run: Path, id: str) -> None:
        if not unsilence(folder_of(run), id):
            raise Declined(f"there is no silence {id!r} any more")

    def release(self, run: Path, scope: str, key: str) -> None:
        known = {one.value for one in Scope}
        if scope not in known or not Gate(folder_of(run) / "gate.json").release(Scope(scope), key):
            raise Declined(f"{scope}:{key} is not stopped any more")

    def _read(self, run: Path, folder: Path) -> _Written:
        stamp = tuple(_stamp(folder / name) for name in _FILES)
        known = self._known.get(folder)
        if known is not None and known[0] == stamp:
            return known[1]
        snapshot = last_snapshot(folder)
        found = _Written(
            alerts_on(folder), silences(folder), _holds(run, folder), _history(run.name, folder / "alerts.jsonl"),
            _sandboxes(snapshot), {one.labels[0]: one.value for one in snapshot.series
                                   if one.metric == "quintain_training"})
        while len(self._known) >= _RUNS_HELD:
            self._known.pop(next(iter(self._known)), None)
        self._known[folder] = stamp, found
        return found


class _Written(NamedTuple):
    alerts: tuple[Alert, ...]
    silences: tuple[Silence, ...]
    holds: tuple[HoldLine, ...]
    history: tuple[AlertLine, ...]
    sandboxes: dict[str, float]
    numbers: dict[str, float]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _holds(run: Path, folder: Path) -> tuple[HoldLine, ...]:
    return tuple(HoldLine(
        run=run.name, scope=hold.scope.value, key=hold.key, reason=hold.reason, by=hold.by, state=hold.state.value,
        since_unix_seconds=hold.since_unix_seconds,
        undo=shlex.join(("quintain", "alerts", "release", str(run), f"{hold.scope.value}:{hold.key}")),
    ) for hold in Gate(folder / "gate.json").holds)


def _line(run: str, alert: Alert, turn: str, when: float, silenced: bool) -> AlertLine:
    return AlertLine(run=run, rule=alert.rule, labels=alert.labels, turn=turn, severity=alert.severity.value,
                     text=alert.text, value=alert.value, unix_seconds=when, silenced=silenced)


def _history(run: str, path: Path) -> tuple[AlertLine, ...]:
    """The latest changes, newest first."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _HISTORY_BYTES))
            lines = file.read().splitlines()[size > _HISTORY_BYTES:]
    except FileNotFoundError:
        return ()
    found = []
    for line in reversed(lines):
        try:
            change = msgspec.json.decode(line, type=Change)
        except msgspec.MsgspecError:  # half a line: its writer died, or writes it now
            continue
        found.append(_line(run, change.alert, change.turn.value, change.at_unix_seconds, change.silenced))
    return tuple(found[:200])


def _sandboxes(snapshot: Snapshot) -> dict[str, float]:
    if not any(one.metric == "quintain_sandboxes" for one in snapshot.series):
        return {}
    states = {state: snapshot.value("quintain_sandboxes", state=state) for state in ("starting", "in_use", "closing")}
    return {**states, "leaked": snapshot.value("quintain_sandboxes_leaked")}


class Replaying:
    """By `quintain replay`, in a process of its own, which is ended when it takes too long."""

    async def replay(self, run: Path, episode: str, step: int) -> str:
        words = (sys.executable, "-m", "quintain", "replay", "--run", str(run), "--step", str(step), "--", episode)
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        try:
            async with asyncio.timeout(REPLAY_SECONDS):
                told, _ = await process.communicate()
        except TimeoutError:
            raise Declined(f"the replay was given up after {REPLAY_SECONDS:.0f} s") from None
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        return told[:_TOLD_BYTES].decode("utf-8", "replace")
