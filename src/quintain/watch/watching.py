"""The watch of one run: it meters its events, looks at the meters now and then, and does what its rules say."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from quintain.types import Event, HouseError
from quintain.watch.alerts import Alert, Alerts, Change, Silence, Turn
from quintain.watch.beats import SILENT_SECONDS, Heard
from quintain.watch.blame import Blame
from quintain.watch.episodes import Attempted, EpisodeMeters
from quintain.watch.exposition import exposition
from quintain.watch.files import alone, read_file, stamp_of, write_file
from quintain.watch.gate import Gate, Scope
from quintain.watch.history import History
from quintain.watch.host import HostMeters
from quintain.watch.lines import Lines
from quintain.watch.losses import Losses, Played
from quintain.watch.meters import Merged, Meters, Snapshot
from quintain.watch.notify import Notifier
from quintain.watch.recording import Recorder
from quintain.watch.rules import Action, Rules
from quintain.watch.trace import Tracer

_log = logging.getLogger(__name__)

#: The folder of the watch in the folder of a run, and what is in it.
FOLDER = "watch"
GATE, ALERTS, SILENCES, CHANGES = "gate.json", "alerts.json", "silences.json", "alerts.jsonl"
RECORDING, TRACES, METRICS_FILE = "recording.jsonl", "traces.jsonl", "metrics.json"
LOOK_SECONDS = 5.0

#: Asked before each look: brings gauges up to date that others keep.
Source = Callable[[Meters], Awaitable[None]]
#: The image of a task, by its id.
ImageOf = Callable[[str], str]


def folder_of(run: Path) -> Path:
    return run / FOLDER


class Watch:
    """Give it each event, and let `keep_looking` run beside. It holds what breakers and alerts have stopped in `gate`,
    which whoever begins something asks. Everything it keeps lies in `folder`, and is bounded."""

    def __init__(
        self, folder: Path, run: str, rules: Rules, *, meters: Meters | None = None, notifier: Notifier | None = None,
        sources: Sequence[Source] = (), image_of: ImageOf = lambda task: "", gate: Gate | None = None,
        records: bool = True, look_seconds: float = LOOK_SECONDS, ticks: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.run = run
        self.meters = meters or Meters()
        self.gate = gate or Gate(folder / GATE)
        self._notifier = notifier
        self._sources = list(sources)
        self._image_of = image_of
        self._look_seconds = look_seconds
        self._ticks = ticks
        self._clock = clock
        self._episodes = EpisodeMeters(self.meters)
        self._blame = Blame(lambda scope, key: self.gate.hold(scope, key) is not None)
        self._losses = Losses(ticks)
        self._tracer = Tracer(run)
        self._heard = Heard(folder, ticks=ticks)
        self._merged = Merged()
        self._host = HostMeters(self.meters, folder)
        self._history = History(keep_seconds=max(300.0, rules.longest_window))
        self._alerts = Alerts(rules.rules, known=read_file(folder / ALERTS, tuple[Alert, ...], ()))
        self._silences: tuple[Silence, ...] = ()
        self._silences_stamp: tuple[int, int, int] | None = (-1, -1, -1)
        self._traces = Lines(folder / TRACES)
        self._changes = Lines(folder / CHANGES, bytes_each=4 * 1024 * 1024, files=2)
        self._recording = Lines(folder / RECORDING, files=2) if records else None
        self._recorder = Recorder()
        self._dropped = 0
        self._shown = Snapshot()

    def event(self, event: Event, *, counts: bool = True) -> None:
        """Take in one event. Its results go to the breakers unless they come by beats (`counts=False`)."""
        result = self._episodes.feed(event)
        for span in self._tracer.feed(event):
            self._traces.write(msgspec.json.encode(span) + b"\n")
        if result is not None and counts:
            self._saw(result)

    def timed(self, append: Callable[[Event], None]) -> Callable[[Event], None]:
        """The same, with its time metered."""

        def keep(event: Event) -> None:
            began = self._ticks()
            append(event)
            self.meters.observe("quintain_store_append_seconds", self._ticks() - began)

        return keep

    @contextmanager
    def seeing(self, source: Source) -> Iterator[None]:
        """While the block runs, this is read before each look."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    async def keep_looking(self) -> None:
        """For ever: look; and between, hear what workers tell, and see how late the event loop is."""
        while True:
            await self.look()
            for _ in range(5):
                pause = self._look_seconds / 5
                asked = self._ticks()
                await asyncio.sleep(pause)
                self.meters.observe("quintain_loop_lag_seconds", max(0.0, self._ticks() - asked - pause))
                self._listen()

    async def look(self) -> tuple[Change, ...]:
        """Once: read the sources, evaluate the rules, act, and write down how things stand. What the disk refuses is
        told in the log, and tried again the next time."""
        for source in self._sources:
            try:
                await source(self.meters)
            except HouseError as error:
                _log.warning("a part of the watch sees nothing: %s", error)
        self._listen()
        self._silent()
        try:
            self.gate.look()
        except HouseError as error:
            _log.warning("%s", error)
        self._own()
        self._host.read()
        now = self._clock()
        snapshot = self._merged.of(self._heard.parts, self.meters.snapshot())
        at = self._history.add(self._ticks(), snapshot)
        changes = self._alerts.look(self._history, at_seconds=at, now_unix_seconds=now, silences=self._read_silences())
        self._shown = snapshot
        for change in changes:
            self._act(change)
        self._keep(now, snapshot)
        return changes

    def text(self) -> str:
        """For `/metrics`: everything, this process as it is now and others as last heard."""
        return exposition(self._merged.of(self._heard.parts, self.meters.snapshot()))

    @property
    def snapshot(self) -> Snapshot:
        """As of the last look."""
        return self._shown

    @property
    def alerts(self) -> tuple[Alert, ...]:
        return self._alerts.on

    async def close(self) -> None:
        """Look once more, and let go of the files."""
        self._listen()
        self._settle(all_of_them=True)
        await self.look()
        if self._notifier is not None:
            await self._notifier.flush()
        try:
            self.gate.save()
        except HouseError as error:
            _log.warning("%s", error)
        for lines in (self._traces, self._changes, self._recording):
            if lines is not None:
                lines.close()

    def _saw(self, result: Attempted, *, worker: str = "", host: str = "") -> None:
        if result.crashed is None:
            return
        if worker:
            self.meters.add("quintain_worker_attempts_total", host=host, worker=worker)
            self.meters.add("quintain_worker_crashes_total", float(result.crashed), host=host, worker=worker)
        played = Played(result, self._image_of(result.task), worker, host)
        if result.crashed:
            self._losses.add(played)
        else:
            self._losses.went_well(result.kind)
            for scope, key in tuple(self._blame.of(result, image=played.image, worker=worker, host=host)):
                self._tell(scope, key, result)
        self._settle()

    def _settle(self, *, all_of_them: bool = False) -> None:
        """Tell the breakers of crashes, once it is sure whose they were."""
        for loss in self._losses.settled(all_of_them=all_of_them):
            if loss.is_the_places:
                _log.warning("%d sandboxes were lost at once%s: %s", len(loss.played),
                             f" at {loss.played[0].worker}" if loss.played[0].worker else "",
                             loss.played[0].result.fault)
            for result, (scope, key) in tuple(self._blame.of_loss(loss)):
                self._tell(scope, key, result)

    def _tell(self, scope: Scope, key: str, result: Attempted) -> None:
        try:
            hold = self.gate.saw(scope, key, bool(result.crashed), began_unix_seconds=result.began_unix_seconds,
                                 fault=result.fault)
        except HouseError as error:
            _log.warning("%s", error)
            return
        if hold is not None:
            _log.warning("stopped: %s", hold)

    def _listen(self) -> None:
        try:
            heard = self._heard.listen()
        except HouseError as error:
            _log.warning("workers are not heard of: %s", error)
            return
        for beat, results in heard:
            for result in results:
                self._saw(result, worker=beat.name, host=beat.host)
        self._settle()

    def _silent(self) -> None:
        silent = self._heard.silent()
        self.meters.clear("quintain_worker_silent_seconds")
        self.meters.clear("quintain_workers")
        for (host, name), seconds in silent.items():
            self.meters.set("quintain_worker_silent_seconds", seconds, worker=name)
            self.meters.add("quintain_workers", float(seconds < SILENT_SECONDS), host=host)

    def _own(self) -> None:
        for state in ("pending", "firing"):
            count = sum(alert.state.value == state for alert in self._alerts.on)
            self.meters.set("quintain_alerts", count, state=state)
        self.meters.clear("quintain_breakers")
        for hold in self.gate.holds:
            state = hold.state.value if hold.by == "breaker" else "held"
            self.meters.add("quintain_breakers", 1, scope=hold.scope.value, state=state)
        if self._notifier is not None:
            self.meters.add("quintain_notices_dropped_total", self._notifier.dropped - self._dropped)
            self._dropped = self._notifier.dropped

    def _read_silences(self) -> tuple[Silence, ...]:
        stamp = stamp_of(self.folder / SILENCES)
        if stamp != self._silences_stamp:
            self._silences = read_file(self.folder / SILENCES, tuple[Silence, ...], ())
            self._silences_stamp = stamp
        return self._silences

    def _act(self, change: Change) -> None:
        alert = change.alert
        level = logging.WARNING if change.turn is Turn.FIRED and not change.silenced else logging.INFO
        _log.log(level, "alert %s %s: %s", alert.rule, change.turn.value, alert.text)
        self._changes.write(msgspec.json.encode(change) + b"\n")
        for action in change.actions:
            try:
                self._do(action, change)
            except HouseError as error:
                _log.error("%s could not be done for the alert %s: %s", action.value, alert.rule, error)

    def _do(self, action: Action, change: Change) -> None:
        alert = change.alert
        if action is Action.NOTIFY:
            if self._notifier is not None:
                self._notifier.tell(change)
            return
        scopes = {Action.SUSPEND: [Scope.KIND], Action.PAUSE: [Scope.RUN], Action.DRAIN: [Scope.WORKER, Scope.HOST]}
        for scope in scopes[action]:
            key = self.run if scope is Scope.RUN else alert.labels.get(scope.value, "")
            if key:
                hold = self.gate.stop(scope, key, reason=alert.text, by=f"alert:{alert.rule}")
                _log.warning("stopped: %s", hold)
                return

    def _keep(self, now: float, snapshot: Snapshot) -> None:
        try:
            write_file(self.folder / ALERTS, self._alerts.on)
            write_file(self.folder / METRICS_FILE, snapshot)
        except HouseError as error:
            _log.warning("%s", error)
        if self._recording is not None:
            self._recording.write(self._recorder.line(round(now, 3), snapshot))


def silence(folder: Path, wanted: Silence) -> None:
    """For whatever process watches: it sees it at its next look. Those that are over are forgotten."""
    path = folder / SILENCES
    with alone(path):
        known = read_file(path, tuple[Silence, ...], ())
        now = time.time()
        write_file(path, (*(one for one in known if one.until_unix_seconds > now and one.id != wanted.id), wanted))


def silences(folder: Path) -> tuple[Silence, ...]:
    return read_file(folder / SILENCES, tuple[Silence, ...], ())


def unsilence(folder: Path, id: str) -> bool:
    """Whether there was one of that id."""
    path = folder / SILENCES
    with alone(path):
        known = read_file(path, tuple[Silence, ...], ())
        write_file(path, tuple(one for one in known if one.id != id))
    return any(one.id == id for one in known)


def alerts_on(folder: Path) -> tuple[Alert, ...]:
    """What the process that watches has written down last."""
    return read_file(folder / ALERTS, tuple[Alert, ...], ())


def last_snapshot(folder: Path) -> Snapshot:
    return read_file(folder / METRICS_FILE, Snapshot, Snapshot())
