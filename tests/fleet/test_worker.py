"""Workers die, hang, are told to go and fall ill, and every episode is played to its end once."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from quintain.env import Work
from quintain.fleet import (
    STALLED,
    Crew,
    EpisodeLogs,
    Left,
    Order,
    Place,
    Queue,
    Reconciled,
    Register,
    Room,
    State,
    Terms,
    Worker,
    order,
    reconcile,
    supervise,
)
from quintain.policy import ScriptedPolicy
from quintain.rollout import Ticket
from quintain.tasks import Item
from quintain.testing import FakeEnvironment, fail_first
from quintain.types import Episode, FaultKind, HouseError, Opened, Reward, Sampled, Stop, TaskError, Verdict
from tests.fleet.players import CARE, TURNS, Patient, item, parts, ticket

ROOT = Path(__file__).parents[2]
SHORT = Terms(lease_seconds=1.0, deliveries=5)
PATIENCE_SECONDS = 60.0


def tickets(*names: str) -> list[Ticket]:
    return [Ticket(item=item(name), episode=f"{name}#0", group=name, seed=7) for name in names]


async def ask(queue: Queue, register: Register, *names: str) -> None:
    jobs = [order(one) for one in tickets(*names)]
    await register.enrol(jobs)
    await queue.put(jobs)


async def until(wanted: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not await wanted():
        assert time.monotonic() < end, "expected it to happen, found that it did not"
        await asyncio.sleep(0.02)


async def settled(register: Register, id: str) -> Episode:
    """Once it is, the episode that counts."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (entry := await register.entry(id)) is None or entry.result is None:
        assert time.monotonic() < until, f"expected a result, found {entry}"
        await asyncio.sleep(0.05)
    return msgspec.json.decode(entry.result, type=Episode)


def player(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.fleet.players", str(folder), *words]


def worker(
    folder: Path, queue: Queue, register: Register, logs: EpisodeLogs, *, environment: FakeEnvironment | None = None,
    pause_seconds: float = 0.0, name: str = "w",
) -> Worker:
    return Worker(name, queue, register, logs, environment=environment or FakeEnvironment(), ticket=ticket, slots=2,
                  policy=Patient(folder / "turns", pause_seconds=pause_seconds), care=CARE)


def test_an_episode_that_was_killed_in_its_middle_goes_on_there_and_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with parts(tmp_path, SHORT) as (queue, register, logs):
            await ask(queue, register, "long")
            dead = await asyncio.create_subprocess_exec(*player(tmp_path, "w1", "20"), cwd=ROOT)
            assert await asyncio.wait_for(dead.wait(), PATIENCE_SECONDS) == -signal.SIGKILL
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker(tmp_path, queue, register, logs, name="w2").work(told))
                episode = await settled(register, "long#0")
                told.set()
            said = [int(line.split()[1]) for line in (tmp_path / "turns").read_text().splitlines()]
            assert said == [*range(1, 21), *range(20, TURNS + 1)], "only the turn in which it died was said again"
            log = logs.read("long#0")
            assert sum(isinstance(event, Opened) for event in log) == 1
            assert [event.turn.policy_version for event in log if isinstance(event, Sampled)] == [
                str(n) for n in range(1, TURNS + 1)]
            entry = await register.entry("long#0")
            assert entry is not None
            assert [one.end.value for one in entry.tried] == ["lost", "accepted"]
        async with parts(tmp_path / "calm", SHORT) as (queue, register, logs):
            await ask(queue, register, "long")
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker(tmp_path / "calm", queue, register, logs).work(told))
                calm = await settled(register, "long#0")
                told.set()
        assert episode.stop is calm.stop is Stop.SOLVED
        assert episode.reward == calm.reward
        assert [turn.text for turn in episode.turns] == [turn.text for turn in calm.turns]

    asyncio.run(story())


def test_a_worker_that_is_told_to_go_gives_back_what_it_has_begun_and_another_goes_on(tmp_path: Path) -> None:
    async def is_under_way() -> bool:
        return len((tmp_path / "turns").read_text().splitlines()) >= 6

    async def story() -> None:
        (tmp_path / "turns").touch()
        async with parts(tmp_path, Terms(lease_seconds=600.0)) as (queue, register, logs):
            await ask(queue, register, "a", "b")
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                going = group.create_task(
                    worker(tmp_path, queue, register, logs, pause_seconds=0.05, name="w1").work(told))
                await until(is_under_way)
                told.set()
            assert going.result() is Left.TOLD
            assert (await queue.stats()).count.ready == 2, "given back, not left to run out"
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker(tmp_path, queue, register, logs, name="w2").work(told))
                for name in ("a#0", "b#0"):
                    assert (await settled(register, name)).solved
                told.set()
            assert sum(isinstance(event, Opened) for event in logs.read("a#0")) == 1

    asyncio.run(story())


def test_a_worker_that_fails_again_and_again_takes_no_more(tmp_path: Path) -> None:
    ill = FakeEnvironment(plan=fail_first(1000, HouseError(FaultKind.SANDBOX_LOST, "gone"), call="grade"))

    async def story() -> None:
        async with parts(tmp_path, Terms(deliveries=100)) as (queue, register, logs):
            await ask(queue, register, *"abcdef")
            assert await worker(tmp_path, queue, register, logs, environment=ill).work(asyncio.Event()) is (
                Left.QUARANTINED)
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker(tmp_path, queue, register, logs, name="well").work(told))
                for name in "abcdef":
                    episode = await settled(register, f"{name}#0")
                    assert episode.solved
                    assert episode.broken is None
                told.set()

    asyncio.run(story())


def test_a_task_that_cannot_be_asked_is_abandoned_with_its_reason(tmp_path: Path) -> None:
    def refuse(job: object) -> Ticket:
        raise TaskError("expected a task, found none", file="task.toml")

    async def story() -> None:
        async with parts(tmp_path) as (queue, register, logs):
            async def is_dead() -> bool:
                return bool(await queue.peek(place=Place.DEAD))

            await ask(queue, register, "a")
            told = asyncio.Event()
            unable = Worker("w", queue, register, logs, environment=FakeEnvironment(), ticket=refuse,
                            policy=Patient(tmp_path / "turns"), care=CARE)
            async with asyncio.TaskGroup() as group:
                group.create_task(unable.work(told))
                await until(is_dead)
                told.set()
            entry = await register.entry("a#0")
            assert entry is not None
            assert entry.state is State.ABANDONED
            assert "task.toml: expected a task, found none" in entry.reason

    asyncio.run(story())


def test_what_was_accepted_and_not_acknowledged_is_not_played_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with parts(tmp_path) as (queue, register, logs):
            async def is_empty() -> bool:
                return not (await queue.stats()).count.total

            await ask(queue, register, "a")
            attempts = await register.begin(["a#0"], "gone")
            await register.accept("a#0", attempts["a#0"], b"{}")
            told = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(worker(tmp_path, queue, register, logs).work(told))
                await until(is_empty)
                told.set()
            assert not (tmp_path / "turns").exists()

    asyncio.run(story())


class Cursed(FakeEnvironment):
    """Breaks in a way that nobody foresaw, over one task."""

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        if item.task.id == "t100":
            raise RuntimeError("nobody foresaw this")
        return await super().grade(item, work, episode=episode, seed=seed)


def test_of_256_episodes_of_which_one_raises_255_have_results_and_one_a_reason(tmp_path: Path) -> None:
    """Case QS03."""
    names = [f"t{n}" for n in range(256)]

    async def story() -> None:
        async with parts(tmp_path, Terms(deliveries=2)) as (queue, register, logs):
            async def is_done() -> bool:
                count = (await queue.stats()).count
                return (count.total, count.dead) == (1, 1)

            await ask(queue, register, *names)
            told = asyncio.Event()
            policy = ScriptedPolicy({name: ["right"] for name in names})
            one = Worker("w", queue, register, logs, environment=Cursed(), policy=policy, ticket=ticket, slots=8,
                         care=CARE)
            async with asyncio.TaskGroup() as group:
                group.create_task(one.work(told))
                await until(is_done)
                told.set()
            assert await reconcile(register, queue) == Reconciled(abandoned=1)
            tally = await register.tally()
            assert (tally.open, tally.settled, tally.abandoned) == (0, 255, 1)
            entry = await register.entry("t100#0")
            assert entry is not None
            assert "nobody foresaw this" in entry.reason

    asyncio.run(story())


def test_a_supervisor_replaces_workers_that_die_and_ends_when_all_is_settled(tmp_path: Path) -> None:
    def command(nth: int) -> list[str]:
        return player(tmp_path, f"w{nth}", *(["30"] if nth == 0 else []))  # the first one always dies in turn 30

    async def story() -> None:
        names = [f"t{n}" for n in range(6)]
        async with parts(tmp_path, SHORT) as (queue, register, _):
            await register.enrol([order(one) for one in tickets(*names)])
            async with asyncio.timeout(PATIENCE_SECONDS):
                tally = await supervise(command, register, queue, told=asyncio.Event(),
                                        crew=Crew(workers=2, look_seconds=0.1))
            assert (tally.open, tally.settled + tally.abandoned) == (0, len(names))
            for name in names:
                entry = await register.entry(f"{name}#0")
                assert entry is not None
                assert entry.state is State.SETTLED or "ran out" in entry.reason
                assert [one.end.value for one in entry.tried].count("accepted") == (entry.state is State.SETTLED)

    asyncio.run(story())


@pytest.mark.parametrize("hangs", [True, False])
def test_a_process_whose_event_loop_hangs_is_ended_and_shows_where(hangs: bool) -> None:
    source = (
        "import asyncio, time\nfrom quintain.fleet import watchdog\n"
        "async def main():\n    async with watchdog(0.5):\n"
        f"        {'time.sleep(60)' if hangs else 'await asyncio.sleep(1.5)'}\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == (STALLED if hangs else 0), done.stderr
    assert ("in main" in done.stderr) is hangs


def test_an_order_of_an_older_or_a_newer_version_is_read() -> None:
    older = msgspec.json.encode({"task": "a", "group": "a", "seed": 7})
    newer = msgspec.json.encode({"task": "a", "group": "a", "seed": 7, "need": {"cpus": 1.0}, "mood": "good"})
    assert msgspec.json.decode(older, type=Order) == Order(task="a", group="a", seed=7)
    assert msgspec.json.decode(newer, type=Order).need == Room(cpus=1.0)


def test_a_crew_ends_with_the_reason_when_its_queue_cannot_be_read_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with parts(tmp_path) as (queue, register, _):
            await register.enrol([order(one) for one in tickets("a", "b")])
            with sqlite3.connect(tmp_path / "queue.db") as database:
                database.execute("drop table jobs")
            crew = Crew(workers=0, look_seconds=0.05, patience_seconds=0.3)
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(HouseError, match=r"no news of the episodes for 0\.3 s: .*queue\.db: no such table"):
                    await supervise(lambda nth: (), register, queue, told=asyncio.Event(), crew=crew)

    asyncio.run(story())
