"""A fleet under a virtual clock: the real planner, the real logic of the queue, the real machine, simulated hosts.

`simulate(scenario)` plays it to the end and returns a `Report`; the same scenario gives the same report.

What is real: `Planner`, `Shelf` (leases, fences, delivery limit, delays), and for a share of the episodes
`rollout.Machine` with its journal. What is coarser than life: hosts are counters of room; messages take no time of
their own (`start_seconds` holds them); a worker's results and heartbeats are single calls; most episodes are one span
of time. A host that is cut off keeps working and reports when it is heard of again; its journal lines wait with it.

Every event is followed by the checks of `simulation_audit`: a second account that shares no code with the first.
"""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

from quintain.fleet._card import Gone, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.plan import Planner
from quintain.fleet.plan_words import Ask, Fairness
from quintain.fleet.simulation_audit import Audit
from quintain.fleet.simulation_crew import Box, Clock, Crew, Played
from quintain.fleet.simulation_life import Life
from quintain.fleet.simulation_words import Flood, Load, Report, Scenario

_HOUR = 3600.0
_AGREE_EVERY = 20_000  # events between two comparisons of the accounts from the ground up


class World:
    """All of it. `run` plays to the end. Whoever doubts the checks gives a `planner` or a `shelf` that is broken."""

    def __init__(
        self, scenario: Scenario, *, planner: type[Planner] = Planner, shelf: type[Shelf[Any]] = Shelf,
    ) -> None:
        self.scenario = scenario
        self.chance = Random(scenario.seed)
        self.clock = Clock()
        self.planner = planner(Fairness(
            ageing_seconds=scenario.ageing_seconds, hold_seconds=scenario.hold_seconds, tenant_weights=scenario.weights,
        ))
        self.shelf: Shelf[Played] = shelf(
            Terms(bound=10**9, deliveries=scenario.deliveries, ageing_seconds=scenario.ageing_seconds,
                  lease_seconds=scenario.lease_seconds),
            gone=self._ran_out,
        )
        self.audit = Audit(scenario)
        self.crew = Crew(
            scenario, self.clock, self.chance, self.shelf, self.audit, over=self._done, back=self._given_back,
        )
        self.boxes: list[Box] = []
        self.steps = self.losses = self.cuts = 0
        self._by_name: dict[str, Box] = {}
        self._arrived = 0
        self._offered = 0
        self._living = 0
        self._known = 0
        self._shares = list(itertools.accumulate(load.share / load.gang for load in scenario.loads))
        for number in range(scenario.hosts):
            self.boxes.append(self._start(number, 0))
        self._total = scenario.episodes + sum(flood.count for flood in scenario.floods)
        self._left = scenario.episodes
        self.clock.after(0.0, self._arrive)
        for flood in scenario.floods:
            self.clock.after(flood.at_seconds, self._flood, flood)
        self.clock.after(1.0, self._tick)

    def run(self) -> Report:
        while self.step():
            pass
        return self.report()

    def step(self) -> bool:
        """One event. `False` once everything has its end."""
        is_over = self._arrived >= self._total and len(self.shelf) == self.audit.dead
        event = None if is_over else self.clock.next()
        if event is None:
            self._agree()
            return False
        self.audit.pass_time(self.clock.now)
        act, what = event
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
        done, seconds = audit.steady
        return Report(
            episodes=self._arrived, done=audit.done, dead=audit.dead, lost=audit.lost, doubled=audit.doubled,
            late=audit.late, redelivered=audit.redelivered, resumed=self.crew.resumed,
            refused_events=self.crew.refused_events,
            losses=self.losses, cuts=self.cuts, violations=tuple(audit.violations), checks=audit.checks,
            fairness_checks=audit.fairness_checks, steps=self.steps,
            utilisation=audit.useful / audit.ideal * 1000 if audit.ideal else 0.0,
            wait_p50_s=waits[last // 2] if waits else 0.0, wait_p99_s=waits[round(0.99 * last)] if waits else 0.0,
            wait_max_s=waits[last] if waits else 0.0, per_second=done / seconds if seconds else 0.0,
            peak=audit.peak, seconds=self.clock.now, first_wait_s=dict(audit.first_waits),
            longest_wait_s=dict(sorted(audit.longest_waits.items())),
        )

    # Work comes.

    def _arrive(self) -> None:
        """Another burst if the queue has room for it: that is back-pressure."""
        scenario = self.scenario
        size = min(scenario.burst, self._left)
        if size and self.planner.waiting + size <= scenario.backlog:
            self._left -= size
            while size:
                [load] = self.chance.choices(scenario.loads, cum_weights=self._shares)
                size -= self._come(load, min(load.gang, size))
            self._decide()
        if not self._left:
            self.audit.all_came()
        else:
            self.clock.after(1.0, self._arrive)

    def _flood(self, flood: Flood) -> None:
        left = flood.count
        while left:
            left -= self._come(flood.load, min(flood.load.gang, left))
        self._decide()

    def _come(self, load: Load, size: int) -> int:
        asks = []
        cpus = load.need.shape[0] / 1000
        for _ in range(size):
            self._arrived += 1
            id = str(self._arrived)
            seconds = min(load.least_seconds * self.chance.paretovariate(load.tail), self.scenario.deadline_seconds)
            poison = self.chance.random() < self.scenario.weather.poison
            life = Life(id, seconds, self.chance) if self.chance.random() < self.scenario.fine else None
            episode = Played(id, load, cpus, seconds, poison, life)
            self.shelf.put(id, episode, at=self.clock.now, kind=load.kind, priority=load.priority)
            self.audit.put(id, load, self.clock.now)
            self.audit.offered(id, load, self.clock.now)
            asks.append(Ask(id=id, need=load.need, kind=load.kind, tenant=load.tenant, priority=load.priority))
        self._offered += size
        if load.gang > 1:
            self.planner.offer_gang(asks[0].id, asks, at=self.clock.now)
        else:
            self.planner.offer(asks[0], at=self.clock.now)
        return size

    def _offer(self, id: str) -> None:
        """It is ready again: on its own, also where it came in a gang."""
        card = self.shelf.get(id)
        if card is None:
            return
        self.shelf.tick(self.clock.now)
        load = card.body.load
        self.audit.offered(id, load, card.put_seconds)
        self._offered += 1
        self.planner.offer(
            Ask(id=id, need=load.need, kind=load.kind, tenant=load.tenant, priority=load.priority), at=card.put_seconds,
        )
        self._decide()

    # Decisions become leases, and leases become work.

    def _decide(self) -> None:
        self.shelf.tick(self.clock.now)  # what has run out is free before anything is decided
        clearing = bool(self.planner.held)
        seconds = self.scenario.lease_seconds
        for placement in self.planner.decide(self.clock.now):
            box = self._by_name[placement.host]
            lease = self.shelf.take(placement.id, box.name, at=self.clock.now, seconds=seconds)
            self._offered -= 1
            if lease is None:
                self.audit.wrong(f"{placement.id} was placed and is not ready")
                continue
            self.audit.placed(
                placement.id, box.name, attempt=lease.attempt, until=lease.until_seconds, at=self.clock.now,
                in_turn=not clearing and not self.planner.held,
            )
            if box.alive and not box.cut:  # else the message is lost, and the lease will run out
                self.crew.begin(box, lease.body, lease.attempt)

    # Hosts live, and are lost.

    def _start(self, number: int, times: int) -> Box:
        box = Box(number, f"host{number}.{times}", self.clock.now)
        self._by_name[box.name] = box
        self._living += 1
        self.audit.hosts(self._living)
        self._join(box)
        weather = self.scenario.weather
        self.clock.after(self.chance.random() * self.scenario.beat_seconds, self._beat, box)
        for hours, act in ((weather.hours_to_loss, self._lose), (weather.hours_to_cut, self._cut)):
            if hours < math.inf:
                self.clock.after(self.chance.expovariate(1.0 / (hours * _HOUR)), act, box)
        return box

    def _join(self, box: Box) -> None:
        self._known += 1
        box.known, box.heard = True, self.clock.now
        self.planner.host(box.name, self.scenario.room, slots=self.scenario.slots)
        self.audit.joined(box.name, self._known)

    def _beat(self, box: Box) -> None:
        """A host says that it lives, and which leases it still works at."""
        if not box.alive:
            return
        if not box.cut:
            seconds = self.scenario.lease_seconds
            box.heard = self.clock.now
            lost = self.shelf.extend_all(box.runs.items(), at=self.clock.now, seconds=seconds)
            self.audit.extended(box.name, box.runs, at=self.clock.now, until=self.clock.now + seconds, lost=lost)
            for id in lost:  # another has it: drop the work
                del box.runs[id]
            if not box.known:
                self._rejoin(box)
        self.clock.after(self.scenario.beat_seconds, self._beat, box)

    def _rejoin(self, box: Box) -> None:
        """It was given up and is heard of again: it gives back what leases still stand, and begins empty."""
        for id, attempt in box.runs.items():
            accepted = self.shelf.nack(id, attempt, at=self.clock.now, counts=False)
            self.audit.gave_back(id, attempt, at=self.clock.now, accepted=accepted)
            if accepted:
                self._again_or_dead(id, 0.0)
        box.runs.clear()
        self._join(box)
        self._decide()

    def _lose(self, box: Box) -> None:
        box.alive = False
        self.losses += 1
        self._living -= 1
        self.audit.hosts(self._living)
        number, times = box.number, int(box.name.partition(".")[2]) + 1
        self.clock.after(self.scenario.weather.repair_seconds, self._repair, number, times)

    def _repair(self, number: int, times: int) -> None:
        self.boxes[number] = self._start(number, times)
        self._decide()

    def _cut(self, box: Box) -> None:
        if box.alive and not box.cut:
            box.cut = True
            self.cuts += 1
            self.clock.after(self.chance.expovariate(1.0 / self.scenario.weather.cut_seconds), self._heal, box)

    def _heal(self, box: Box) -> None:
        if not box.alive:
            return
        box.cut = False
        waiting, box.outbox = box.outbox, []
        for act, what in waiting:
            act(*what)
        hours = self.scenario.weather.hours_to_cut
        self.clock.after(self.chance.expovariate(1.0 / (hours * _HOUR)), self._cut, box)

    # What runs out.

    def _tick(self) -> None:
        self.shelf.tick(self.clock.now)
        silent = self.clock.now - self.scenario.lease_seconds
        for name in [name for name, box in self._by_name.items() if box.known and box.heard <= silent]:
            self._give_up(self._by_name[name])
        self._decide()
        self.clock.after(1.0, self._tick)

    def _ran_out(self, gone: Gone) -> None:
        self.audit.ran_out(gone.id, gone.attempt, self.clock.now)
        if self.planner.where(gone.id) == gone.worker:
            self._free(gone.id)
        self._again_or_dead(gone.id, 0.0)

    def _give_up(self, box: Box) -> None:
        """Nobody heard of it for as long as a lease lasts: place nothing there any more."""
        box.known = False
        self._known -= 1
        for id in self.planner.lose(box.name):
            self.audit.freed(id)
        self.audit.left(box.name, self._known)
        if not box.alive:
            del self._by_name[box.name]

    def _done(self, id: str) -> None:
        self._free(id)
        self.audit.over(id, dead=False)
        self._decide()

    def _given_back(self, id: str, rest_seconds: float) -> None:
        self._free(id)
        self._again_or_dead(id, rest_seconds)
        self._decide()

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
            self.clock.after(delay_seconds, self._offer, id)

    # How it is checked.

    def _agree(self) -> None:
        self.audit.agree(running=self.planner.running, waiting=self.planner.waiting, offered=self._offered)


def simulate(scenario: Scenario) -> Report:
    """Play a scenario to its end."""
    return World(scenario).run()
