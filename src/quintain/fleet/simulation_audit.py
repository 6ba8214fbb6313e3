"""A second account of a simulated fleet, kept apart from the first, and what must be true of both at every step."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Collection

from quintain.fleet.plan_words import Shape
from quintain.fleet.simulation_words import Load, Scenario

_KEPT = 20  # violations in words; all are counted
_LEVEL = 1e-6  # shares that differ by less are equal
_NEVER = -math.inf


class _Held:
    """What is known of one episode: its latest lease, and where it takes room."""

    __slots__ = ("attempt", "host", "load", "put", "shape", "until", "waits")

    def __init__(self, load: Load, shape: Shape, put: float) -> None:
        self.put = put
        self.waits = False
        self.load = load
        self.shape = shape
        self.attempt = 0
        self.until = _NEVER
        self.host: str | None = None


class _Use:
    """How much of one host is taken: (CPU in thousandths, memory bytes, sandboxes)."""

    __slots__ = ("cpu", "memory", "slots")

    def __init__(self) -> None:
        self.cpu = self.memory = self.slots = 0


class Audit:
    """Told of everything that happens; holds it against what it knows itself."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.violations: list[str] = []
        self.broken = 0
        self.checks = self.fairness_checks = 0
        self.arrived = self.done = self.dead = self.doubled = self.late = self.redelivered = 0
        self.waits = array("d")
        self.first_waits: dict[str, float] = {}
        self.longest_waits: dict[str, float] = {}
        self.useful = self.ideal = 0.0
        self.running = self.peak = 0
        self.steady = (0, 0.0)
        total = scenario.episodes + sum(flood.count for flood in scenario.floods)
        self._results = bytearray(total + 1)  # by number: ids are "1" to "TOTAL"
        self._book: dict[str, _Held] = {}
        self._born: dict[str, float] = {}
        self._uses: dict[str, _Use] = {}
        shape = scenario.room.shape
        self._capacity = (shape[0], shape[1], scenario.slots)
        self._hosts = 0
        self._asked = 0  # CPU thousandths of all that has arrived and is not over
        self._now = 0.0
        loads = list(dict.fromkeys((*scenario.loads, *(flood.load for flood in scenario.floods))))
        self._loads = loads
        self._sorts = {load: f"{load.kind}/{load.priority}" for load in loads}
        self._tenants = {load.tenant: 0.0 for load in loads}
        self._kinds = {(load.tenant, load.kind): 0.0 for load in loads}
        self._waiting = dict.fromkeys(self._kinds, 0)
        self._shapes = {(load.tenant, load.kind): load.need.shape for load in loads}
        self._ranks: dict[tuple[str, str], list[tuple[float, str]]] = {party: [] for party in self._kinds}
        self._charges: dict[tuple[str, str], float] = {}
        self._peers = {
            (load.tenant, load.kind): tuple(
                (other.tenant, other.kind) for other in loads
                if other.need == load.need and other.gang == 1 and other is not load
            )
            for load in loads
        }

    def wrong(self, words: str) -> None:
        self.broken += 1
        if len(self.violations) < _KEPT:
            self.violations.append(f"at {self._now:.3f} s: {words}")

    def pass_time(self, at: float) -> None:
        """The integral of what an ideal would have in use, up to now."""
        capacity = self._hosts * self._capacity[0]
        self.ideal += (at - self._now) * min(capacity, self._asked)
        self._now = at

    def step(self, kept: int) -> None:
        """After each event: what was put is on the shelf, or has its one result."""
        self.checks += 1
        if self.arrived != kept + self.done:
            self.wrong(f"{self.arrived} were put, {kept} are kept and {self.done} done")

    def hosts(self, count: int) -> None:
        """So many live now."""
        self._hosts = count

    def joined(self, host: str, count: int) -> None:
        """The planner knows this host, `count` in all: the size that shares are of."""
        self._uses.setdefault(host, _Use())
        self._resize(count)

    def left(self, host: str, count: int) -> None:
        if self._uses.pop(host).slots:
            self.wrong(f"{host} left with something on it")
        self._resize(count)

    def put(self, id: str, load: Load, at: float) -> None:
        self.arrived += 1
        shape = self._shapes[load.tenant, load.kind]
        self._book[id] = _Held(load, shape, at)
        self._born[id] = at
        self._asked += shape[0]

    def offered(self, id: str, load: Load, put_seconds: float) -> None:
        party = (load.tenant, load.kind)
        self._waiting[party] += 1
        if load.gang == 1:
            self._book[id].waits = True
            rank = put_seconds - load.priority * self.scenario.ageing_seconds
            heapq.heappush(self._ranks[party], (rank, id))

    def placed(self, id: str, host: str, *, attempt: int, until: float, at: float, in_turn: bool) -> None:
        """A decision became a lease. `in_turn` is false where hosts were being cleared, and so for gangs."""
        held = self._book.get(id)
        if held is None:
            self.wrong(f"{id} was placed after it was over")
            return
        load = held.load
        party = (load.tenant, load.kind)
        self._waiting[party] -= 1
        if load.gang == 1:
            held.waits = False
            self._check_age(id, party, check=in_turn)
            if in_turn:
                self._check_turn(load, party)
        if attempt != held.attempt + 1 or held.until > at or held.host is not None:
            self.wrong(f"{id} attempt {attempt} while attempt {held.attempt} stands until {held.until:.3f} s")
        self.redelivered += attempt > 1
        held.attempt, held.until, held.host = attempt, until, host
        use = self._uses[host]
        shape = held.shape
        use.cpu += shape[0]
        use.memory += shape[1]
        use.slots += 1
        if use.cpu > self._capacity[0] or use.memory > self._capacity[1] or use.slots > self._capacity[2]:
            self.wrong(f"{host} is above its capacity: {use.cpu / 1000} CPUs, {use.memory} bytes, {use.slots} boxes")
        charge = self._charges[party]
        self._tenants[load.tenant] += charge
        self._kinds[party] += charge
        self.running += 1
        self.peak = max(self.peak, self.running)
        born = self._born.pop(id, None)
        if born is not None:
            self.waits.append(at - born)
            self.first_waits.setdefault(load.kind, at - born)
            sort = self._sorts[load]
            if at - born >= self.longest_waits.get(sort, 0.0):
                self.longest_waits[sort] = at - born

    def freed(self, id: str) -> None:
        """The planner gives its place to others."""
        held = self._book.get(id)
        if held is None or held.host is None:
            self.wrong(f"{id} was freed and had no place")
            return
        load = held.load
        use = self._uses[held.host]
        shape = held.shape
        use.cpu -= shape[0]
        use.memory -= shape[1]
        use.slots -= 1
        held.host = None
        charge = self._charges[load.tenant, load.kind]
        self._tenants[load.tenant] -= charge
        self._kinds[load.tenant, load.kind] -= charge
        self.running -= 1

    def stands(self, id: str, attempt: int, at: float) -> bool:
        """Whether a worker still holds this lease, by this account."""
        held = self._book.get(id)
        return held is not None and held.attempt == attempt and held.until > at

    def extended(self, host: str, runs: dict[str, int], *, at: float, until: float, lost: Collection[str]) -> None:
        """A host's heartbeat was heard for all but `lost`."""
        book, refused = self._book, set(lost)
        for id, attempt in runs.items():
            held = book.get(id)
            if held is not None and held.attempt == attempt and held.until > at:
                if id in refused:
                    self.wrong(f"{id} attempt {attempt}: a heartbeat of {host} was refused")
                elif held.until < until:
                    held.until = until
            elif id not in refused:
                self.wrong(f"{id} attempt {attempt}: a heartbeat of {host} was heard")

    def result(self, id: str, attempt: int, *, at: float, accepted: bool, cpu_seconds: float) -> None:
        """A worker reported a result. To be called before its place is freed."""
        if self.stands(id, attempt, at) is not accepted:
            self.wrong(f"{id} attempt {attempt}: a result was {'taken' if accepted else 'refused'}")
        if not accepted:
            self.late += 1
            return
        number = int(id)
        if self._results[number]:
            self.doubled += 1
            self.wrong(f"{id} has two results")
        self._results[number] = 1
        self.done += 1
        self.useful += cpu_seconds

    def gave_back(self, id: str, attempt: int, *, at: float, accepted: bool) -> None:
        if self.stands(id, attempt, at) is not accepted:
            self.wrong(f"{id} attempt {attempt}: giving back was {'taken' if accepted else 'refused'}")
        elif accepted:
            self._book[id].until = at

    def ran_out(self, id: str, attempt: int, at: float) -> None:
        held = self._book.get(id)
        if held is None or held.attempt != attempt or held.until > at:
            self.wrong(f"{id} attempt {attempt}: its lease ran out before its time")

    def over(self, id: str, *, dead: bool) -> None:
        """It has a result, or a reason why it never will."""
        held = self._book.pop(id)
        if held.host is not None:
            self.wrong(f"{id} is over and keeps its place")
        self.dead += dead
        self._asked -= held.shape[0]

    def agree(self, *, running: int, waiting: int, offered: int) -> None:
        """Both accounts, from the ground up: the planner's running and waiting, and what is offered to it."""
        self.checks += 1
        placed = sum(held.host is not None for held in self._book.values())
        if not (placed == running == self.running):
            self.wrong(f"the planner runs {running}, the account {placed} (counted {self.running})")
        if waiting != offered or waiting != sum(self._waiting.values()):
            self.wrong(f"the planner has {waiting} waiting, {offered} were offered")

    def all_came(self) -> None:
        """Nothing more arrives: what is done until now is the throughput of a fleet that always had work."""
        self.steady = (self.done, self._now)

    @property
    def lost(self) -> int:
        return self.arrived - sum(self._results) - self.dead

    def _check_age(self, id: str, party: tuple[str, str], *, check: bool) -> None:
        """Nobody of the same tenant and kind had a smaller rank: that is what bounds how often age is overtaken."""
        ranks = self._ranks[party]
        while ranks:
            rank, first = ranks[0]
            held = self._book.get(first)
            if held is not None and held.waits:
                if check and rank < self._rank(id) - _LEVEL:
                    self.wrong(f"{id} before {first}, which has aged more")
                return
            heapq.heappop(ranks)

    def _rank(self, id: str) -> float:
        held = self._book[id]
        return held.put - held.load.priority * self.scenario.ageing_seconds

    def _check_turn(self, load: Load, party: tuple[str, str]) -> None:
        """Nobody who waits for the same shape has a smaller share for its weight."""
        weights = self.scenario.weights
        mine = self._tenants[load.tenant] / weights.get(load.tenant, 1.0)
        for other in self._peers[party]:
            if not self._waiting[other]:
                continue
            self.fairness_checks += 1
            if other[0] != load.tenant:
                theirs = self._tenants[other[0]] / weights.get(other[0], 1.0)
                if mine > theirs + _LEVEL:
                    self.wrong(f"tenant {load.tenant} at {mine:.6f} before {other[0]} at {theirs:.6f}")
            elif self._kinds[party] > self._kinds[other] + _LEVEL:
                self.wrong(f"kind {party} at {self._kinds[party]:.6f} before {other} at {self._kinds[other]:.6f}")

    def _resize(self, count: int) -> None:
        cpu, memory, slots = (max(1, part * count) for part in self._capacity)
        running: dict[tuple[str, str], int] = dict.fromkeys(self._kinds, 0)
        for party in self._charges:
            if self._charges[party]:
                running[party] = round(self._kinds[party] / self._charges[party])
        for load in self._loads:
            shape = load.need.shape
            charge = max(shape[0] / cpu, shape[1] / memory, 1 / slots) if count else 1.0
            self._charges[load.tenant, load.kind] = charge
        self._kinds = {party: running[party] * self._charges[party] for party in self._kinds}
        self._tenants = {
            tenant: sum(share for (name, _), share in self._kinds.items() if name == tenant) for tenant in self._tenants
        }
