"""Hours of a run as its meters show them: real events and the real meters, driven by a seeded generator.

`python bench/_incidents.py FOLDER` writes the recordings of tests/watch/incidents anew.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from quintain.types import (
    Broke,
    Built,
    Closed,
    Fault,
    FaultKind,
    Flag,
    Graded,
    Opened,
    Outcome,
    Owner,
    Passed,
    Program,
    Ran,
    Reward,
    Sampled,
    Score,
    Severity,
    Status,
    Stop,
    TestResult,
    Turn,
    Verdict,
)
from quintain.watch import METRICS, EpisodeMeters, Meters, Snapshot, default_rules, write_recording

BEGINS, MENDED, ENDS, STEP = 3600.0, 5400.0, 6600.0, 60.0
KINDS = ("code", "shell", "ops")
GIB = 2.0**30


@dataclass
class World:
    """What is so at a moment; an incident changes some of it."""

    rate: float = 0.4  # episodes a second, of all kinds together
    crash: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.004))
    lost: float = 0.004
    solved: float = 0.35
    visible_only: float = 0.02  # passes what is shown, and not what is hidden
    hacked: float = 0.001
    turns: float = 3.0
    leaked: int = 0
    disk_free: float = 400 * GIB
    store_seconds: float = 0.0005
    start_seconds: float = 0.02
    workers: int = 8
    stuck: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    queue_taken: bool = True


class Scene:
    """Plays a world forward, step by step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.meters = Meters()
        self._fold = EpisodeMeters(self.meters)
        self._nth = 0
        self._silent_since: dict[int, float] = {}
        self._open = [self._begin(0.0) for _ in range(32)]

    def step(self, world: World, at: float, seconds: float) -> Snapshot:
        draw = self.random
        mean = world.rate * seconds
        count = max(0, round(draw.gauss(mean, math.sqrt(mean))))
        for _ in range(count):
            place = draw.randrange(len(self._open))
            self._end(self._open[place], world)
            self._open[place] = self._begin(at)
        meters = self.meters
        for nth in range(world.workers):
            name = f"worker-{nth}"
            since = self._silent_since.setdefault(nth, at) if nth in world.silent else self._silent_since.pop(nth, at)
            meters.set("quintain_worker_silent_seconds", at - since, worker=name)
            played = 0 if nth in world.stuck | world.silent else max(0, round(draw.gauss(count / world.workers, 1)))
            meters.add("quintain_worker_attempts_total", played, host=f"host-{nth // 2}", worker=name)
        meters.clear("quintain_workers")
        for nth in range(world.workers):
            lives = at - self._silent_since.get(nth, at) < 60.0
            meters.add("quintain_workers", float(lives), host=f"host-{nth // 2}")
        self._rest(world, at, count)
        return meters.snapshot()

    def _rest(self, world: World, at: float, count: int) -> None:
        meters, draw = self.meters, self.random
        meters.set("quintain_sandboxes_leaked", world.leaked)
        meters.set("quintain_sandboxes", 32 + draw.randrange(4), state="in_use")
        meters.set("quintain_host_disk_free_bytes", world.disk_free, host="host-0")
        meters.set("quintain_host_disk_share", 1 - world.disk_free / (1000 * GIB), host="host-0")
        for _ in range(min(40, 8 * count)):
            meters.observe("quintain_store_append_seconds", draw.expovariate(1 / world.store_seconds))
        for _ in range(min(20, count)):
            meters.observe("quintain_sandbox_start_seconds", draw.expovariate(1 / world.start_seconds))
        for _ in range(5):
            meters.observe("quintain_loop_lag_seconds", draw.expovariate(1 / 0.004))
        for kind in KINDS:
            meters.set("quintain_queue_jobs", 300 + draw.randrange(40), kind=kind, place="ready")
            meters.set("quintain_queue_jobs", 10 + draw.randrange(3) if world.queue_taken else 0, kind=kind,
                       place="leased")
            meters.set("quintain_queue_jobs", 0, kind=kind, place="dead")
            meters.set("quintain_queue_stopped", 0.0, kind=kind)
            meters.set("quintain_queue_oldest_seconds", 200.0 + draw.randrange(60), kind=kind)

    def _begin(self, at: float) -> Opened:
        self._nth += 1
        kind = self.random.choices(KINDS, (6, 3, 1))[0]
        opened = Opened(
            episode=f"{kind}-{self._nth}", index=0, at_seconds=0.0, task=f"{kind}-{self._nth % 50}", task_version="v",
            kind=kind, group=f"{kind}-{self._nth // 8}", attempt=1, seed=self._nth, policy="p", unix_seconds=at,
            conversation=(),
        )
        self._fold.feed(opened)
        return opened

    def _end(self, opened: Opened, world: World) -> None:
        draw, feed, kind = self.random, self._fold.feed, opened.kind
        at, index = 0.0, 0

        def stamp(seconds: float) -> dict[str, object]:
            nonlocal at, index
            at, index = at + seconds, index + 1
            return {"episode": opened.episode, "index": index, "at_seconds": at}

        if draw.random() < world.crash[kind]:
            self._break(stamp, FaultKind.SANDBOX_LOST)
            return
        if draw.random() < world.lost:
            self._break(stamp, FaultKind.POLICY_UNREACHABLE)
            return
        solved = draw.random() < world.solved
        hacked = draw.random() < world.hacked
        shown = solved or hacked or draw.random() < world.visible_only
        for turn in range(max(1, round(draw.gauss(world.turns, 1)))):
            passes = shown and turn == 0
            feed(Sampled(**stamp(draw.uniform(2, 8)), turn=Turn(text="x", output_tokens=draw.randrange(50, 400))))
            feed(Built(**stamp(0.01), program=Program(files={})))
            wall = draw.uniform(0.1, 1.0)
            feed(Ran(**stamp(wall + 0.05), verdict=_verdict(passes or shown), outcome=Outcome(
                status=Status.OK, wall_seconds=wall, cpu_seconds=wall / 2, peak_processes=draw.randrange(1, 5),
                peak_memory_bytes=draw.randrange(2**24, 2**28))))
        total = 0.8 if solved or hacked else 0.05 if shown else draw.choice((0.0, 0.1))
        flags = (Flag(detector="tamper", severity=Severity.HARD, evidence="e"),) if hacked else ()
        feed(Graded(**stamp(0.5), final=True, verdict=_verdict(solved), reward=Reward(
            total=total, solved=solved or hacked, flags=flags, scores=(Score(name="solved", value=float(solved)),))))
        feed(Closed(**stamp(0.0), stop=Stop.SOLVED if solved else Stop.TURNS))

    def _break(self, stamp: Callable[[float], dict[str, object]], kind: FaultKind) -> None:
        feed = self._fold.feed
        feed(Broke(**stamp(3.0), fault=Fault(owner=Owner.HOUSE, kind=kind, message="generated")))
        feed(Closed(**stamp(0.0), stop=Stop.BROKEN))


def _verdict(passed: bool) -> Verdict:
    tests = tuple(TestResult(id=str(n), passed=Passed.PASSED if passed else Passed.FAILED) for n in range(2))
    return Verdict(suite="s", level="L4", tests=tests)


@dataclass(frozen=True)
class Incident:
    """What happens between BEGINS and MENDED, which alert must fire within so many seconds, and which others may."""

    changes: Callable[[World, float], None]  # the seconds since it began
    rule: str
    within_seconds: float
    labels: dict[str, str] = field(default_factory=dict)
    may: tuple[str, ...] = ()


def _set(**values: object) -> Callable[[World, float], None]:
    def change(world: World, since: float) -> None:
        for name, value in values.items():
            setattr(world, name, value)

    return change


def _crash_loop(world: World, since: float) -> None:
    world.crash = {**world.crash, "ops": 0.9}


def _leak(world: World, since: float) -> None:
    world.leaked = int(since // 60)


def _filling(world: World, since: float) -> None:
    world.disk_free = max(0.0, 400 * GIB - since * 0.21 * GIB)


INCIDENTS: dict[str, Incident] = {
    "crash-loop": Incident(_crash_loop, "crash-rate", 420.0, {"kind": "ops"}, ("infrastructure-share",)),
    "leak": Incident(_leak, "leak", 1500.0),
    "disk-filling": Incident(_filling, "disk-filling", 900.0, {"host": "host-0"}, ("disk-full",)),
    "hack-outbreak": Incident(_set(hacked=0.25), "hack-rate", 300.0, {"kind": "code"},
                              ("reward-jump", "visible-hidden-gap")),
    "stuck-worker": Incident(_set(stuck=frozenset({3})), "stuck-worker", 1260.0, {"worker": "worker-3"}),
    "slow-store": Incident(_set(store_seconds=0.6), "slow-store", 300.0),
    "reward-jump": Incident(_set(solved=0.97), "reward-jump", 420.0, {"kind": "code"}, ("everything-solved",)),
    "reward-collapse": Incident(_set(solved=0.0), "reward-collapse", 480.0, {"kind": "code"},
                                ("reward-jump",)),
    "house-trouble": Incident(_set(lost=0.35), "infrastructure-share", 420.0),
    "queue-stuck": Incident(_set(queue_taken=False, rate=0.0), "queue-stuck", 600.0, {"kind": "code"},
                            ("completion-drop", "stuck-worker", "queue-old")),
    "completion-drop": Incident(_set(rate=0.06), "completion-drop", 600.0),
    "silent-worker": Incident(_set(silent=frozenset({5})), "silent-worker", 120.0, {"worker": "worker-5"}),
    "hosts-lost": Incident(_set(silent=frozenset({0, 1, 2, 3}), rate=0.2), "workers-lost", 180.0, {},
                           ("silent-worker",)),
    "visible-hidden-gap": Incident(_set(visible_only=0.6), "visible-hidden-gap", 900.0, {"kind": "code"}),
    "shorter-episodes": Incident(_set(turns=1.0), "shorter-episodes", 900.0, {"kind": "code"}),
}


def incident(name: str) -> Iterator[tuple[float, Snapshot]]:
    asked = INCIDENTS[name]
    scene = Scene(seed=sum(name.encode()))
    at = 0.0
    while at <= ENDS:
        world = World()
        world.solved = 0.6 if name == "reward-collapse" else world.solved
        if BEGINS <= at < MENDED:
            asked.changes(world, at - BEGINS)
        yield at, scene.step(world, at, STEP)
        at += STEP


def quiet(hours: float, *, seed: int, step: float = 60.0) -> Iterator[tuple[float, Snapshot]]:
    """Nothing is wrong: the load goes up and down, the policy learns slowly, now and then something crashes, a policy
    takes a break of two minutes, a worker is started again, the disk fills and is cleared."""
    scene = Scene(seed)
    draw = random.Random(seed + 1)
    at, pause_until, gone_until, gone = 0.0, -1.0, -1.0, 0
    while at <= hours * 3600.0:
        world = World()
        world.rate = 0.35 + 0.15 * math.sin(at / 7000.0)
        world.solved = 0.2 + 0.5 * at / 86_400.0
        world.disk_free = (400 - (at % 40_000.0) / 400.0) * GIB
        if draw.random() < step / 9000.0:
            pause_until = at + 120.0
        if draw.random() < step / 14_000.0:
            gone_until, gone = at + 50.0, draw.randrange(world.workers)
        if at < pause_until:
            world.rate *= 0.3
        if at < gone_until:
            world.silent = frozenset({gone})
        yield at, scene.step(world, at, step)
        at += step


def expected(name: str) -> dict[str, object]:
    asked = INCIDENTS[name]
    return {"begins_seconds": BEGINS, "mended_seconds": MENDED, "rule": asked.rule, "labels": asked.labels,
            "within_seconds": asked.within_seconds, "may": list(asked.may)}


def asked_for(moments: Iterator[tuple[float, Snapshot]]) -> Iterator[tuple[float, Snapshot]]:
    """With those metrics only that a shipped rule looks at: a recording need not be large."""
    wanted = {metric for rule in default_rules().rules for metric in METRICS if metric in rule.expression}
    for at, snapshot in moments:
        yield at, Snapshot(series=tuple(
            msgspec.structs.replace(one, value=float(f"{one.value:.6g}")) for one in snapshot.series
            if one.metric in wanted))


def main(folder: Path) -> None:
    for name in INCIDENTS:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        write_recording(place / "recording.jsonl.gz", asked_for(incident(name)))
        (place / "expected.json").write_text(json.dumps(expected(name), indent=1) + "\n")
    place = folder / "quiet"
    place.mkdir(parents=True, exist_ok=True)
    write_recording(place / "recording.jsonl.gz", asked_for(quiet(24.0, seed=11)))
    (place / "expected.json").write_text(json.dumps({"rule": None, "may": []}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
