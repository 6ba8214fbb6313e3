"""The health ledger on the disk: an append-only file of who moved where, when and why, that many processes share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from quintain.curate.chart import Chart
from quintain.curate.rules import Bounds, Trouble
from quintain.curate.standing import NEXT, Checked, Moved, Named, Record, Standing, State, Tallied, Why, advance, fold
from quintain.store import Ledger
from quintain.types import FaultKind, HouseError, Task, TaskError

#: The ledger's name in the folder of a run.
HEALTH_FILE = "health.jsonl"


class HealthLedger:
    """The standings of tasks in `path`. What others have written is seen by `refresh` and before every own move, which
    is decided and written under one lock: two processes never move a task by two minds.

    Raises HouseError(STORE_ERROR) for a file that is damaged or that no ledger can be. `clock` gives Unix seconds.
    """

    def __init__(self, path: Path, *, bounds: Bounds | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.bounds = bounds or Bounds()
        self._clock = clock
        self._ledger: Ledger[Record] = Ledger(path, Record)  # type: ignore[arg-type]  # a union is no type to mypy
        self._size = -1
        self._standings: Mapping[str, Standing] = {}
        self.refresh()

    @property
    def standings(self) -> Mapping[str, Standing]:
        """Every known task by its id, as of the last `refresh` or move."""
        return self._standings

    def refresh(self) -> bool:
        """Take in what other processes have written; whether there was anything."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size == self._size:
            return False
        self._standings = self._folded(self._ledger.read())
        self._size = size
        return True

    def name(self, tasks: Iterable[Task]) -> tuple[str, ...]:
        """Make tasks candidates that are not known, or known by another version; the answer lists their ids."""
        wanted = {task.id: task.version for task in tasks}

        def decide(known: Mapping[str, Standing]) -> Sequence[Record]:
            return [
                Named(task=id, version=version, at_unix_seconds=self._clock()) for id, version in wanted.items()
                if id not in known or known[id].version != version
            ]

        return tuple(record.task for record in self._change(decide))

    def admit(self, tasks: Iterable[Task], *, evidence: str, by: str = "") -> tuple[str, ...]:
        """Name tasks and let the candidates among them go on probation; the answer lists the ids of those."""
        tasks = list(tasks)
        self.name(tasks)
        ids = {task.id for task in tasks}

        def decide(known: Mapping[str, Standing]) -> Sequence[Record]:
            return [
                self._moved(known[id], State.PROBATION, Why.ADMITTED, evidence, by=by) for id in sorted(ids)
                if known[id].state is State.CANDIDATE
            ]

        return tuple(record.task for record in self._change(decide))

    def move(self, task: str, to: State, why: Why, *, evidence: str = "", by: str = "") -> Standing:
        """Move a task. Raises TaskError for one that is not known or may not go there from where it is."""

        def decide(known: Mapping[str, Standing]) -> Sequence[Record]:
            if task not in known:
                raise TaskError(f"{self.path} knows no task {task!r}; it knows {len(known)}")
            standing = known[task]
            if to not in NEXT[standing.state]:
                allowed = ", ".join(sorted(NEXT[standing.state])) or "nowhere: mend it as another version"
                raise TaskError(f"task {task} is in the state {standing.state.value} and can go to {allowed}, found "
                                f"{to.value}")
            return [self._moved(standing, to, why, evidence, by=by)]

        self._change(decide)
        return self._standings[task]

    def prove(self, task: str, chart: Chart) -> None:
        """From probation to active, with what was seen of it; nothing where it is not on probation any more."""

        def decide(known: Mapping[str, Standing]) -> Sequence[Record]:
            standing = known.get(task)
            if standing is None or standing.state is not State.PROBATION:
                return []
            evidence = f"{chart.verdicts} verdicts and nothing wrong"
            return [self._tallied(standing, chart), self._moved(standing, State.ACTIVE, Why.PROVEN, evidence)]

        self._change(decide)

    def suspend(self, task: str, trouble: Trouble, *, chart: Chart | None = None, by: str = "") -> bool:
        """Suspend a task for what is wrong with it, and retire it when that is once too often. False, and nothing is
        written, where it is not drawn any more: somebody was faster."""

        def decide(known: Mapping[str, Standing]) -> Sequence[Record]:
            standing = known.get(task)
            if standing is None or not standing.state.is_drawn:
                return []
            records: list[Record] = [] if chart is None else [self._tallied(standing, chart)]
            records.append(self._moved(
                standing, State.SUSPENDED, trouble.why, trouble.evidence, tests=trouble.tests, by=by,
            ))
            if standing.suspensions + 1 >= self.bounds.suspensions:
                often = f"suspended {standing.suspensions + 1} times"
                records.append(self._moved(standing, State.RETIRED, Why.REPEATED, often, by=by))
            return records

        return bool(self._change(decide))

    def tally(self, charts: Mapping[str, Chart]) -> None:
        """Keep what has been seen of these tasks, so that the next run knows it."""
        self._change(lambda known: [
            self._tallied(known[task], chart) for task, chart in charts.items()
            if task in known and known[task].chart != chart
        ])

    def checked(self, task: str, *, build: str, trouble: str = "") -> None:
        """Note that a task was looked at again by the verifier `build`."""
        self._change(lambda known: [Checked(
            task=task, version=known[task].version, at_unix_seconds=self._clock(), build=build, trouble=trouble,
        )] if task in known else [])

    def _moved(
        self, standing: Standing, to: State, why: Why, evidence: str, *, tests: tuple[str, ...] = (), by: str = "",
    ) -> Moved:
        return Moved(
            task=standing.task, version=standing.version, at_unix_seconds=self._clock(), to=to, why=why,
            evidence=evidence, tests=tests, by=by,
        )

    def _tallied(self, standing: Standing, chart: Chart) -> Tallied:
        return Tallied(task=standing.task, version=standing.version, at_unix_seconds=self._clock(), chart=chart)

    def _change(self, decide: Callable[[Mapping[str, Standing]], Sequence[Record]]) -> tuple[Record, ...]:
        """Decide by what is known now, and write it. The standings are as of then."""
        standings: dict[str, Standing] = {}

        def decided(records: Sequence[Record]) -> Sequence[Record]:
            standings.update(self._folded(records))
            made = decide(standings)
            for record in made:
                standings[record.task] = advance(standings.get(record.task), record)
            return made

        made = self._ledger.change(decided)
        self._standings = standings
        self._size = self.path.stat().st_size
        return made

    def _folded(self, records: Iterable[Record]) -> dict[str, Standing]:
        try:
            return fold(records)
        except ValueError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.path}: no ledger can say this: {error}") from None
