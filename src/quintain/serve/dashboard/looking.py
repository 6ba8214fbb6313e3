"""The runs of a folder as they grow: each is folded once, and afterwards only what is new is read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from quintain.serve.dashboard.fold import Fold, Known
from quintain.serve.dashboard.glance import overview, summed
from quintain.serve.dashboard.training import TRAINING_FILES, Curves
from quintain.serve.dashboard.views import (
    Alarms,
    AlarmsView,
    EpisodeLine,
    EpisodePage,
    Overview,
    Pace,
    RunLine,
    Standings,
    TaskPage,
    TaskStanding,
)
from quintain.store import Definition, Result, Tail
from quintain.types import Event, FaultKind, HouseError

_T = TypeVar("_T")

#: A run without a result whose files changed within this time is live, whoever writes it.
LIVE_SECONDS = 60.0
#: Folds of so many runs are held; the one that was looked at longest ago is forgotten first.
MOST_HELD = 24
#: Of a list of runs so many without a result are folded; older ones are listed without numbers.
MOST_COUNTED = 12


class _Held:
    """One run: its tail, its fold, and what was made of them until something changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mutex = threading.Lock()
        self.tail = Tail(path)
        self.fold = Fold()
        self.looked = 0.0
        self.made: tuple[tuple[int, Pace], Overview] | None = None

    def refresh(self, max_age_seconds: float) -> None:
        now = time.monotonic()
        if now - self.looked >= max_age_seconds:
            self.looked = now
            for event in self.tail.fresh():
                self.fold.feed(event)

    def at_a_glance(self, line: RunLine, max_age_seconds: float) -> Overview:
        """Call it with the mutex held."""
        self.refresh(max_age_seconds)
        key = (self.fold.count, line.pace)
        if self.made is None or self.made[0] != key:
            self.made = key, overview(self.fold.sums, summed(self.fold.sums, line))
        return self.made[1]


class Looking:
    """What the runs in `runs` have come to. Everything here reads files: call it off the event loop; any number of
    threads may. Raises HouseError(STORE_ERROR) for a run that is not there or cannot be read."""

    def __init__(self, runs: Path, *, alarms: Alarms | None = None, standings: Standings | None = None,
                 max_age_seconds: float = 0.25) -> None:
        self.runs = runs
        self._alarms = alarms
        self._standings = standings
        self._max_age_seconds = max_age_seconds
        self._mutex = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._curves: dict[str, Curves] = {}

    def paths(self) -> dict[str, Path]:
        """Run folders and folders of trainings by their names, the newest first."""
        if not self.runs.is_dir():
            return {}
        known = [path for path in self.runs.iterdir() if not path.name.startswith(".") and _is_run(path)]
        return {path.name: path for path in sorted(known, key=_created, reverse=True)}

    def lines(self) -> tuple[RunLine, ...]:
        """All runs, the newest first."""
        found, counted = [], 0
        for path in self.paths().values():
            line = _line(path)
            if line.episodes is None and not line.is_training and counted < MOST_COUNTED:
                counted += 1
                line = self._glance(path, line).line
            found.append(line)
        return tuple(found)

    def overview(self, name: str) -> Overview:
        path = self._path(name)
        line = _line(path)
        alarms, curves = self.alarms(name), self._curves_of(path).lines()
        made = Overview(line=line, states={}, owners={}) if line.is_training else self._glance(path, line)
        return msgspec.structs.replace(
            made, sandboxes=alarms.sandboxes, numbers=alarms.numbers, curves=curves,
            alerts=sum(one.turn == "firing" for one in alarms.on))

    def page(
        self, name: str, lets: Sequence[Callable[[Known], bool]], order: Callable[[Known], float | str | int], *,
        falling: bool, offset: int, limit: int,
    ) -> EpisodePage:
        """`limit` of the episodes that all `lets` let through, from the `offset`-th in their order on; equal ones come
        in the order in which they began. With all kinds, faults and detectors that there are."""
        held = self._hold(self._path(name))
        with held.mutex:
            held.refresh(self._max_age_seconds)
            known: Iterable[Known] = held.fold.episodes.values()
            for let in lets:
                known = filter(let, known)
            found = sorted(known, key=order, reverse=falling)
            sums = held.fold.sums
            return EpisodePage(
                run=name, total=len(found), episodes=tuple(one.line for one in found[offset:offset + limit]),
                kinds=tuple(sorted(sums.kinds)), faults=tuple(sorted(sums.faults)), flags=tuple(sorted(sums.flags)))

    def episode(self, name: str, episode: str) -> EpisodeLine | None:
        held = self._hold(self._path(name))
        with held.mutex:
            held.refresh(self._max_age_seconds)
            known = held.fold.episodes.get(episode)
            return known.line if known is not None else None

    def events(self, name: str, episode: str) -> tuple[Event, ...]:
        """Every event of an episode, whole. Raises HouseError(STORE_ERROR) where there is none."""
        held = self._hold(self._path(name))
        with held.mutex:
            held.refresh(self._max_age_seconds)
            found = held.tail.events(episode)
        if not found:
            raise HouseError(FaultKind.STORE_ERROR, f"run {name} has no episode {episode!r}")
        return found

    def tasks(self, name: str) -> TaskPage:
        path = self._path(name)
        ledger = _ledger(path)
        standings: Mapping[str, TaskStanding] = {}
        if ledger is not None and self._standings is not None:
            standings = self._standings(ledger)
        shown = str(ledger) if ledger is not None and self._standings is not None else None
        held = self._hold(path)
        with held.mutex:
            held.refresh(self._max_age_seconds)
            return TaskPage(run=name, ledger=shown, tasks=held.fold.sums.tasks(standings))

    def alarms(self, name: str) -> AlarmsView:
        """Nothing where nobody watches the run."""
        return self._alarms.of(self._path(name)) if self._alarms is not None else AlarmsView()

    def path(self, name: str) -> Path:
        """Where a run lies."""
        return self._path(name)

    def _glance(self, path: Path, line: RunLine) -> Overview:
        held = self._hold(path)
        with held.mutex:
            made = held.at_a_glance(line, self._max_age_seconds)
            return msgspec.structs.replace(made, damaged=held.tail.damaged)

    def _path(self, name: str) -> Path:
        path = self.runs / name
        if not name or "/" in name or name.startswith(".") or "\0" in name or not _is_run(path):
            raise HouseError(FaultKind.STORE_ERROR, f"{self.runs} has no run {name[:100]!r}")
        return path

    def _hold(self, path: Path) -> _Held:
        with self._mutex:
            held = self._held.pop(path.name, None) or _Held(path)
            self._held[path.name] = held  # the latest stands last
            while len(self._held) > MOST_HELD:
                del self._held[next(iter(self._held))]
            return held

    def _curves_of(self, path: Path) -> Curves:
        with self._mutex:
            return self._curves.setdefault(path.name, Curves(path))


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in ("run.json", *TRAINING_FILES))


def _created(path: Path) -> float:
    asked = _definition(path)
    if asked is not None and asked.created_unix_seconds:
        return asked.created_unix_seconds
    return max((path / name).stat().st_mtime for name in ("run.json", *TRAINING_FILES) if (path / name).is_file())


def _definition(path: Path) -> Definition | None:
    return _read(path / "run.json", Definition)


def _line(path: Path) -> RunLine:
    asked, came = _definition(path), _read(path / "result.json", Result)
    if asked is None:
        return RunLine(name=path.name, pace=_pace(path, ended=(path / "curve.html").exists()), is_training=True,
                       taskset="", policy="", created_unix_seconds=_created(path))
    line = RunLine(name=path.name, pace=_pace(path, ended=came is not None), taskset=asked.taskset,
                   policy=asked.policy, created_unix_seconds=asked.created_unix_seconds)
    if came is None or line.pace is Pace.LIVE:
        return line
    return msgspec.structs.replace(line, episodes=came.episodes, open=0, solved=came.solved, faults=came.faults,
                                   reward=came.reward, seconds=came.seconds)


def _pace(path: Path, *, ended: bool) -> Pace:
    """A run that goes on again has its old result still: its writer is what tells."""
    if _is_written(path / "journal.jsonl.pid"):
        return Pace.LIVE
    if ended:
        return Pace.ENDED
    latest = max((_changed(path / name) for name in ("journal.jsonl", "metrics.jsonl")), default=0.0)
    return Pace.LIVE if time.time() - latest < LIVE_SECONDS else Pace.INTERRUPTED


def _changed(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def _is_written(note: Path) -> bool:
    """Whether the process that wrote the journal last is there and holds it open; where that cannot be seen, whether
    the journal is young."""
    try:
        pid = int(note.read_text())
        journal = note.with_suffix("").stat().st_mtime
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    try:
        return str(note.parent.resolve()) in _open_files(pid)
    except OSError:
        return time.time() - journal < LIVE_SECONDS


def _open_files(pid: int) -> set[str]:
    """The folders of the files that a process holds open. Raises OSError where that is not ours to see."""
    with os.scandir(f"/proc/{pid}/fd") as found:
        return {os.path.dirname(os.readlink(entry.path)) for entry in found}


def _ledger(path: Path) -> Path | None:
    """The health ledger of a run: the one that it was given, or one that lies in it or beside it."""
    asked = _definition(path)
    named = [Path(asked.options["health"])] if asked is not None and "health" in asked.options else []
    found = [*named, path / "health.jsonl", path.parent / "health.jsonl"]
    return next((one for one in found if one.is_file()), None)


#: What was read of small files, by path and kind: with the stamp of the file that it was read from.
_READ: dict[tuple[Path, type], tuple[tuple[int, int, int], object]] = {}
_MOST_READ = 4096


def _read(path: Path, kind: type[_T]) -> _T | None:
    """`None` for what is not there, or not whole yet. What has not changed is not read again."""
    try:
        found = path.stat()
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = _READ.get((path, kind))
        if known is not None and known[0] == stamp and isinstance(known[1], kind):
            return known[1]
        value = msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
    if len(_READ) >= _MOST_READ:
        _READ.clear()
    _READ[path, kind] = stamp, value
    return value
