from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.fleet import (
    Flood,
    Load,
    Placement,
    Planner,
    Report,
    Room,
    Scenario,
    Shelf,
    Weather,
    World,
    simulate,
    usual_loads,
)

GIB = 1024**3
CALM = Weather(hours_to_loss=math.inf, hours_to_cut=math.inf, poison=0.0, faults=0.0, stragglers=0.0)
STORM = Weather(
    hours_to_loss=0.05, hours_to_cut=0.05, repair_seconds=60.0, poison=0.01, faults=0.03, stragglers=0.02,
)


def small(seed: int, weather: Weather, *, episodes: int = 600, fine: float = 0.5, **fields: Any) -> Scenario:
    fields = {"loads": usual_loads(), "hosts": 4, "burst": 50, "backlog": 100} | fields
    return Scenario(
        episodes=episodes, room=Room(cpus=8.0, memory_bytes=16 * GIB), slots=24, weather=weather, seed=seed, fine=fine,
        **fields,
    )


def sound(report: Report) -> bool:
    return not report.violations and report.lost == report.doubled == 0 and (
        report.done + report.dead == report.episodes
    )


@given(seed=st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_in_a_storm_nothing_is_lost_and_nothing_is_doubled(seed: int) -> None:
    """Hosts live for three minutes, and are cut off as often; one episode in a hundred kills its workers."""
    report = simulate(small(seed, STORM))
    assert sound(report), report
    assert report.losses > 5
    assert report.cuts > 5
    assert report.checks >= report.steps


def test_what_the_storm_is_to_show_does_happen() -> None:
    report = simulate(small(3, STORM, episodes=1500))
    assert report.late > 10  # results of attempts that had been taken away
    assert report.resumed > 50  # episodes that went on in their middle
    assert report.refused_events > 10  # journal lines of workers that had lost their lease
    assert report.dead > 5
    assert report.redelivered > 200
    assert report.fairness_checks > 100


def test_the_same_seed_gives_the_same_run() -> None:
    first, second, other = (simulate(small(seed, STORM, episodes=300)) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_in_calm_weather_the_fleet_does_what_an_ideal_one_would() -> None:
    report = simulate(small(0, CALM, episodes=1500, fine=0.0))
    assert sound(report)
    assert report.dead == report.redelivered == 0
    assert 0.95 <= report.utilisation <= 1.0


def test_poison_ends_among_the_dead_and_takes_nothing_else_with_it() -> None:
    report = simulate(small(0, Weather(**(_fields(CALM) | {"poison": 0.1})), episodes=400))
    assert sound(report)
    assert 20 <= report.dead <= 60
    assert report.redelivered == report.dead * 4  # each has five deliveries


def _fields(weather: Weather) -> dict[str, float]:
    return {name: getattr(weather, name) for name in weather.__struct_fields__}


def test_a_new_kind_begins_at_once_in_a_flood_of_another() -> None:
    flood = Load(kind="flood")
    report = simulate(Scenario(
        hosts=20, episodes=0, loads=(flood,), weather=CALM, floods=(
            Flood(at_seconds=0.0, load=flood, count=5_000),
            Flood(at_seconds=45.0, load=Load(kind="new", share=0.0), count=10),
        ),
    ))
    assert sound(report)
    assert report.first_wait_s["new"] < 2.0


def test_low_priority_is_overtaken_for_no_longer_than_its_age_allows() -> None:
    """High priority comes faster than it can be done; each start is checked against everybody who waits."""
    low, high = Load(kind="k", priority=0), Load(kind="k", priority=3)
    floods = [Flood(at_seconds=10.0, load=low, count=20)]
    floods += [Flood(at_seconds=5.0 * n, load=high, count=12) for n in range(60)]
    report = simulate(Scenario(
        hosts=1, room=Room(cpus=20.0, memory_bytes=64 * GIB), slots=64, episodes=0, loads=(low,), floods=tuple(floods),
        weather=CALM,
    ))
    assert sound(report)
    assert 45.0 < report.longest_wait_s["k/0"] < report.longest_wait_s["k/3"]


class Unfenced(Shelf[Any]):
    """Takes a result from whoever brings it."""

    def ack(self, id: str, attempt: int, *, at: float) -> bool:
        card = self.get(id)
        return card is not None and super().ack(id, card.attempt, at=at)


class Forgetful(Shelf[Any]):
    """Loses what is given back."""

    def nack(self, id: str, attempt: int, **how: Any) -> bool:
        return super().nack(id, attempt, **how) and self.drop(id)


class Impatient(Shelf[Any]):
    """Hears no heartbeat, and says that it did."""

    def extend_all(self, held: Any, *, at: float, seconds: float) -> list[str]:
        return super().extend_all(held, at=at, seconds=0.0)


class Greedy(Planner):
    """Believes that every host has a little more than it has."""

    def host(self, name: str, room: Room, *, slots: int) -> None:
        super().host(name, Room(cpus=room.cpus + 1.0, memory_bytes=room.memory_bytes), slots=slots)


class Unfair(Planner):
    """Takes every tenant for the same, and so serves whoever asks most."""

    def offer(self, ask: Any, *, at: float) -> None:
        super().offer(type(ask)(id=ask.id, need=ask.need, kind=ask.kind, priority=ask.priority), at=at)


class Ageless(Planner):
    """Serves the latest first."""

    def offer(self, ask: Any, *, at: float) -> None:
        super().offer(ask, at=-at)


class Leaky(Planner):
    """Never gives back what a lost host had."""

    def lose(self, name: str) -> list[str]:
        return super().lose(name)[1:]


class Twice(Planner):
    """Decides one thing twice."""

    def decide(self, at: float, **how: Any) -> list[Placement]:
        found = super().decide(at, **how)
        return [*found, *found[:1]] if len(found) == 7 else found


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"shelf": Unfenced}, "a result was taken"), ({"shelf": Forgetful}, "is nowhere"),
        ({"shelf": Impatient}, "its lease ran out before its time"),
        ({"planner": Greedy}, "is above its capacity"), ({"planner": Unfair}, "tenant lab at"),
        ({"planner": Ageless}, "which has aged more"), ({"planner": Leaky}, "left with something on it"),
        ({"planner": Twice}, "was placed and is not ready"),
    ],
)
def test_the_checks_see_each_promise_that_is_broken(broken: dict[str, Any], words: str) -> None:
    world = World(small(5, STORM, episodes=700), **broken)
    for _ in range(20_000):
        if any(words in violation for violation in world.audit.violations) or not world.step():
            break
    assert any(words in violation for violation in world.audit.violations), world.audit.violations
