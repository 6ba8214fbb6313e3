"""The live view of a run: how fast, how many, how good, and how long still."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from quintain.cli.output import console, one_line
from quintain.cli.tally import Counts, Tally
from quintain.store import Standing, last_attempt, standing
from quintain.types import Broke, Built, Closed, Event, Opened, Ran, Said, Sampled, fold

if TYPE_CHECKING:
    from rich.table import Table

#: Episodes per second are measured over this long.
WINDOW_SECONDS = 20.0
#: Where nobody can watch a screen, a line is written this often.
LINE_SECONDS = 10.0
FRAMES_PER_SECOND = 4


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One glance at a run. `eta_seconds` is `None` while nothing can be said; `trouble` is the latest failure that was
    not the policy's."""

    total: int
    running: int
    counts: Counts
    per_second: float
    eta_seconds: float | None
    elapsed_seconds: float
    trouble: str | None


class Pulse:
    """Turns the stream of events into a view. Pure but for the clock that it is handed: every call says what time it
    is, in seconds on any monotonic clock."""

    def __init__(self, total: int, *, now: float) -> None:
        self._total = total
        self._began = now
        self._tally = Tally()
        self._open: dict[str, list[Event]] = {}
        self._past: dict[str, list[Event]] = {}
        self.trouble: str | None = None
        self._closed_at: deque[float] = deque()

    def known(self, log: Sequence[Event]) -> None:
        """An episode from before this run went on: a finished one counts, and says nothing of the speed."""
        if log and standing(log) is Standing.FINISHED:
            self._tally.add(fold(log))
        elif log:
            self._past[log[0].episode] = _lean(last_attempt(log))

    def event(self, event: Event, *, now: float) -> None:
        """Take one event in."""
        if isinstance(event, Opened):
            self._tally.forget(event.episode)
            self._open[event.episode] = []
        log = self._open.setdefault(event.episode, self._past.pop(event.episode, []))
        log += _lean((event,))
        if isinstance(event, Broke):
            self.trouble = f"{event.episode}: {event.fault}"
        if isinstance(event, Closed):
            self._tally.add(fold(self._open.pop(event.episode)))
            self._closed_at.append(now)

    def counts(self) -> Counts:
        return self._tally.counts()

    def view(self, *, now: float) -> View:
        """What can be said now."""
        while self._closed_at and self._closed_at[0] < now - WINDOW_SECONDS:
            self._closed_at.popleft()
        counts = self.counts()
        span = min(WINDOW_SECONDS, now - self._began)
        speed = len(self._closed_at) / span if span > 0 else 0.0
        left = max(0, self._total - counts.episodes)
        return View(
            total=self._total, running=len(self._open), counts=counts, per_second=speed,
            eta_seconds=left / speed if speed > 0 else None, elapsed_seconds=now - self._began, trouble=self.trouble,
        )


def _lean(log: Sequence[Event]) -> list[Event]:
    """Without what is large: the sum does not need it."""
    return [event for event in log if not isinstance(event, Sampled | Built | Ran | Said)]


def line(view: View) -> str:
    """The view in one line of text."""
    counts = view.counts
    faults = " ".join(f"{owner}={count}" for owner, count in counts.faults.items())
    reward = "—" if counts.reward is None else f"{counts.reward:+.3f}"
    return (
        f"{counts.episodes}/{view.total} episodes, {view.per_second:.1f}/s, {view.running} running, "
        f"{counts.solved} solved, faults {faults}, reward {reward}, {clock(view.elapsed_seconds)} gone, "
        f"{'?' if view.eta_seconds is None else clock(view.eta_seconds)} to go"
        f"{'; trouble: ' + one_line(view.trouble, 200) if view.trouble else ''}"
    )


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Screen:
    """Shows a pulse: a bar that redraws itself on a terminal, a line now and then elsewhere. Use in a `with`; call
    `beat` as often as you like, it draws no more than a few times a second; where nothing happens it beats by itself.
    Use it where a loop runs. Always on stderr: stdout is for results."""

    def __init__(self, pulse: Pulse, *, title: str) -> None:
        self._pulse = pulse
        self._title = title
        self._console = console(to_stderr=True)
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def __enter__(self) -> Screen:
        from rich.live import Live

        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._is_terminal else None
        if self._live:
            self._live.start()
        self._next = time.monotonic() + (0.0 if self._live else LINE_SECONDS)
        self._tick()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._live:
            self._live.stop()

    def _tick(self) -> None:
        self.beat()
        self._timer = asyncio.get_running_loop().call_later(1 / FRAMES_PER_SECOND, self._tick)

    def beat(self) -> None:
        """Draw, when it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        view = self._pulse.view(now=now)
        if self._live:
            self._live.update(picture(view, self._title), refresh=True)
        else:
            self._console.print(line(view), markup=False, soft_wrap=True)
        self._next = now + (1 / FRAMES_PER_SECOND if self._live else LINE_SECONDS)


def picture(view: View, title: str) -> Table:
    """The view for a terminal."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    counts = view.counts
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        Text(title, style="bold"), ProgressBar(total=max(1, view.total), completed=counts.episodes, width=40),
        Text(f"{counts.episodes}/{view.total}"),
    )
    eta = "?" if view.eta_seconds is None else clock(view.eta_seconds)
    faults = ", ".join(f"{owner} {count}" for owner, count in counts.faults.items())
    reward = "none yet" if counts.reward is None else f"{counts.reward:+.3f}"
    grid.add_row(
        Text(f"{view.per_second:.1f} episodes/s", style="cyan"),
        Text(f"running {view.running}   solved {counts.solved}   reward {reward}   faults: {faults}"),
        Text(f"{clock(view.elapsed_seconds)} gone, {eta} to go"),
    )
    if view.trouble:
        grid.add_row(Text("trouble", style="red"), Text(one_line(view.trouble, 200)), Text(""))
    return grid
