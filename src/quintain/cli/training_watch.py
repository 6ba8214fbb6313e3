"""The watch of a training: its numbers, its alarms and its sandboxes as meters, and alerts that may make it pause."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quintain.cli.watching import Eyes, Watching, metering, watched_folder
from quintain.sandbox import Backend
from quintain.types import Event
from quintain.watch import EpisodeMeters, Gate, Meters, Scope, folder_of

if TYPE_CHECKING:
    from quintain.train import Learner, Reading, Row

#: How soon a training that pauses sees that it may go on.
LOOK_SECONDS = 0.5


class TrainingEyes:
    """What a training tells its watch. `row` is called after each update; `rest` returns when nothing makes the
    training pause (an alert with the action `pause`, or `quintain alerts stop FOLDER run:NAME`)."""

    def __init__(self, folder: Path, eyes: Eyes, *, staleness: int = 0) -> None:
        self._name = folder.resolve().name
        self._folder = folder
        self._eyes = eyes
        self._gate = Gate(folder_of(folder) / "gate.json")
        self._numbers = TrainingMeters(eyes.watch.meters, staleness=staleness)
        self._episodes = EpisodeMeters(eyes.watch.meters)

    @property
    def metered(self) -> Callable[[Backend], Backend]:
        return metering(self._eyes)

    def known(self, readings: Sequence[Reading]) -> None:
        """What was told before this process went on with it."""
        self._numbers.readings += readings

    def row(self, row: Row) -> None:
        self._numbers.row(row)

    def event(self, event: Event) -> None:
        """Of an episode that was played for an update, in the order of its journal. For one thread."""
        self._episodes.feed(event)

    def rest(self) -> None:
        """For a thread without an event loop."""
        told = ""
        while told := self.held(told):
            time.sleep(LOOK_SECONDS)

    def held(self, told: str = "") -> str:
        """Why it is to pause, if it is; said where that is not what was `told` before."""
        hold = self._gate.hold(Scope.RUN, self._name)
        why = "" if hold is None else str(hold)
        if why and why != told:
            click.echo(f"paused: {why}; to go on: quintain alerts release {self._folder} run:{self._name}", err=True)
        return why


class TrainingMeters:
    """Rows of a training as meters: each number of the last update under its own name, with `updates_per_second` and
    `staleness` (by how many updates the policy that was drawn from is older than the one that learns)."""

    def __init__(self, meters: Meters, *, staleness: int = 0, ticks: Callable[[], float] = time.monotonic) -> None:
        self.readings: list[Reading] = []
        self._meters = meters
        self._staleness = staleness
        self._ticks = ticks
        self._last: tuple[float, int] | None = None

    def row(self, row: Row) -> None:
        now = self._ticks()
        self._meters.add("quintain_updates_total")
        for name, value in row.train.items():
            self._meters.set("quintain_training", value, number=name)
        for name, value in row.held_out.items():
            self._meters.set("quintain_held_out", value, number=name)
        self._meters.set("quintain_training", self._staleness, number="staleness")
        if self._last is not None and now > self._last[0]:
            speed = (row.step - self._last[1]) / (now - self._last[0])
            self._meters.set("quintain_training", speed, number="updates_per_second")
        self._last = now, row.step
        if row.stage == "rl":
            self._read(row)

    def _read(self, row: Row) -> None:
        from quintain.train import Reading, alarms

        self.readings.append(Reading(
            step=row.step, reward=row.train.get("reward"), entropy_nats=row.train.get("entropy"),
            useless=row.train.get("useless"), held_out=row.held_out.get("pass_at_1")))
        self._meters.clear("quintain_training_alarms")
        for alarm in alarms(self.readings):
            self._meters.set("quintain_training_alarms", 1.0, illness=alarm.illness.value)


class Heeding:
    """A learner that makes no update while something makes it pause."""

    def __init__(self, learner: Learner, eyes: TrainingEyes) -> None:
        self._learner = learner
        self._eyes = eyes

    @property
    def step(self) -> int:
        return self._learner.step

    @step.setter
    def step(self, step: int) -> None:
        self._learner.step = step

    @property
    def stage(self) -> str:
        return self._learner.stage

    @property
    def done(self) -> bool:
        return self._learner.done

    def state(self) -> dict[str, Any]:
        return self._learner.state()

    async def load(self, state: Mapping[str, Any]) -> None:
        await self._learner.load(state)

    async def update(self) -> dict[str, float]:
        told = self._eyes.held()
        while told:  # the file of another process says when it may go on
            await asyncio.sleep(LOOK_SECONDS)
            told = self._eyes.held(told)
        return await self._learner.update()

    async def evaluate(self, count: int | None = None) -> dict[str, float]:
        return await self._learner.evaluate(count)


@contextmanager
def watched_training(folder: Path, watching: Watching, *, staleness: int = 0) -> Iterator[TrainingEyes | None]:
    """The watch of a training while the block lasts, in a thread of its own: an update that keeps its process busy is
    no slow loop. `None` where nobody is to watch. Raises as `watched` does."""
    if not watching.is_on:
        yield None
        return
    opened: Future[tuple[Eyes, Callable[[], object]]] = Future()

    async def keep() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        async with watched_folder(folder, watching) as eyes:
            assert eyes is not None
            opened.set_result((eyes, lambda: loop.call_soon_threadsafe(end.set)))
            await end.wait()

    def run() -> None:
        try:
            asyncio.run(keep())
        except Exception as error:  # a thread has nobody above it: whoever waits for the watch raises it
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=run, name="watch")
    thread.start()
    eyes, end = opened.result()
    try:
        yield TrainingEyes(folder, eyes, staleness=staleness)
    finally:
        end()
        thread.join()
