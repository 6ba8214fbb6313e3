"""The eye on a training that runs: every event goes by, and a task that is not well leaves the schedule at once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from quintain.curate.chart import Chart, Ending, Run, Sighting, added, cleared, with_run
from quintain.curate.ledger import HealthLedger
from quintain.curate.rules import House, Trouble, acquitted, is_proven, questioned, trouble
from quintain.curate.sighting import Watched
from quintain.curate.standing import Standing, State, Why
from quintain.types import Closed, Event, Opened

#: So many of the last attempts of the house tell how it fares.
_HOUSE_WINDOW = 2_000
#: The author's answer that fails so often without a pass between is broken, and not flaky.
_IN_A_ROW = 3


class HealthWatch:
    """Give `watch` and `admits` to a `rollout.Collector`. Everything is decided on the event that decides it; the
    ledger is written only when a task moves, every `tally_every` verdicts of a task, and by `close`.

    A move that another process writes (`quintain tasks suspend`) is seen within `poll_seconds`. `has_oracle` says
    whether there is an author's answer that a suspicion can be put to (`curate.attend` does); `by` names this run.
    """

    def __init__(
        self, ledger: HealthLedger, *, has_oracle: Callable[[str], bool] = lambda task: False, by: str = "",
        poll_seconds: float = 1.0, tally_every: int = 200, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._has_oracle = has_oracle
        self._by = by
        self._poll_seconds = poll_seconds
        self._tally_every = tally_every
        self._clock = clock
        self._polled = clock()
        self._open: dict[str, Watched] = {}
        self._charts: dict[str, Chart] = {}
        self._of: dict[str, Standing] = {}  # the standing that each chart continues
        self._lately: deque[tuple[str, bool]] = deque(maxlen=_HOUSE_WINDOW)
        self._made: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._all_broken = 0
        self._failing: Counter[str] = Counter()

    def admits(self, task: str) -> bool:
        """Whether a task is drawn, and its rewards count, at this moment."""
        self._poll()
        standing = self._ledger.standings.get(task)
        return standing is not None and standing.state.is_drawn

    def watch(self, event: Event) -> None:
        """Take in one event of the run, in its order."""
        if isinstance(event, Opened):
            self._open[event.episode] = Watched(event)
            return
        watched = self._open.get(event.episode)
        if watched is None:
            return
        watched.feed(event)
        if isinstance(event, Closed):
            del self._open[event.episode]
            self.see(watched.sighting)

    def see(self, sighting: Sighting) -> None:
        """Take in what one attempt says of its task, and move the task if that is due. What comes of a task that is
        not drawn any more, or of another version of it, is not counted."""
        standing = self._standing(sighting.task, sighting.version)
        if standing is None:
            return
        self._count(sighting)
        self._charts[sighting.task] = added(self._charts[sighting.task], sighting)
        self._decide(standing)

    def saw_control(self, task: str, version: str, run: Run) -> None:
        """Take in a run of the suite on the author's own answer."""
        standing = self._standing(task, version)
        if standing is None:
            return
        chart = with_run(self._charts[task], msgspec.structs.replace(run, answer=""))
        self._charts[task] = cleared(chart, acquitted(chart, self._ledger.bounds))
        self._failing[task] = self._failing[task] + 1 if run.failed else 0
        if self._failing[task] >= _IN_A_ROW:
            told = f"the author's answer failed {_IN_A_ROW} times without a pass between: {', '.join(run.failed)}"
            self._suspend(task, Trouble(why=Why.ORACLE_FAILED, tests=run.failed, evidence=told))
        else:
            self._decide(standing)

    def questioned(self) -> dict[str, tuple[str, ...]]:
        """The tasks whose author's answer should be asked now, with the tests that are in doubt."""
        found = {}
        for task in sorted(self._charts):
            chart = self._charts[task]
            standing = self._ledger.standings.get(task)
            if chart.failures and standing is not None and standing.state.is_drawn and self._has_oracle(task):
                tests = questioned(chart, self._ledger.bounds)
                if tests:
                    found[task] = tests
        return found

    def chart(self, task: str) -> Chart:
        """What has been seen of a task, this run included."""
        if task in self._charts:
            return self._charts[task]
        standing = self._ledger.standings.get(task)
        return standing.chart if standing is not None else Chart()

    def close(self) -> None:
        """Keep what was seen of the tasks that are still drawn."""
        drawn = {t: c for t, c in self._charts.items() if self._ledger.standings[t].state.is_drawn}
        self._ledger.tally(drawn)

    def _standing(self, task: str, version: str) -> Standing | None:
        """The standing of a task that is drawn in this version, with a chart that continues it."""
        self._poll()
        standing = self._ledger.standings.get(task)
        if standing is None or standing.version != version or not standing.state.is_drawn:
            return None
        last = self._of.get(task)
        if last is None or (last.version, len(last.moves)) != (standing.version, len(standing.moves)):
            proven = last is not None and last.version == version and standing.moves[-1].why is Why.PROVEN
            if not proven:  # new here, or come back: nothing of before counts
                self._charts[task] = standing.chart
                self._failing[task] = 0
            self._of[task] = standing
        return standing

    def _decide(self, standing: Standing) -> None:
        task, bounds = standing.task, self._ledger.bounds
        chart = self._charts[task]
        found = trouble(chart, bounds, house=self._house(task), has_oracle=self._has_oracle(task))
        if found is not None:
            self._suspend(task, found)
        elif is_proven(msgspec.structs.replace(standing, chart=chart), bounds):
            self._ledger.prove(task, chart)
        elif chart.verdicts and chart.verdicts % self._tally_every == 0 and chart.verdicts != standing.chart.verdicts:
            self._ledger.tally({task: chart})

    def _suspend(self, task: str, found: Trouble) -> None:
        self._ledger.suspend(task, found, chart=self._charts[task], by=self._by)

    def _count(self, sighting: Sighting) -> None:
        if sighting.ending is Ending.NOBODYS:
            return
        if len(self._lately) == self._lately.maxlen:
            task, broken = self._lately[0]
            self._made[task] -= 1
            self._broken[task] -= broken
            self._all_broken -= broken
        broken = sighting.ending is Ending.INFRASTRUCTURE
        self._lately.append((sighting.task, broken))
        self._made[sighting.task] += 1
        self._broken[sighting.task] += broken
        self._all_broken += broken

    def _house(self, task: str) -> House:
        return House(
            attempts=len(self._lately) - self._made[task], broken=self._all_broken - self._broken[task],
        )

    def _poll(self) -> None:
        now = self._clock()
        if now - self._polled >= self._poll_seconds:
            self._polled = now
            self._ledger.refresh()


def weight_of(standing: Standing) -> float:
    """How much of its weight a task is drawn with: all when active, a quarter on probation, nothing otherwise."""
    return {State.ACTIVE: 1.0, State.PROBATION: 0.25}.get(standing.state, 0.0)
