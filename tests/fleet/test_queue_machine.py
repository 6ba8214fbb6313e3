"""Whatever is done to a queue, in whatever order, nothing is lost, doubled or handed to two."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quintain.fleet import Full, Job, Lease, NatsServer, Place, Queue, Terms
from quintain.testing import QueueOpener
from tests.fleet.servers import in_files, in_memory, nats_running, on_server

_T = TypeVar("_T")
KINDS = ("x", "y.z")
IDS = st.integers(0, 9)
DELAYS = st.sampled_from([0.0, 0.0, 7.0])
SHARES = st.floats(0.0, 1.0)


def job(n: int) -> Job:
    return Job(id=f"job {n}", kind=KINDS[n % 2], priority=n % 3, tenant="t", body=bytes([n]))


class Model(RuleBasedStateMachine):
    """Beside the queue a model of it: where each job is. With a clock of its own time is exact, and so are counts;
    on a server time goes as it goes, leases and delays are long, and no count is expected before it was taken."""

    opener: QueueOpener
    now: list[float]
    exact = True
    number = 0

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.terms = Terms()
        self.ready: set[str] = set()
        self.delayed: dict[str, float] = {}
        self.held: dict[str, Lease[Job]] = {}
        self.dead: set[str] = set()
        self.deliveries: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.stale: list[Lease[Job]] = []
        self.stopped: set[str] = set()
        self.opened: AbstractAsyncContextManager[Queue] | None = None

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        return self.loop.run(work)

    @initialize(deliveries=st.integers(1, 3), bound=st.sampled_from([3, 100]))
    def begin(self, deliveries: int, bound: int) -> None:
        type(self).number += 1
        self.terms = Terms(lease_seconds=10.0 if self.exact else 3600.0, deliveries=deliveries, bound=bound)
        self.opened = self.opener(f"m{self.number}", self.terms)
        self.queue = self.run(self.opened.__aenter__())

    def teardown(self) -> None:
        if self.opened is not None:
            self.run(self.opened.__aexit__(None, None, None))
        self.loop.close()

    def kept(self, kind: str | None = None) -> set[str]:
        found = {*self.ready, *self.delayed, *self.held, *self.dead}
        return found if kind is None else {id for id in found if kind_of(id) == kind}

    def put(self, numbers: list[int], delay: float) -> None:
        delay = delay * (1.0 if self.exact else 1000.0)
        given = [job(n) for n in numbers]
        added: list[str] = []
        full = False
        for one in given:
            if one.id in self.kept() or one.id in added:
                continue
            counted = self.kept(one.kind) - (set() if self.exact else self.dead)
            if len(counted | {id for id in added if kind_of(id) == one.kind}) >= self.terms.bound:
                full = True
                if self.exact:
                    break
                continue
            added.append(one.id)
        try:
            assert self.run(self.queue.put(given, delay_seconds=delay)) == tuple(added)
            assert not full, "expected Full"
        except Full:
            assert full
        for id in added:
            self.deliveries[id] = 0
            self.attempts[id] = 0
            if delay:
                self.delayed[id] = self.now[0] + delay
            else:
                self.ready.add(id)

    def lease(self, most: int, kinds: tuple[str, ...] | None) -> None:
        open_ = {id for id in self.ready if kind_of(id) not in self.stopped and (kinds is None or kind_of(id) in kinds)}
        wait = 0.0 if self.exact or not open_ else 10.0
        found = self.run(self.queue.lease("w", most=most, kinds=kinds, wait_seconds=wait))
        assert len(found) <= most
        assert {lease.id for lease in found} <= open_, "handed out what is held, dead, delayed or stopped"
        assert len({lease.id for lease in found}) == len(found)
        if self.exact:
            assert len(found) == min(most, len(open_))
        else:
            assert found or not open_
        for lease in found:
            assert lease.body == job(int(lease.id[4:]))
            assert lease.attempt > self.attempts[lease.id]
            self.attempts[lease.id] = lease.attempt
            self.deliveries[lease.id] += 1
            assert self.deliveries[lease.id] <= self.terms.deliveries
            self.ready.discard(lease.id)
            self.held[lease.id] = lease

    def some_held(self, share: float) -> list[Lease[Job]]:
        leases = sorted(self.held.values(), key=lambda lease: lease.id)
        return leases[:max(1, round(share * len(leases)))]

    def let_go(self, leases: list[Lease[Job]]) -> None:
        for lease in leases:
            self.stale.append(self.held.pop(lease.id))

    def ack(self, share: float) -> None:
        leases = self.some_held(share)
        assert self.run(self.queue.ack(leases)) == tuple(leases)
        self.let_go(leases)

    def nack(self, share: float, counts: bool, delay: float) -> None:
        leases = self.some_held(share)
        delay = delay * (1.0 if self.exact else 1000.0)
        assert self.run(self.queue.nack(leases, counts=counts, delay_seconds=delay, reason="why")) == tuple(leases)
        self.let_go(leases)
        for lease in leases:
            self.deliveries[lease.id] -= not counts
            self.back(lease.id, delay)

    def back(self, id: str, delay: float = 0.0) -> None:
        if self.deliveries[id] >= self.terms.deliveries:
            self.dead.add(id)
        elif delay:
            self.delayed[id] = self.now[0] + delay
        else:
            self.ready.add(id)

    def bury(self) -> None:
        leases = self.some_held(0.0)
        assert self.run(self.queue.dead(leases, reason="no use")) == tuple(leases)
        self.let_go(leases)
        self.dead |= {lease.id for lease in leases}

    def speak_for_leases_that_are_over(self) -> None:
        late = self.stale[-8:]
        for act in (self.queue.ack, self.queue.nack, self.queue.extend):
            assert self.run(act(late)) == ()
        assert self.run(self.queue.dead(late, reason="late")) == ()

    def extend(self, share: float) -> None:
        leases = self.some_held(share)
        found = self.run(self.queue.extend(leases))
        assert [lease.id for lease in found] == [lease.id for lease in leases]
        for lease in found:
            self.held[lease.id] = lease

    def revive(self, numbers: list[int]) -> None:
        ids = [job(n).id for n in numbers]
        if not self.exact and any(len(self.kept(kind) - self.dead) + len(ids) > self.terms.bound for kind in KINDS):
            return
        found = self.run(self.queue.revive(ids))
        assert set(found) == self.dead & set(ids)
        for id in found:
            self.dead.remove(id)
            self.ready.add(id)
            self.deliveries[id] = 0
            if not self.exact:
                self.attempts[id] = 0  # it is a message of its own there; the token tells them apart

    def stop(self, kind: str) -> None:
        self.run(self.queue.stop(kind))
        self.stopped.add(kind)

    def resume(self, kind: str) -> None:
        self.run(self.queue.resume(kind))
        self.stopped.discard(kind)

    def drain(self, kind: str | None, most: int) -> None:
        found = [one.id for one in self.run(self.queue.drain(kind=kind, most=most))]
        waiting = {id for id in (*self.ready, *self.delayed) if kind in (None, kind_of(id))}
        assert set(found) <= waiting
        if self.exact:
            assert len(found) == min(most, len(waiting))
        self.ready -= set(found)
        for id in found:
            self.delayed.pop(id, None)

    def wait(self, seconds: float) -> None:
        self.now[0] += seconds
        for id in [id for id, until in self.delayed.items() if until <= self.now[0]]:
            del self.delayed[id]
            self.ready.add(id)
        over = [lease for lease in self.held.values() if lease.until_seconds <= self.now[0]]
        self.let_go(over)
        for lease in over:
            self.back(lease.id)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One thing that can be done now. A rule for each would let Hypothesis leave some out for a whole example, and
        without leases nothing of interest happens."""
        possible: list[tuple[str, int, object, dict[str, st.SearchStrategy[object]]]] = [
            ("put", 4, True, {"numbers": st.lists(IDS, min_size=2, max_size=6), "delay": DELAYS}),
            ("lease", 6, self.ready,
             {"most": st.integers(1, 4), "kinds": st.sampled_from([None, KINDS[:1], KINDS[1:]])}),
            ("ack", 2, self.held, {"share": SHARES}),
            ("nack", 3, self.held, {"share": SHARES, "counts": st.booleans(), "delay": DELAYS}),
            ("bury", 1, self.held, {}),
            ("speak_for_leases_that_are_over", 4, self.stale, {}),
            ("extend", 2, self.held, {"share": SHARES}),
            ("revive", 1, self.dead, {"numbers": st.lists(IDS, min_size=5, max_size=10, unique=True)}),
            ("stop", 1, self.stale and not self.stopped, {"kind": st.sampled_from(KINDS)}),
            ("resume", 1, self.stopped, {"kind": st.sampled_from(KINDS)}),
            ("drain", 1, len(self.ready) + len(self.delayed) > 4,
             {"kind": st.sampled_from([None, *KINDS]), "most": st.integers(1, 3)}),
            ("wait", 3, self.exact, {"seconds": st.sampled_from([1.0, 3.0, 10.0])}),
        ]
        names = [name for name, weight, now, _ in possible if now for _ in range(weight)]
        name = data.draw(st.sampled_from(names))
        wanted = next(arguments for other, _, _, arguments in possible if other == name)
        getattr(self, name)(**{key: data.draw(strategy, label=key) for key, strategy in wanted.items()})

    @precondition(lambda self: self.exact)
    @invariant()
    def every_place_holds_what_it_should(self) -> None:
        if self.opened is None:
            return
        places = {Place.READY: self.ready, Place.DELAYED: set(self.delayed), Place.LEASED: set(self.held),
                  Place.DEAD: self.dead}
        count = self.run(self.queue.stats()).count
        for place, ids in places.items():
            assert {kept.job.id for kept in self.run(self.queue.peek(place=place, most=99))} == ids
            assert getattr(count, place.value) == len(ids)

    @precondition(lambda self: not self.exact)
    @invariant()
    def everything_is_somewhere(self) -> None:
        if self.opened is None:
            return

        async def counted() -> tuple[int, int]:
            for _ in range(200):  # an acknowledgement takes the server a moment
                count = (await self.queue.stats()).count
                if (count.total, count.dead) == (len(self.kept()), len(self.dead)):
                    break
                await asyncio.sleep(0.02)
            return count.total, count.dead

        assert self.run(counted()) == (len(self.kept()), len(self.dead))


def kind_of(id: str) -> str:
    return job(int(id[4:])).kind


def prove(opener: QueueOpener, now: list[float], *, exact: bool, examples: int, steps: int) -> None:
    machine = type("Machine", (Model,), {"opener": staticmethod(opener), "now": now, "exact": exact})
    wanted = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(machine, settings=wanted)


def test_memory() -> None:
    now = [1000.0]
    prove(in_memory(lambda: now[0]), now, exact=True, examples=40, steps=40)


def test_sqlite() -> None:
    now = [1000.0]
    with tempfile.TemporaryDirectory() as folder:
        prove(in_files(Path(folder), lambda: now[0]), now, exact=True, examples=15, steps=40)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_running(tmp_path_factory.mktemp("nats")) as server:
        yield server


def test_nats(server: NatsServer) -> None:
    prove(on_server(server), [0.0], exact=False, examples=6, steps=30)
