from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quintain.fleet import Count, Full, Gone, Lease, Place, Shelf, Terms

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"


def case(name: str) -> dict[str, object]:
    path = CASES / name / "trace.json"
    if not path.exists():
        pytest.skip(f"needs the handed case {name} beside the checkout")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def shelf(**terms: object) -> Shelf[str]:
    return Shelf(Terms(**terms))  # type: ignore[arg-type]


def one(leases: list[Lease[str]]) -> Lease[str]:
    [lease] = leases
    return lease


def test_an_item_is_handed_out_once_until_its_lease_runs_out() -> None:
    queue = shelf()
    queue.put("a", "work", at=0.0)
    first = one(queue.lease("w1", at=0.0, seconds=30.0))
    assert queue.lease("w2", at=29.9, seconds=30.0) == []
    second = one(queue.lease("w2", at=30.0, seconds=30.0))
    assert (first.attempt, second.attempt) == (1, 2)


def test_a_heartbeat_keeps_a_lease_and_never_shortens_it() -> None:
    queue = shelf()
    queue.put("a", "work", at=0.0)
    lease = one(queue.lease("w1", at=0.0, seconds=30.0))
    assert queue.extend("a", lease.attempt, at=20.0, seconds=30.0)
    assert queue.extend("a", lease.attempt, at=21.0, seconds=1.0)
    assert queue.lease("w2", at=49.9, seconds=1.0) == []
    assert one(queue.lease("w2", at=50.0, seconds=1.0)).attempt == 2


def test_one_heartbeat_keeps_all_that_a_worker_holds_and_names_what_it_lost() -> None:
    queue = shelf()
    for name in "abc":
        queue.put(name, "work", at=0.0)
    leases = queue.lease("w", at=0.0, seconds=10.0, most=3)
    queue.ack("b", 1, at=5.0)
    held = [(lease.id, lease.attempt) for lease in leases]
    assert queue.extend_all([*held, ("a", 2), ("z", 1)], at=9.0, seconds=10.0) == ["b", "a", "z"]
    assert queue.lease("w2", at=18.9, seconds=1.0, most=3) == []
    assert queue.extend_all(held, at=19.0, seconds=10.0) == ["a", "b", "c"]


def test_work_that_is_redelivered_while_it_runs_counts_once() -> None:
    trace = case("QS01")
    wait = float(trace["ack_wait_s"])  # type: ignore[arg-type]
    queue = shelf()
    queue.put("job1", "work", at=0.0)
    first = one(queue.lease("w1", at=0.0, seconds=wait))
    second = one(queue.lease("w2", at=30.0, seconds=100.0))
    accepted = [queue.ack("job1", first.attempt, at=95.0), queue.ack("job1", second.attempt, at=120.0)]
    assert accepted == [False, True]
    assert sum(accepted) == trace["results_for_job1"]


def test_the_late_result_of_an_attempt_that_was_taken_away_is_refused() -> None:
    assert case("QS08")["accepted"] == "s1/a2 only, a1 stored as late"
    queue = shelf()
    queue.put("s1", "work", at=0.0)
    a1 = one(queue.lease("w1", at=0.0, seconds=60.0))
    a2 = one(queue.lease("w2", at=60.0, seconds=60.0))
    assert not queue.ack("s1", a1.attempt, at=80.0)
    assert queue.ack("s1", a2.attempt, at=100.0)
    assert not queue.ack("s1", a2.attempt, at=101.0)


def test_one_that_raises_costs_the_other_255_nothing() -> None:
    trace = case("QS03")
    rollouts = int(trace["rollouts"])  # type: ignore[call-overload]
    queue = shelf(deliveries=1)
    for n in range(rollouts):
        queue.put(str(n), "work", at=0.0)
    leases = queue.lease("w", at=0.0, seconds=60.0, most=rollouts)
    queue.nack(leases[7].id, 1, at=1.0, reason="raised")
    kept = [queue.ack(lease.id, 1, at=2.0) for lease in leases]
    assert kept.count(True) == rollouts - 1
    assert [card.id for card in queue.peek(at=2.0, place=Place.DEAD)] == ["7"]


def test_an_item_that_kills_each_of_its_workers_ends_among_the_dead_and_says_why() -> None:
    heard: list[Gone] = []
    queue: Shelf[str] = Shelf(Terms(deliveries=3), gone=heard.append)
    queue.put("poison", "work", at=0.0)
    for n in range(3):
        assert one(queue.lease(f"w{n}", at=10.0 * n, seconds=10.0)).attempt == n + 1
    assert queue.lease("w3", at=30.0, seconds=10.0) == []
    assert queue.count == Count(dead=1)
    assert [(gone.worker, gone.dead) for gone in heard] == [("w0", False), ("w1", False), ("w2", True)]
    card = queue.get("poison")
    assert card is not None
    assert card.reason == "delivery 3 of 3: lease of attempt 3 ran out on w2"


def test_a_revived_item_has_its_deliveries_before_it_and_keeps_its_fence() -> None:
    queue = shelf(deliveries=1)
    queue.put("a", "work", at=0.0)
    old = one(queue.lease("w", at=0.0, seconds=5.0))
    queue.tick(5.0)
    assert queue.revive("a", at=6.0)
    new = one(queue.lease("w", at=6.0, seconds=5.0))
    assert new.attempt == 2
    assert not queue.ack("a", old.attempt, at=7.0)
    assert queue.ack("a", new.attempt, at=7.0)


def test_what_a_leaving_worker_gives_back_unbegun_was_no_delivery() -> None:
    queue = shelf(deliveries=1)
    queue.put("a", "work", at=0.0)
    for n in range(5):
        lease = one(queue.lease("w", at=float(n), seconds=5.0))
        assert queue.nack("a", lease.attempt, at=float(n), counts=False)
    assert queue.count == Count(ready=1)


def test_a_full_queue_refuses_and_takes_again_once_something_is_done() -> None:
    queue = shelf(bound=2)
    queue.put("a", "work", at=0.0)
    queue.put("b", "work", at=0.0)
    with pytest.raises(Full, match="expected room for 'c', found a bound of 2 for kind ''"):
        queue.put("c", "work", at=0.0)
    queue.ack("a", one(queue.lease("w", at=0.0, seconds=1.0)).attempt, at=0.5)
    assert queue.put("c", "work", at=0.5)


def test_a_stopped_kind_keeps_its_items_and_hands_out_none() -> None:
    queue = shelf()
    queue.put("a", "work", at=0.0, kind="bad")
    queue.put("b", "work", at=0.0, kind="good")
    queue.stop("bad")
    assert [lease.id for lease in queue.lease("w", at=0.0, seconds=9.0, most=5)] == ["b"]
    assert queue.take("a", "w", at=0.0, seconds=9.0) is None
    queue.resume("bad")
    assert [lease.id for lease in queue.lease("w", at=0.0, seconds=9.0, most=5)] == ["a"]


def test_a_new_kind_goes_before_a_flood_of_another() -> None:
    queue = shelf()
    for n in range(1000):
        queue.put(f"flood{n}", "work", at=0.0, kind="flood")
    queue.lease("w", at=0.0, seconds=900.0, most=50)
    queue.put("new", "work", at=10.0, kind="new")
    assert one(queue.lease("w", at=10.0, seconds=900.0)).id == "new"


def test_low_priority_waits_no_longer_than_its_age_allows() -> None:
    """One slot; jobs of high priority come faster than they can be done."""
    trace = case("QS05")
    queue = shelf(ageing_seconds=15.0)
    queue.put("low", "work", at=0.0, priority=0)
    arrivals = [0.9 * n for n in range(667)]
    now, started = 0.0, None
    while started is None:
        while arrivals and arrivals[0] <= now:
            at = arrivals.pop(0)
            queue.put(f"high{at}", "work", at=now, priority=3)
        lease = one(queue.lease("w", at=now, seconds=10.0))
        if lease.id == "low":
            started = now
        queue.ack(lease.id, lease.attempt, at=now + 1.0)
        now += 1.0
    assert 3 * 15.0 <= started <= float(trace["bound_s"])  # type: ignore[arg-type]


class Model(RuleBasedStateMachine):
    """The shelf beside a plain list of what should be true."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.put: dict[str, float] = {}
        self.done: set[str] = set()
        self.leases: dict[str, tuple[int, float]] = {}  # id -> the latest attempt, until when
        self.old: list[tuple[str, int]] = []
        self.ran_out: set[tuple[str, int]] = set()

    @initialize(deliveries=st.integers(1, 4), ageing=st.floats(0.0, 20.0))
    def begin(self, deliveries: int, ageing: float) -> None:
        self.deliveries = deliveries
        self.queue: Shelf[int] = Shelf(
            Terms(bound=5, deliveries=deliveries, ageing_seconds=ageing),
            gone=lambda gone: self.ran_out.add((gone.id, gone.attempt)),
        )

    @rule(kind=st.sampled_from("xyz"), priority=st.integers(-2, 3), delay=st.sampled_from([0.0, 0.0, 4.0]))
    def add(self, kind: str, priority: int, delay: float) -> None:
        id = f"{kind}{len(self.put)}"
        if sum(card.kind == kind for card in self.queue.cards()) == 5:
            assert self.queue.room(kind) == 0
            with pytest.raises(Full):
                self.queue.put(id, 0, at=self.now, kind=kind, priority=priority, delay_seconds=delay)
        else:
            assert self.queue.put(id, 0, at=self.now, kind=kind, priority=priority, delay_seconds=delay)
            self.put[id] = self.now + delay

    @rule(most=st.integers(1, 4), kinds=st.sampled_from([None, ("x",), ("y", "z")]))
    def lease(self, most: int, kinds: tuple[str, ...] | None) -> None:
        ready = {card.id for card in self.queue.peek(at=self.now, most=99) if kinds is None or card.kind in kinds}
        leases = self.queue.lease("w", at=self.now, seconds=5.0, most=most, kinds=kinds)
        assert len(leases) == min(most, len(ready))
        for lease in leases:
            assert lease.id in ready
            assert self.put[lease.id] <= self.now
            attempt, until = self.leases.get(lease.id, (0, 0.0))
            assert lease.attempt == attempt + 1 <= self.deliveries
            assert until <= self.now, "two workers hold one item"
            self.old.append((lease.id, attempt))
            self.leases[lease.id] = (lease.attempt, self.now + 5.0)

    @rule(seconds=st.floats(0.0, 6.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)

    @rule(data=st.data(), how=st.sampled_from(["ack", "extend", "nack", "later", "dead", "stale"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        if how == "stale":
            if self.old:
                id, attempt = data.draw(st.sampled_from(self.old))
                assert not self.queue.ack(id, attempt, at=self.now)
                assert not self.queue.extend(id, attempt, at=self.now, seconds=5.0)
            return
        if not self.leases:
            return
        id = data.draw(st.sampled_from(sorted(self.leases)))
        attempt, until = self.leases[id]
        stands = until > self.now and id not in self.done
        if how == "ack":
            assert self.queue.ack(id, attempt, at=self.now) is stands
            if stands:
                self.done.add(id)
        elif how == "extend":
            assert self.queue.extend(id, attempt, at=self.now, seconds=5.0) is stands
            if stands:
                self.leases[id] = (attempt, max(until, self.now + 5.0))
        elif how == "dead":
            assert self.queue.dead(id, attempt, at=self.now, reason="hopeless") is stands
        else:
            delay = 3.0 if how == "later" else 0.0
            assert self.queue.nack(id, attempt, at=self.now, delay_seconds=delay) is stands
            if stands:
                self.put[id] = self.now + delay
        if stands and how != "extend":
            self.leases[id] = (attempt, self.now)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert {card.id for card in self.queue.cards()} == self.put.keys() - self.done
        assert self.queue.count.total == len(self.queue)
        per_kind = self.queue.counts().values()
        for place in Place:
            assert sum(getattr(count, place.value) for count in per_kind) == getattr(self.queue.count, place.value)


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShelf = Model.TestCase


def test_a_shelf_that_is_used_by_a_planner_only_keeps_no_stale_entries() -> None:
    queue = shelf()
    for n in range(20_000):
        queue.put(str(n), "work", at=float(n))
        lease = queue.take(str(n), "w", at=float(n), seconds=5.0)
        assert lease is not None
        queue.ack(lease.id, lease.attempt, at=float(n))
    assert len(queue) == 0
    assert len(queue._kinds[""].heap) <= 2_000
