"""A worker holds no more than it has room for, begins all that fits, and lets nobody starve for being large."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.fleet import (
    Asking,
    Berth,
    EpisodeLogs,
    Job,
    MemoryQueue,
    Order,
    Place,
    Register,
    Room,
    Shelf,
    Terms,
    Worker,
    need_of,
    order,
)
from quintain.rollout import Ticket
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Limits, Scopes
from tests.fleet.players import CARE, Patient, ticket

GIB = 1024**3
needs = st.builds(
    Room, cpus=st.sampled_from([0.25, 0.5, 1.0, 2.0]), memory_bytes=st.sampled_from([0, 1, 2, 4]),
    disk_bytes=st.sampled_from([0, 1, 3]), inference_tokens=st.sampled_from([0, 10, 40]))
rooms = st.builds(
    Room, cpus=st.sampled_from([2.0, 4.0]), memory_bytes=st.sampled_from([4, 8]), disk_bytes=st.sampled_from([3, 9]),
    inference_tokens=st.sampled_from([40, 100]))


def total(needs: list[Room]) -> tuple[int, int, int, int]:
    shapes = [need.shape for need in needs]
    return tuple(sum(shape[n] for shape in shapes) for n in range(4))  # type: ignore[return-value]


class House:
    """A worker's berth over a real shelf, step by step under a clock of its own."""

    def __init__(self, room: Room, slots: int, asks: list[tuple[str, Room]]) -> None:
        self.room, self.slots, self.now = room, slots, 0.0
        self.berth = Berth(slots, room, hold_seconds=20.0)
        self.shelf: Shelf[Room] = Shelf(Terms(lease_seconds=1e9))
        self.ends: dict[str, float] = {}
        self.attempts: dict[str, int] = {}
        self.running: dict[str, Room] = {}
        self.began: dict[str, float] = {}
        self.too_big: set[str] = set()
        for nth, (kind, need) in enumerate(asks):
            self.shelf.put(str(nth), need, at=0.0, kind=kind)

    def look(self, seconds: float) -> bool:
        """One turn of a worker's loop; whether anything began."""
        asked = self.berth.asking(self.now)
        kinds = {asked.only} if asked.only is not None else set(self.shelf.kinds()) - asked.without
        if not asked.most or not kinds:
            return False
        found = self.shelf.lease("w", at=self.now, seconds=1e9, most=asked.most, kinds=kinds)
        if not found:
            self.berth.nothing(asked)
        began = False
        for lease in found:
            if self.berth.take(lease.id, lease.kind, lease.body, at=self.now):
                self.running[lease.id], self.ends[lease.id] = lease.body, self.now + seconds
                self.attempts[lease.id] = lease.attempt
                self.began.setdefault(lease.id, self.now)
                began = True
            elif self.berth.could_hold(lease.body):
                assert self.shelf.nack(lease.id, lease.attempt, at=self.now, counts=False)
            else:
                self.too_big.add(lease.id)
                assert self.shelf.dead(lease.id, lease.attempt, at=self.now, reason="too big")
        used = total(list(self.running.values()))
        assert all(has >= uses for has, uses in zip(self.room.shape, used, strict=True)), "never above its room"
        assert len(self.running) <= self.slots
        return began

    def finish(self) -> None:
        """On to when the next episode ends."""
        first = min(self.ends, key=lambda id: (self.ends[id], id))
        self.now = self.ends.pop(first)
        self.berth.leave(first)
        assert self.shelf.ack(first, self.attempts[first], at=self.now)
        del self.running[first]


@settings(max_examples=60, deadline=None)
@given(room=rooms, slots=st.integers(1, 6), asks=st.lists(st.tuples(st.sampled_from("abc"), needs), max_size=25),
       seconds=st.lists(st.floats(0.5, 12.0), min_size=1, max_size=6))
def test_everything_that_fits_is_played_and_never_more_at_once_than_there_is_room_for(
    room: Room, slots: int, asks: list[tuple[str, Room]], seconds: list[float],
) -> None:
    house = House(room, slots, asks)
    turns = 0
    while len(house.began) + len(house.too_big) < len(asks):
        began = house.look(seconds[turns % len(seconds)])
        if not began:
            if house.ends and (turns % 7 == 6 or len(house.running) == slots):
                house.finish()
            else:
                house.now += 1.0  # a worker looks again after a second
                while house.ends and min(house.ends.values()) <= house.now:
                    house.finish()
        turns += 1
        assert turns < 40 * (len(asks) + 5), "something that fits is never begun"
    assert house.too_big == {str(n) for n, (_, need) in enumerate(asks) if not house.berth.could_hold(need)}


def test_a_large_episode_begins_though_small_ones_come_for_ever() -> None:
    house = House(Room(cpus=4.0, memory_bytes=4), 4, [("small", Room(cpus=1.0, memory_bytes=1))] * 200)
    house.shelf.put("large", Room(cpus=4.0, memory_bytes=4), at=0.0, kind="large")
    while "large" not in house.began:
        house.look(7.0 + len(house.began) % 3)
        house.now += 1.0
        while house.ends and min(house.ends.values()) <= house.now:
            house.finish()
        assert house.now < 20.0 + 10.0 + 5.0, "its patience, the longest that ran, and a few looks"


def test_without_a_room_slots_are_all_that_counts() -> None:
    berth = Berth(2)
    huge = Room(cpus=1e6, memory_bytes=10**15)
    assert berth.asking(0.0) == Asking(most=2)
    assert berth.take("a", "k", huge, at=0.0)
    assert berth.take("b", "k", huge, at=0.0)
    assert berth.asking(0.0) == Asking(most=0)
    berth.leave("a")
    assert berth.asking(0.0) == Asking(most=1)


def test_a_kind_that_does_not_fit_is_asked_for_again_when_it_would() -> None:
    berth = Berth(8, Room(cpus=2.0))
    assert berth.take("a", "small", Room(cpus=1.0), at=0.0)
    assert not berth.take("b", "large", Room(cpus=2.0), at=0.0)
    assert berth.asking(1.0) == Asking(most=1, without=frozenset({"large"}))
    assert "large" not in berth.asking(6.0).without, "another worker may have taken it meanwhile"
    assert berth.asking(31.0) == Asking(most=0, only="large"), "from now on the worker is kept clear for it"
    berth.leave("a")
    assert berth.asking(31.0) == Asking(most=1, only="large")
    berth.nothing(berth.asking(31.0))
    assert berth.asking(31.0).only is None


def test_what_an_episode_needs_follows_from_its_limits() -> None:
    turn = Limits(memory_bytes=2 * GIB, disk_bytes=GIB, cpu_seconds=30.0, wall_seconds=120.0)
    item = fake_item("t", limits=Scopes(turn=turn, episode=Limits(memory_bytes=4 * GIB, disk_bytes=4 * GIB)))
    need = need_of(item.task)
    assert need == Room(cpus=0.25, memory_bytes=2 * GIB, disk_bytes=GIB, inference_tokens=65_536)
    job = order(Ticket(item=item, episode="t#0", group="t", seed=1))
    assert msgspec.json.decode(job.body, type=Order).need == need


def test_a_worker_gives_back_what_does_not_fit_and_nothing_is_lost(tmp_path: Path) -> None:
    def job(name: str, memory: int) -> Job:
        body = msgspec.json.encode(Order(task=name, group=name, seed=1, need=Room(memory_bytes=memory)))
        return Job(id=f"{name}#0", kind="large" if memory > 1 else "small", body=body)

    async def main() -> None:
        queue, register = MemoryQueue(Terms(lease_seconds=30.0)), await Register.open(tmp_path / "register.db")
        jobs = [job("one", 1), job("two", 3), job("three", 1), job("whale", 99)]
        await register.enrol(jobs)
        await queue.put(jobs)
        told = asyncio.Event()
        worker = Worker(
            "w", queue, register, EpisodeLogs(tmp_path), environment=FakeEnvironment(), ticket=ticket, slots=3,
            policy=Patient(tmp_path / "turns"), care=msgspec.structs.replace(CARE, pause_seconds=60.0),
            room=Room(memory_bytes=3))
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.work(told))
            async with asyncio.timeout(60):
                while (await register.tally()).settled < 3:  # noqa: ASYNC110 - as a leader would
                    await asyncio.sleep(0.02)
            told.set()
        [whale] = await queue.peek(place=Place.DELAYED)
        assert whale.job.id == "whale#0"
        assert "w is too small for it: it needs" in whale.reason
        await register.aclose()

    asyncio.run(main())
