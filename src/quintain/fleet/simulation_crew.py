"""The simulated side of the workers: hosts, and how episodes go on them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quintain.fleet._calendar import Calendar
from quintain.fleet._shelf import Shelf
from quintain.fleet.simulation_audit import Audit
from quintain.fleet.simulation_life import Life, rules
from quintain.fleet.simulation_words import Load, Scenario
from quintain.rollout import Effect, Machine

_BACKOFF_SECONDS = 2.0


class Clock:
    """Virtual time, and what will happen in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: Calendar[tuple[float, int, Callable[..., None], tuple[object, ...]]] = Calendar()
        self._number = 0

    def after(self, seconds: float, act: Callable[..., None], *what: object) -> None:
        self._number += 1
        self._events.add((self.now + seconds, self._number, act, what))

    def next(self) -> tuple[Callable[..., None], tuple[object, ...]] | None:
        """Go on to the next event; `None` where there is none."""
        if not self._events:
            return None
        self.now, _, act, what = self._events.take()
        return act, what


class Box:
    """One host from its start to its loss: what it runs, and what it could not report yet."""

    __slots__ = ("alive", "cut", "heard", "known", "name", "number", "outbox", "runs")

    def __init__(self, number: int, name: str, at: float) -> None:
        self.number = number
        self.name = name
        self.alive = True
        self.cut = False
        self.known = True  # to the planner
        self.heard = at
        self.runs: dict[str, int] = {}  # id -> attempt
        self.outbox: list[tuple[Callable[..., None], tuple[object, ...]]] = []


class Played:
    __slots__ = ("cpus", "id", "life", "load", "poison", "seconds")

    def __init__(self, id: str, load: Load, cpus: float, seconds: float, poison: bool, life: Life | None) -> None:
        self.id = id
        self.load = load
        self.cpus = cpus
        self.seconds = seconds
        self.poison = poison
        self.life = life


class Crew:
    """The workers of all hosts. `over` is called with an id whose result was accepted, `back` with one that was given
    back, and how long it is to rest."""

    def __init__(
        self, scenario: Scenario, clock: Clock, chance: Random, shelf: Shelf[Played], audit: Audit, *,
        over: Callable[[str], None], back: Callable[[str, float], None],
    ) -> None:
        self.scenario = scenario
        self.clock = clock
        self.chance = chance
        self.shelf = shelf
        self.audit = audit
        self.resumed = self.refused_events = 0
        self._over = over
        self._back = back
        self._rules = rules(scenario.deadline_seconds)

    def begin(self, box: Box, job: Played, attempt: int) -> None:
        weather = self.scenario.weather
        box.runs[job.id] = attempt
        seconds = job.seconds
        luck = self.chance.random()
        if job.poison:
            self.clock.after(0.5 * seconds, self._crash, box, job, attempt)
        elif luck < weather.faults:
            self.clock.after(self.chance.random() * seconds, self._fault, box, job, attempt)
        elif job.life is not None:
            machine = job.life.machine(self._rules)
            self.resumed += bool(job.life.journal)
            began = self.clock.now + self.scenario.start_seconds - machine.state.at_seconds
            self.clock.after(self.scenario.start_seconds, self._turn, box, job, attempt, machine, began)
        else:
            if luck > 1.0 - weather.stragglers:
                seconds = min(seconds * weather.straggler_factor, self.scenario.deadline_seconds)
            self.clock.after(self.scenario.start_seconds + seconds, self._result, box, job, attempt, seconds)

    def _turn(self, box: Box, job: Played, attempt: int, machine: Machine, began: float) -> None:
        """Ask the machine what is due, and have it happen when it has taken its time."""
        if not self._runs(box, job, attempt):
            return
        life = job.life
        assert life is not None
        effect = machine.effect(self.clock.now - began)
        if effect is None:
            self._result(box, job, attempt, machine.state.at_seconds)
            return
        seconds = life.takes(effect)
        self.clock.after(seconds, self._happen, box, job, attempt, machine, began, effect)

    def _happen(
        self, box: Box, job: Played, attempt: int, machine: Machine, began: float, effect: Effect,
    ) -> None:
        """Write it into the journal, which takes it only from the worker that holds the lease; then go on."""
        if not self._runs(box, job, attempt):
            return
        life = job.life
        assert life is not None
        if box.cut:
            life.held_up = True
            box.outbox.append((self._happen, (box, job, attempt, machine, began, effect)))
            return
        self.shelf.tick(self.clock.now)
        card = self.shelf.get(job.id)
        if card is None or card.attempt != attempt or card.worker != box.name:
            self.refused_events += 1
            del box.runs[job.id]
            return
        event = life.event(machine, effect, self.clock.now - began)
        if event is not None:
            life.journal.append(event)
            machine.feed(event)
        self._turn(box, job, attempt, machine, began)

    def _result(self, box: Box, job: Played, attempt: int, seconds: float) -> None:
        if not self._runs(box, job, attempt):
            return
        if box.cut:
            box.outbox.append((self._result, (box, job, attempt, seconds)))
            return
        del box.runs[job.id]
        accepted = self.shelf.ack(job.id, attempt, at=self.clock.now)
        cpu_seconds = seconds * job.cpus
        self.audit.result(job.id, attempt, at=self.clock.now, accepted=accepted, cpu_seconds=cpu_seconds)
        if accepted:
            if job.life is not None:
                self._check_log(job.life)
            self._over(job.id)

    def _fault(self, box: Box, job: Played, attempt: int) -> None:
        """The house failed at it: given back, to be tried again a little later."""
        if not self._runs(box, job, attempt):
            return
        if box.cut:
            box.outbox.append((self._fault, (box, job, attempt)))
            return
        del box.runs[job.id]
        accepted = self.shelf.nack(
            job.id, attempt, at=self.clock.now, delay_seconds=_BACKOFF_SECONDS, reason="house fault",
        )
        self.audit.gave_back(job.id, attempt, at=self.clock.now, accepted=accepted)
        if accepted:
            self._back(job.id, _BACKOFF_SECONDS)

    def _crash(self, box: Box, job: Played, attempt: int) -> None:
        """Its worker dies without a word: the lease will run out."""
        if self._runs(box, job, attempt):
            del box.runs[job.id]

    def _runs(self, box: Box, job: Played, attempt: int) -> bool:
        return box.alive and box.runs.get(job.id) == attempt

    def _check_log(self, life: Life) -> None:
        """One journal from opening to closing, whoever wrote it, that ends as an undisturbed one would."""
        indices = [event.index for event in life.journal]
        machine = life.machine(self._rules)
        if indices != list(range(len(indices))) or machine.effect(0.0) is not None:
            self.audit.wrong(f"{life.id}: its journal is not whole: {indices}")
        elif not life.is_told_by(machine):
            self.audit.wrong(f"{life.id}: its reward is not that of an undisturbed one")
