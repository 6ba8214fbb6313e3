"""An episode larger than every worker is given up with its reason, not before somebody larger could come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from quintain.fleet import Care, EpisodeLogs, Job, Order, Place, Queue, Register, Room, State, Terms, Worker
from quintain.fleet.peers import Peers, holds, said
from quintain.policy import ScriptedPolicy
from quintain.rollout import Patience
from quintain.testing import FakeEnvironment
from tests.fleet.players import parts, ticket

MIB = 2**20
SMALL, LARGE = Room(cpus=1.0, memory_bytes=100 * MIB), Room(cpus=1.0, memory_bytes=900 * MIB)
NEED = Room(memory_bytes=500 * MIB)
PATIENCE_SECONDS = 30.0


def job(name: str, need: Room) -> Job:
    body = msgspec.json.encode(Order(task=name, group=name, seed=1, need=need))
    return Job(id=f"{name}#0", kind="code", body=body)


def worker(name: str, room: Room, queue: Queue, register: Register, logs: EpisodeLogs) -> Worker:
    care = Care(pause_seconds=0.1, unfit_seconds=0.5, patience=Patience(attempts=1))
    return Worker(name, queue, register, logs, environment=FakeEnvironment(), ticket=ticket, room=room, care=care,
                  policy=ScriptedPolicy({"large": ["right"], "little": ["right"]}))


@pytest.mark.parametrize("somebody_larger", [False, True])
def test_what_fits_nobody_is_given_up_and_what_fits_somebody_is_played(somebody_larger: bool, tmp_path: Path) -> None:
    async def story() -> None:
        async with parts(tmp_path, Terms(lease_seconds=5.0)) as (queue, register, logs):
            jobs = [job("large", NEED), job("little", Room(memory_bytes=MIB))]
            await register.enrol(jobs)
            await queue.put(jobs)
            told = asyncio.Event()
            rooms = {"small-1": SMALL, "small-2": SMALL} | ({"tall": LARGE} if somebody_larger else {})
            async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
                for name, room in rooms.items():
                    group.create_task(worker(name, room, queue, register, logs).work(told))
                while (await register.tally()).open:  # noqa: ASYNC110 - the register sends no event
                    await asyncio.sleep(0.05)
                told.set()
            entry = await register.entry("large#0")
            little = await register.entry("little#0")
            assert little is not None and little.state is State.SETTLED
            assert entry is not None
            if somebody_larger:
                assert entry.state is State.SETTLED
                assert entry.tried[-1].worker == "tall"
                return
            assert entry.state is State.ABANDONED
            assert entry.reason == (
                "house: no worker has room for it: it needs 0 CPUs, 500 MiB of memory; 2 worker(s), the largest has "
                "1 CPUs, 100 MiB of memory")
            [dead] = await queue.peek(place=Place.DEAD)
            assert dead.reason == entry.reason, "and `quintain queue dead` says so too"

    asyncio.run(story())


def test_nobody_is_given_up_before_somebody_larger_could_come(tmp_path: Path) -> None:
    now = [0.0]

    async def story() -> None:
        async with parts(tmp_path) as (_, register, _logs):
            peers = Peers(register, "small", SMALL, clock=lambda: now[0])
            await register.attend("small", msgspec.json.encode(SMALL))
            for at, given_up in ((0.0, False), (59.0, False), (61.0, True)):
                now[0] = at
                assert bool(await peers.verdict("a", NEED, patience_seconds=60.0)) is given_up
            await register.attend("unbounded", msgspec.json.encode(None))
            for at in (61.0, 200.0):
                now[0] = at
                assert not await peers.verdict("b", NEED, patience_seconds=60.0)

    asyncio.run(story())


@pytest.mark.parametrize(("room", "need", "fits"), [
    (SMALL, Room(), True), (SMALL, SMALL, True), (SMALL, Room(cpus=1.001), False), (SMALL, NEED, False),
    (LARGE, Room(inference_tokens=1), False),
])
def test_what_fits_into_an_empty_room(room: Room, need: Room, fits: bool) -> None:
    assert holds(room, need) is fits
    assert "CPUs" in said(need)
