"""How much at once is wise: a limit that grows while all goes well and shrinks when it does not. Pure.

Additive increase, multiplicative decrease (Chiu and Jain 1989), on what is observed: the latency of steps against the
best that was seen, pressure (of CPU, memory or I/O, as a share of time that something waited for it: the kernel's PSI,
say), and failures of the house. One decision a window; after a shrinking the next window only watches, because what
ends in it was begun before. The limit grows only while it is used: one that nothing pushes against tells nothing.
"""

from __future__ import annotations

import statistics

import msgspec

_SAMPLES = 1024  # of one window; more say no more


class Pacing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By what a limit moves. `slack` is how many times the best median latency is still well, `pressure` the share of
    time above which it is not. A shrinking leaves `cut` of the limit, or less (down to `cut` squared) where latency
    says that the plant is that far behind. `forget` is by how much the best median rises with each shrinking, so that
    a plant that has become slower for good is believed after a few; what the smaller limit shows corrects it."""

    least: int = 1
    most: int = 100_000
    step: int = 1
    cut: float = 0.65
    slack: float = 1.5
    pressure: float = 0.8
    window_seconds: float = 5.0
    forget: float = 0.25

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"expected 1 <= least <= most, found least {self.least} and most {self.most}")
        if self.step < 1:
            raise ValueError(f"step must be at least 1, found {self.step}")
        if not 0.0 < self.cut < 1.0:
            raise ValueError(f"cut must be between 0 and 1, found {self.cut!r}")
        if not self.slack > 1.0:
            raise ValueError(f"slack must be greater than 1, found {self.slack!r}")
        if not self.window_seconds > 0.0:
            raise ValueError(f"window_seconds must be greater than 0, found {self.window_seconds!r}")


class Pace:
    """One limit: `limit` is how much may run at once. Until it shrinks for the first time it doubles (slow start)."""

    def __init__(self, pacing: Pacing | None = None, *, start: int | None = None) -> None:
        self.pacing = pacing or Pacing()
        start = self.pacing.least if start is None else start
        if not self.pacing.least <= start <= self.pacing.most:
            raise ValueError(f"start must be from {self.pacing.least} to {self.pacing.most}, found {start}")
        self.limit = start
        self._best: float | None = None
        self._doubling = True
        self._watching = False
        self._ends: float | None = None
        self._latencies: list[float] = []
        self._most_running = 0
        self._pressure = 0.0
        self._failed = False

    def step(self, seconds: float, *, at: float, running: int) -> int:
        """A step took so long, with so many running. The limit from now on."""
        self._turn(at)
        if len(self._latencies) < _SAMPLES:
            self._latencies.append(seconds)
        self._most_running = max(self._most_running, running)
        return self.limit

    def press(self, pressure: float, *, at: float) -> int:
        """Something was waited for during this share of the time, in [0, 1]."""
        self._turn(at)
        self._pressure = max(self._pressure, pressure)
        return self.limit

    def fail(self, *, at: float) -> int:
        """The house failed at something: a sandbox did not open, a server refused."""
        self._turn(at)
        self._failed = True
        return self.limit

    def _turn(self, at: float) -> None:
        if self._ends is None:
            self._ends = at + self.pacing.window_seconds
        elif at >= self._ends:
            self._judge()
            self._ends = at + self.pacing.window_seconds

    def _judge(self) -> None:
        pacing = self.pacing
        median = statistics.median(self._latencies) if self._latencies else None
        slow = median is not None and self._best is not None and median > pacing.slack * self._best
        if self._watching:
            self._watching = False
        elif slow or self._failed or self._pressure > pacing.pressure:
            self._shrink(median)
        elif median is not None and self._most_running >= 0.8 * self.limit:
            more = self.limit if self._doubling else pacing.step
            self.limit = min(pacing.most, self.limit + more)
        if median is not None:
            self._best = median if self._best is None else min(self._best, median)
        self._latencies = []
        self._most_running = 0
        self._pressure = 0.0
        self._failed = False

    def _shrink(self, median: float | None) -> None:
        """To below where latency begins to grow, so that the best is measured anew and does not creep up with the
        limit: by Little's law that is where the limit is `best / median` of what it is."""
        cut = self.pacing.cut
        if median is not None and self._best is not None:
            cut = max(cut * cut, min(cut, 0.75 * self._best / median))
            self._best *= 1.0 + self.pacing.forget
        self.limit = max(self.pacing.least, int(self.limit * cut))
        self._doubling = False
        self._watching = True
