"""What the dashboard is shown, from the rooms that know: the review queue, the ledger of tasks, the watch, replays."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path

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
    TaskStanding,
)
from quintain.watch import Alert, Change, Gate, alerts_on, folder_of, last_snapshot, silences

#: A replay is given up after this.
REPLAY_SECONDS = 300.0
_TOLD_BYTES = 200_000
_HISTORY_BYTES = 256 * 1024


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
    """What the watch of a run has written down; nothing where there is none."""

    def of(self, run: Path) -> AlarmsView:
        folder = folder_of(run)
        if not folder.is_dir():
            return AlarmsView()
        now, quiet = time.time(), silences(folder)
        on = tuple(_line(run.name, alert, alert.state.value, alert.since_unix_seconds,
                         any(one.covers(alert, now) for one in quiet)) for alert in alerts_on(folder))
        holds = tuple(HoldLine(
            run=run.name, scope=hold.scope.value, key=hold.key, reason=hold.reason, by=hold.by, state=hold.state.value,
            since_unix_seconds=hold.since_unix_seconds,
            undo=shlex.join(("quintain", "alerts", "release", str(run), f"{hold.scope.value}:{hold.key}")),
        ) for hold in Gate(folder / "gate.json").holds)
        return AlarmsView(on=on, holds=holds, history=_history(run.name, folder / "alerts.jsonl"),
                          sandboxes=_sandboxes(folder))


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


def _sandboxes(folder: Path) -> dict[str, float]:
    snapshot = last_snapshot(folder)
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
