"""Losses that came together are one event of the place; a kind that kills its own sandboxes is not spared for it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend
from quintain.types import HouseError
from quintain.watch import Attempted, Gate, Scope, Watch, default_rules
from quintain.watch.blame import Blame
from quintain.watch.losses import Losses, Played
from tests.watch.logs import broken, solved


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lost(kind: str, at: float, *, nth: int = 0, worker: str = "w", fault: str = "sandbox_lost: its agent ended",
         ) -> Played:
    return Played(Attempted(episode=f"{kind}#{nth}", task=kind, kind=kind, began_unix_seconds=at - 1.0, crashed=True,
                            fault=fault, ended_unix_seconds=at), "host", worker, "h")


def told(losses: Losses, *played: Played) -> list[tuple[Scope, str]]:
    blame = Blame(lambda scope, key: False)
    for one in played:
        losses.add(one)
    return [about for loss in losses.settled(all_of_them=True) for _, about in blame.of_loss(loss)]


WORKER = [(Scope.WORKER, "w"), (Scope.HOST, "h")]


def test_several_kinds_lost_at_once_are_one_event_of_their_worker() -> None:
    three = [lost("code", 5.0), lost("ops", 5.01), lost("ops", 5.02, nth=1)]
    assert told(Losses(Clock()), *three) == WORKER
    assert told(Losses(Clock()), *(one._replace(worker="", host="") for one in three)) == [], "nobody's without workers"


def test_kinds_that_crash_one_by_one_are_their_own() -> None:
    apart = [lost("code", 5.0), lost("ops", 8.0), lost("ops", 11.0, nth=1)]
    assert told(Losses(Clock()), *apart) == [(Scope.KIND, "code"), (Scope.KIND, "ops"), (Scope.KIND, "ops")]
    elsewhere = [lost("code", 5.0), lost("ops", 5.0, worker="v")]
    assert sorted(told(Losses(Clock()), *elsewhere)) == [(Scope.KIND, "code"), (Scope.KIND, "ops")]
    sick = [lost("code", 5.0, fault="health_check_failed: no"), lost("ops", 5.0)]
    assert told(Losses(Clock()), *sick) == [(Scope.KIND, "code"), (Scope.KIND, "ops")], "no spawner's death does that"


def test_a_kind_that_takes_others_along_again_and_again_is_spared_twice() -> None:
    losses = Losses(Clock())
    for nth in range(2):
        assert told(losses, lost("ops", 9.0 * nth), lost("code", 9.0 * nth)) == WORKER
        losses.went_well("code")
    assert told(losses, lost("ops", 60.0), lost("code", 60.0)) == [(Scope.KIND, "ops"), *WORKER]


def test_many_of_one_kind_at_once_are_the_workers_once_where_it_went_well_before() -> None:
    def four(at: float) -> list[Played]:
        return [lost("ops", at + 0.01 * nth, nth=nth) for nth in range(4)]

    losses = Losses(Clock())
    assert told(losses, *four(5.0)) == [(Scope.KIND, "ops")] * 4, "it never went well: it may well be its own"
    losses.went_well("ops")
    assert told(losses, *four(20.0)) == WORKER
    assert told(losses, *four(40.0)) == [(Scope.KIND, "ops")] * 4, "and once more without one that went well"


def test_what_the_sandbox_room_says_of_its_own_processes_is_no_kinds() -> None:
    ours = lost("ops", 5.0, fault="sandbox_create_failed: the engine has ended: ")
    assert told(Losses(Clock()), ours) == WORKER


def test_a_kind_alone_does_not_wait_for_long() -> None:
    clock = Clock()
    losses = Losses(clock)
    losses.add(lost("ops", 5.0))
    assert losses.settled() == []
    clock.now += 0.31
    assert len(losses.settled()) == 1
    for nth in range(10):
        losses.add(lost("ops", 5.0, nth=nth))
    assert len(losses.settled()) == 1, "many are settled at once"


def test_a_watch_does_not_stop_kinds_whose_sandboxes_the_house_itself_took_away(tmp_path: Path) -> None:
    clock = Clock()
    gate = Gate(tmp_path / "gate.json")
    watch = Watch(tmp_path, "run", default_rules(), gate=gate, ticks=clock)
    for nth in range(3):
        for kind in ("code", "ops"):
            for event in solved(f"{kind}-{nth}", kind=kind):
                watch.event(event)
    for kind in ("code", "ops"):
        for nth in range(4):
            for event in broken(f"{kind}-x{nth}", kind=kind):
                watch.event(event)
    asyncio.run(watch.close())
    assert gate.holds == ()


needs_sandbox = pytest.mark.skipif(not NativeBackend().probe().available, reason="this host offers no sandbox")


def spawner_of(agent: int) -> int:
    return int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])


@needs_sandbox
def test_what_is_seen_of_a_killed_spawner_is_what_losses_know() -> None:
    async def play() -> list[str]:
        async with NativeBackend(engines=1) as backend, backend.open(count=2) as boxes:
            os.kill(spawner_of(boxes[0].pid), signal.SIGKILL)  # type: ignore[attr-defined]  # a native one has it
            said = []
            for box in boxes:
                with pytest.raises(HouseError) as caught:
                    await box.run(["sleep", "30"])
                said.append(str(caught.value))
            return said

    said = asyncio.run(play())
    played = [lost(kind, 5.0, fault=fault) for kind, fault in zip(("code", "ops"), said, strict=True)]
    assert told(Losses(Clock()), *played) == WORKER, said
