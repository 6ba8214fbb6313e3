"""A kind of task that kills its sandboxes is stopped, the others lose nothing, and it comes back when it is mended."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from quintain.cli.metered import Sandboxes
from quintain.cli.watching import Eyes, RunSentry, clears, guard_of
from quintain.env import Shown
from quintain.fleet import Care, EpisodeLogs, Job, Order, Queue, Register, SqliteQueue, Terms, Worker, heed, order
from quintain.rollout import Clearance, Collector, Patience, Ticket
from quintain.sandbox import NativeBackend
from quintain.tasks import Item
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Event, Limits, Message, Program, Stop, Turn
from quintain.watch import Gate, Scope, Watch, default_rules
from quintain.watch import Terms as BreakerTerms
from tests.flow.house import needs_sandbox

PATIENCE_SECONDS = 60.0
CARE = Care(faults=10_000, pause_seconds=0.1, drain_seconds=2.0, patience=Patience(attempts=1, pause_seconds=0.0))


class Right:
    name = "right"

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        return Turn(text="right")

    async def aclose(self) -> None:
        """Holds nothing."""


class Boxed(FakeEnvironment):
    """Each run takes a real sandbox; one of the kind `ops` is killed under its program until that is mended."""

    def __init__(self, backend: NativeBackend) -> None:
        super().__init__()
        self._backend = backend
        self.is_mended = False
        self.crashes = 0

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        async with self._backend.open() as (sandbox,):
            if item.task.kind == "ops" and not self.is_mended:
                self.crashes += 1
                os.kill(sandbox.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            await sandbox.run(["true"])
        return await super().run(item, program, episode=episode, limits=limits)


async def until(wanted: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not await wanted():
        assert time.monotonic() < end, "expected it to happen, found that it did not"
        await asyncio.sleep(0.05)


@needs_sandbox
def test_a_kind_that_kills_its_sandboxes_is_stopped_and_comes_back_by_itself(tmp_path: Path) -> None:
    items = {f"{kind}-{n}": fake_item(f"{kind}-{n}", kind=kind) for kind, count in (("code", 40), ("ops", 8))
             for n in range(count)}

    def ticket(job: Job) -> Ticket:
        told = msgspec.json.decode(job.body, type=Order)
        return Ticket(item=items[told.task], episode=job.id, group=told.group, seed=told.seed)

    async def play() -> None:
        backend = NativeBackend()
        environment = Boxed(backend)
        queue: Queue = await SqliteQueue.open(tmp_path / "queue.db", Terms(deliveries=100))
        register = await Register.open(tmp_path / "register.db")
        gate = Gate(tmp_path / "watch" / "gate.json", terms=BreakerTerms(rest_seconds=0.5), poll_seconds=0.05)
        watch = Watch(tmp_path / "watch", "run", default_rules(), gate=gate, look_seconds=0.1)
        sentry = RunSentry(tmp_path / "watch", "w", "h", items, "run")  # type: ignore[arg-type]
        worker = Worker("w", queue, register, EpisodeLogs(tmp_path), environment=environment, policy=Right(),
                        ticket=ticket, slots=4, care=CARE, sentry=sentry)
        jobs = [order(Ticket(item=item, episode=f"{id}#0", group=id, seed=1)) for id, item in items.items()]
        await register.enrol(jobs)
        await queue.put(jobs)
        told = asyncio.Event()

        async def settled(kind: str) -> int:
            entries = [await register.entry(job.id) for job in jobs if job.kind == kind]
            return sum(entry is not None and entry.result is not None for entry in entries)

        async def is_held() -> bool:
            return gate.hold(Scope.KIND, "ops") is not None

        async def code_is_done() -> bool:
            return await settled("code") == 40

        async def all_is_done() -> bool:
            return await settled("code") + await settled("ops") == 48

        async with asyncio.TaskGroup() as group:
            working = group.create_task(worker.work(told))
            beside = [group.create_task(watch.keep_looking()), group.create_task(sentry.keep_beating())]
            heeding = group.create_task(heed(queue, guard_of(gate, "run"), told=told, look_seconds=0.1))
            await until(is_held)
            crashes = environment.crashes
            await until(code_is_done)
            count = (await queue.stats()).kinds["ops"].count
            assert await settled("ops") == 0 and count.total == 8 and count.dead == 0, "none is lost"
            environment.is_mended = True
            await until(all_is_done)
            told.set()
            await working
            await heeding
            for task in beside:
                task.cancel()
        assert crashes <= 30
        assert watch.snapshot.value("quintain_worker_crashes_total") >= 3
        await watch.close()
        await register.aclose()
        await queue.aclose()
        await backend.aclose()

    asyncio.run(play())


def test_a_collector_plays_what_is_stopped_last_and_one_at_a_time_and_loses_nothing(tmp_path: Path) -> None:
    items = [fake_item(f"{kind}-{n}", kind=kind) for n in range(4) for kind in ("ops", "code")]
    begun: list[str] = []
    events: list[Event] = []
    environment = FakeEnvironment(pause_seconds=0.005)

    def clear(item: Item) -> Clearance:
        return Clearance.LAST if item.task.kind == "ops" else Clearance.GO

    def keep(event: Event) -> None:
        if event.index == 0:
            begun.append(event.episode.partition("-")[0])
        events.append(event)

    async def play() -> None:
        collector = Collector(environment, keep, concurrency=3, clears=clear)
        async for group in collector.collect(items, Right(), size=1):
            assert group.episodes[0].stop is Stop.SOLVED

    asyncio.run(play())
    assert sorted(begun) == ["code"] * 4 + ["ops"] * 4
    assert begun.index("ops") >= 3, "what is well goes first"


def test_what_a_person_stops_waits_until_it_is_released(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate.json", poll_seconds=0.0)
    watch = Watch(tmp_path, "run", default_rules(), gate=gate)

    clear = clears(Eyes(watch, Sandboxes(watch.meters)))
    item = fake_item("a", kind="ops")
    assert clear(item) is Clearance.GO
    Gate(tmp_path / "gate.json").stop(Scope.KIND, "ops", reason="mending", by="me")
    assert clear(item) is Clearance.WAIT
    Gate(tmp_path / "gate.json").release(Scope.KIND, "ops")
    assert clear(item) is Clearance.GO
