"""A fleet under a virtual clock: the real planner, the real logic of the queue, the real machine, simulated hosts.

`simulate(scenario)` plays it to the end and returns a `Report`; the same scenario gives the same report.

What is real: `Planner`, `Shelf` (leases, fences, delivery limit, delays), and for a share of the episodes
`rollout.Machine` with its journal. What is coarser than life: hosts are counters of room; messages take no time of
their own (`start_seconds` holds them); a worker's results and heartbeats are single calls; most episodes are one span
of time. A host that is cut off keeps working and reports when it is heard of again; its journal lines wait with it.

Every event is followed by the checks of `simulation_audit`: a second account that shares no code with the first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from random import Random

from quintain.fleet._card import Gone, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.plan import Planner
from quintain.fleet.plan_words import Ask, Fairness
from quintain.fleet.simulation_audit import Audit
from quintain.fleet.simulation_life import Life, rules
from quintain.fleet.simulation_words import Load, Report, Scenario
from quintain.rollout import Effect, Machine

_HOUR = 3600.0
_AGREE_EVERY = 20_000  # events between two comparisons of the accounts from the ground up
_BACKOFF_SECONDS = 2.0


class _Box:
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


class _Episode:
    __slots__ = ("id", "life", "load", "poison", "seconds")

    def __init__(self, id: str, load: Load, seconds: float, poison: bool, life: Life | None) -> None:
        self.id = id
        self.load = load
        self.seconds = seconds
        self.poison = poison
        self.life = life


class World:
    """All of it. `run` plays to the end; tests may step through `events`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.chance = Random(scenario.seed)
        self.now = 0.0
        self.planner = Planner(Fairness(
            ageing_seconds=scenario.ageing_seconds, hold_seconds=scenario.hold_seconds, tenant_weights=scenario.weights,
        ))
        self.shelf: Shelf[_Episode] = Shelf(
            Terms(bound=10**9, deliveries=scenario.deliveries, ageing_seconds=scenario.ageing_seconds,
                  lease_seconds=scenario.lease_seconds),
            gone=self._ran_out,
        )
        self.audit = Audit(scenario)
        self.boxes: list[_Box] = []
        self.steps = self.losses = self.cuts = self.resumed = self.refused_events = 0
        self._by_name: dict[str, _Box] = {}
        self._rules = rules(scenario.deadline_seconds)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0
        self._arrived = 0
        self._offered = 0
        self._living = 0
        self._known = 0
        self._shares = [load.share / load.gang for load in scenario.loads]
        for number in range(scenario.hosts):
            self.boxes.append(self._start(number, 0))
        self._at(0.0, self._arrive)
        self._at(1.0, self._tick)

    def run(self) -> Report:
        while self.step():
            pass
        return self.report()

    def step(self) -> bool:
        """One event. `False` once everything has its end."""
        if not self._events or (self._arrived >= self.scenario.episodes and self._is_over()):
            self._agree()
            return False
        at, _, act, what = heapq.heappop(self._events)
        self.audit.pass_time(at)
        self.now = at
        act(*what)
        self.steps += 1
        self.audit.step(len(self.shelf))
        if self.steps % _AGREE_EVERY == 0:
            self._agree()
        return True

    def report(self) -> Report:
        audit = self.audit
        waits = sorted(audit.waits)
        last = len(waits) - 1
        return Report(
            episodes=self._arrived, done=audit.done, dead=audit.dead, lost=audit.lost, doubled=audit.doubled,
            late=audit.late, redelivered=audit.redelivered, resumed=self.resumed, refused_events=self.refused_events,
            losses=self.losses, cuts=self.cuts, violations=tuple(audit.violations), checks=audit.checks,
            fairness_checks=audit.fairness_checks, steps=self.steps,
            utilisation=audit.useful / audit.ideal * 1000 if audit.ideal else 0.0,
            wait_p50_s=waits[last // 2] if waits else 0.0, wait_p99_s=waits[round(0.99 * last)] if waits else 0.0,
            wait_max_s=waits[last] if waits else 0.0, per_second=audit.done / self.now if self.now else 0.0,
            peak=audit.peak, seconds=self.now, first_wait_s=dict(audit.first_waits),
        )

    # Work comes.

    def _arrive(self) -> None:
        """Another burst if the queue has room for it: that is back-pressure."""
        scenario = self.scenario
        left = scenario.episodes - self._arrived
        if left and self.planner.waiting + min(scenario.burst, left) <= scenario.backlog:
            count = 0
            while count < min(scenario.burst, left):
                [load] = self.chance.choices(scenario.loads, self._shares)
                count += self._come(load, min(load.gang, left - count))
            self._decide()
        if self._arrived < scenario.episodes:
            self._at(1.0, self._arrive)

    def _come(self, load: Load, size: int) -> int:
        asks = []
        for _ in range(size):
            self._arrived += 1
            id = str(self._arrived)
            seconds = min(load.least_seconds * self.chance.paretovariate(load.tail), self.scenario.deadline_seconds)
            poison = self.chance.random() < self.scenario.weather.poison
            life = Life(id, seconds, self.chance) if self.chance.random() < self.scenario.fine else None
            episode = _Episode(id, load, seconds, poison, life)
            self.shelf.put(id, episode, at=self.now, kind=load.kind, priority=load.priority)
            self.audit.put(id, load, self.now)
            self.audit.offered(load)
            asks.append(Ask(id=id, need=load.need, kind=load.kind, tenant=load.tenant, priority=load.priority))
        self._offered += size
        if load.gang > 1:
            self.planner.offer_gang(asks[0].id, asks, at=self.now)
        else:
            self.planner.offer(asks[0], at=self.now)
        return size

    def _offer(self, id: str) -> None:
        """It is ready again: on its own, also where it came in a gang."""
        card = self.shelf.get(id)
        if card is None:
            return
        self.shelf.tick(self.now)
        load = card.body.load
        self.audit.offered(load)
        self._offered += 1
        self.planner.offer(
            Ask(id=id, need=load.need, kind=load.kind, tenant=load.tenant, priority=load.priority), at=card.put_seconds,
        )
        self._decide()

    # Decisions become leases, and leases become work.

    def _decide(self) -> None:
        clearing = bool(self.planner.held)
        seconds = self.scenario.lease_seconds
        for placement in self.planner.decide(self.now):
            box = self._by_name[placement.host]
            lease = self.shelf.take(placement.id, box.name, at=self.now, seconds=seconds)
            self._offered -= 1
            if lease is None:
                self.audit.wrong(f"{placement.id} was placed and is not ready")
                continue
            self.audit.placed(
                placement.id, box.name, attempt=lease.attempt, until=lease.until_seconds, at=self.now,
                in_turn=not clearing and not self.planner.held,
            )
            if box.alive and not box.cut:  # else the message is lost, and the lease will run out
                self._begin(box, lease.body, lease.attempt)

    def _begin(self, box: _Box, episode: _Episode, attempt: int) -> None:
        weather = self.scenario.weather
        box.runs[episode.id] = attempt
        seconds = episode.seconds
        luck = self.chance.random()
        if episode.poison:
            self._at(0.5 * seconds, self._crash, box, episode, attempt)
        elif luck < weather.faults:
            self._at(self.chance.random() * seconds, self._fault, box, episode, attempt)
        elif episode.life is not None:
            machine = episode.life.machine(self._rules)
            self.resumed += bool(episode.life.journal)
            began = self.now + self.scenario.start_seconds - machine.state.at_seconds
            self._at(self.scenario.start_seconds, self._turn, box, episode, attempt, machine, began)
        else:
            if luck > 1.0 - weather.stragglers:
                seconds = min(seconds * weather.straggler_factor, self.scenario.deadline_seconds)
            self._at(self.scenario.start_seconds + seconds, self._result, box, episode, attempt, seconds)

    def _turn(self, box: _Box, episode: _Episode, attempt: int, machine: Machine, began: float) -> None:
        """Ask the machine what is due, and have it happen when it has taken its time."""
        if not self._runs(box, episode, attempt):
            return
        life = episode.life
        assert life is not None
        effect = machine.effect(self.now - began)
        if effect is None:
            self._result(box, episode, attempt, machine.state.at_seconds)
            return
        seconds = life.takes(effect)
        self._at(seconds, self._happen, box, episode, attempt, machine, began, effect)

    def _happen(
        self, box: _Box, episode: _Episode, attempt: int, machine: Machine, began: float, effect: Effect,
    ) -> None:
        """Write it into the journal, which takes it only from the worker that holds the lease; then go on."""
        if not self._runs(box, episode, attempt):
            return
        if box.cut:
            box.outbox.append((self._happen, (box, episode, attempt, machine, began, effect)))
            return
        life = episode.life
        assert life is not None
        self.shelf.tick(self.now)
        card = self.shelf.get(episode.id)
        if card is None or card.attempt != attempt or card.worker != box.name:
            self.refused_events += 1
            del box.runs[episode.id]
            return
        event = life.event(machine, effect, self.now - began)
        if event is not None:
            life.journal.append(event)
            machine.feed(event)
        self._turn(box, episode, attempt, machine, began)

    def _result(self, box: _Box, episode: _Episode, attempt: int, seconds: float) -> None:
        if not self._runs(box, episode, attempt):
            return
        if box.cut:
            box.outbox.append((self._result, (box, episode, attempt, seconds)))
            return
        del box.runs[episode.id]
        accepted = self.shelf.ack(episode.id, attempt, at=self.now)
        cpu_seconds = seconds * episode.load.need.shape[0] / 1000
        self.audit.result(episode.id, attempt, at=self.now, accepted=accepted, cpu_seconds=cpu_seconds)
        if accepted:
            self._free(episode.id)
            self.audit.over(episode.id, dead=False)
            if episode.life is not None:
                self._check_log(episode.life)
            self._decide()

    def _fault(self, box: _Box, episode: _Episode, attempt: int) -> None:
        """The house failed at it: given back, to be tried again a little later."""
        if not self._runs(box, episode, attempt):
            return
        if box.cut:
            box.outbox.append((self._fault, (box, episode, attempt)))
            return
        del box.runs[episode.id]
        accepted = self.shelf.nack(
            episode.id, attempt, at=self.now, delay_seconds=_BACKOFF_SECONDS, reason="house fault",
        )
        self.audit.gave_back(episode.id, attempt, at=self.now, accepted=accepted)
        if accepted:
            self._free(episode.id)
            self._again_or_dead(episode.id, _BACKOFF_SECONDS)
            self._decide()

    def _crash(self, box: _Box, episode: _Episode, attempt: int) -> None:
        """Its worker dies without a word: the lease will run out."""
        if self._runs(box, episode, attempt):
            del box.runs[episode.id]

    def _runs(self, box: _Box, episode: _Episode, attempt: int) -> bool:
        return box.alive and box.runs.get(episode.id) == attempt

    # Hosts live, and are lost.

    def _start(self, number: int, times: int) -> _Box:
        box = _Box(number, f"host{number}.{times}", self.now)
        self._by_name[box.name] = box
        self._living += 1
        self.audit.hosts(self._living)
        self._join(box)
        weather = self.scenario.weather
        self._at(self.chance.random() * self.scenario.beat_seconds, self._beat, box)
        for hours, act in ((weather.hours_to_loss, self._lose), (weather.hours_to_cut, self._cut)):
            if hours < math.inf:
                self._at(self.chance.expovariate(1.0 / (hours * _HOUR)), act, box)
        return box

    def _join(self, box: _Box) -> None:
        self._known += 1
        box.known, box.heard = True, self.now
        self.planner.host(box.name, self.scenario.room, slots=self.scenario.slots)
        self.audit.joined(box.name, self._known)

    def _beat(self, box: _Box) -> None:
        """A host says that it lives, and which leases it still works at."""
        if not box.alive:
            return
        if not box.cut:
            seconds = self.scenario.lease_seconds
            box.heard = self.now
            lost = self.shelf.extend_all(box.runs.items(), at=self.now, seconds=seconds)
            self.audit.extended(box.name, box.runs, at=self.now, until=self.now + seconds, lost=lost)
            for id in lost:  # another has it: drop the work
                del box.runs[id]
            if not box.known:
                self._rejoin(box)
        self._at(self.scenario.beat_seconds, self._beat, box)

    def _rejoin(self, box: _Box) -> None:
        """It was given up and is heard of again: it gives back what leases still stand, and begins empty."""
        for id, attempt in box.runs.items():
            accepted = self.shelf.nack(id, attempt, at=self.now, counts=False)
            self.audit.gave_back(id, attempt, at=self.now, accepted=accepted)
            if accepted:
                self._again_or_dead(id, 0.0)
        box.runs.clear()
        self._join(box)
        self._decide()

    def _lose(self, box: _Box) -> None:
        box.alive = False
        self.losses += 1
        self._living -= 1
        self.audit.hosts(self._living)
        number, times = box.number, int(box.name.partition(".")[2]) + 1
        self._at(self.scenario.weather.repair_seconds, self._repair, number, times)

    def _repair(self, number: int, times: int) -> None:
        self.boxes[number] = self._start(number, times)
        self._decide()

    def _cut(self, box: _Box) -> None:
        if box.alive and not box.cut:
            box.cut = True
            self.cuts += 1
            self._at(self.chance.expovariate(1.0 / self.scenario.weather.cut_seconds), self._heal, box)

    def _heal(self, box: _Box) -> None:
        if not box.alive:
            return
        box.cut = False
        waiting, box.outbox = box.outbox, []
        for act, what in waiting:
            act(*what)
        hours = self.scenario.weather.hours_to_cut
        self._at(self.chance.expovariate(1.0 / (hours * _HOUR)), self._cut, box)

    # What runs out.

    def _tick(self) -> None:
        self.shelf.tick(self.now)
        silent = self.now - self.scenario.lease_seconds
        for name in [name for name, box in self._by_name.items() if box.known and box.heard <= silent]:
            self._give_up(self._by_name[name])
        self._decide()
        self._at(1.0, self._tick)

    def _ran_out(self, gone: Gone) -> None:
        self.audit.ran_out(gone.id, gone.attempt, self.now)
        if self.planner.where(gone.id) == gone.worker:
            self._free(gone.id)
        self._again_or_dead(gone.id, 0.0)

    def _give_up(self, box: _Box) -> None:
        """Nobody heard of it for as long as a lease lasts: place nothing there any more."""
        box.known = False
        self._known -= 1
        for id in self.planner.lose(box.name):
            self.audit.freed(id)
        self.audit.left(box.name, self._known)
        if not box.alive:
            del self._by_name[box.name]

    def _free(self, id: str) -> None:
        if self.planner.finish(id):
            self.audit.freed(id)

    def _again_or_dead(self, id: str, delay_seconds: float) -> None:
        card = self.shelf.get(id)
        if card is None:
            self.audit.wrong(f"{id} is nowhere")
        elif card.place.value == "dead":
            if not card.reason:
                self.audit.wrong(f"{id} is dead without a reason")
            self.audit.over(id, dead=True)
        else:
            self._at(delay_seconds, self._offer, id)

    # How it is checked.

    def _is_over(self) -> bool:
        return len(self.shelf) == self.audit.dead

    def _agree(self) -> None:
        self.audit.agree(running=self.planner.running, waiting=self.planner.waiting, offered=self._offered)

    def _check_log(self, life: Life) -> None:
        """One journal from opening to closing, whoever wrote it, that ends as an undisturbed one would."""
        indices = [event.index for event in life.journal]
        machine = life.machine(self._rules)
        if indices != list(range(len(indices))) or machine.effect(0.0) is not None:
            self.audit.wrong(f"{life.id}: its journal is not whole: {indices}")
        judgement = machine.state.judgement
        if judgement is None or judgement.reward.solved is not bool(life.solved):
            self.audit.wrong(f"{life.id}: its reward is not that of an undisturbed one")

    def _at(self, seconds: float, act: Callable[..., None], *what: object) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, act, what))


def simulate(scenario: Scenario) -> Report:
    """Play a scenario to its end."""
    return World(scenario).run()
