from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.curate import Fairness, Place, Rate, chances, divide, draw, is_flat, systematic, taught
from quintain.types import Episode, Group, Reward, Stop, Trainable

RATES = st.builds(Rate, solved=st.floats(0, 100), unsolved=st.floats(0, 100))
PLACES = st.lists(
    st.builds(
        Place, task=st.integers(0, 10_000).map(lambda n: f"t{n}"), kind=st.sampled_from(["code", "math", "shell"]),
        source=st.sampled_from(["one", "two", "three"]), weight=st.sampled_from([1.0, 1.0, 0.25, 0.0]), rate=RATES,
    ),
    min_size=1, max_size=40, unique_by=lambda place: place.task,
)
FAIRNESS = st.builds(
    Fairness, floor=st.sampled_from([0.0, 0.1, 0.2, 0.4]),
    kinds=st.sampled_from([{}, {"math": 0.3}, {"code": 0.2, "shell": 0.4}]),
    source_at_most=st.sampled_from([1.0, 0.5, 0.3]),
)


@given(places=PLACES, size=st.integers(1, 20), fairness=FAIRNESS)
@settings(deadline=None)
def test_every_task_keeps_its_floor_and_every_place_is_filled(
    places: list[Place], size: int, fairness: Fairness,
) -> None:
    drawn = [place for place in places if place.weight > 0]
    found = chances(places, size=size, fairness=fairness)
    assert set(found) == {place.task for place in drawn}
    count = min(size, len(drawn))
    assert math.fsum(found.values()) == pytest.approx(count, abs=1e-6)
    for place in drawn:
        assert -1e-9 <= found[place.task] <= 1.0 + 1e-9
        assert found[place.task] >= fairness.floor * place.weight * count / len(drawn) - 1e-9


@given(places=PLACES, size=st.integers(1, 20), fairness=FAIRNESS)
@settings(deadline=None)
def test_no_kind_is_below_its_share_unless_it_has_too_few_tasks(
    places: list[Place], size: int, fairness: Fairness,
) -> None:
    drawn = [place for place in places if place.weight > 0]
    count = min(size, len(drawn))
    found = chances(places, size=size, fairness=fairness)
    for kind, share in fairness.kinds.items():
        members = [place.task for place in drawn if place.kind == kind]
        assert sum(found[task] for task in members) >= min(share * count, len(members)) - 1e-6
        batch = draw(places, size=size, seed=3, step=1, fairness=fairness)
        in_it = sum(one.task in members for one in batch)
        assert in_it >= math.floor(min(share * count, len(members)) + 1e-6) or not members


@given(places=PLACES, size=st.integers(1, 20))
@settings(deadline=None)
def test_no_source_is_above_its_share_while_others_have_tasks(places: list[Place], size: int) -> None:
    drawn = [place for place in places if place.weight > 0]
    fairness = Fairness(floor=0.0, source_at_most=0.4)
    found = chances(places, size=size, fairness=fairness)
    for kind in {place.kind for place in drawn}:
        sizes = Counter(place.source for place in drawn if place.kind == kind)
        part = sum(found[place.task] for place in drawn if place.kind == kind)
        if sum(min(number, 0.4 * part) for number in sizes.values()) < part:
            continue  # the others have too few
        for source in sizes:
            own = (place.task for place in drawn if (place.kind, place.source) == (kind, source))
            assert sum(found[task] for task in own) <= 0.4 * part + 1e-6


@given(places=PLACES, size=st.integers(1, 20), seed=st.integers(0, 5), step=st.integers(0, 5))
@settings(deadline=None)
def test_the_same_seed_and_step_draw_the_same_whatever_the_order_of_the_tasks(
    places: list[Place], size: int, seed: int, step: int,
) -> None:
    first = draw(places, size=size, seed=seed, step=step)
    assert draw(list(reversed(places)), size=size, seed=seed, step=step) == first
    assert len({one.task for one in first}) == len(first) == min(size, sum(place.weight > 0 for place in places))


def test_each_task_is_drawn_as_often_as_its_chance_says() -> None:
    places = [Place(task=f"t{n}", rate=Rate(solved=n, unsolved=10 - n)) for n in range(11)]
    found = chances(places, size=4)
    counts = Counter(one.task for step in range(4000) for one in draw(places, size=4, seed=1, step=step))
    for task, chance in found.items():
        assert counts[task] / 4000 == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / 4000))


def test_what_can_be_learnt_is_drawn_more_often_than_what_is_always_or_never_solved() -> None:
    places = [
        Place(task="easy", rate=Rate(solved=60)), Place(task="hard", rate=Rate(unsolved=60)),
        Place(task="half", rate=Rate(solved=30, unsolved=30)), Place(task="new"),
    ]
    found = chances(places, size=1)
    assert found["half"] > 5 * max(found["easy"], found["hard"])
    assert found["new"] > found["easy"]
    assert min(found.values()) >= 0.2 / 4 - 1e-9


def test_a_task_on_probation_is_drawn_at_a_quarter_of_its_weight() -> None:
    places = [Place(task=f"t{n}", weight=0.25 if n == 0 else 1.0) for n in range(10)]
    found = chances(places, size=2, fairness=Fairness(floor=0.0))
    assert found["t0"] == pytest.approx(found["t1"] / 4)


def test_what_was_learnt_long_ago_fades() -> None:
    rate = Rate().after(solved=0, unsolved=64).after(solved=64, unsolved=0)
    assert rate.unsolved == pytest.approx(64 / math.e, rel=0.02)
    assert rate.mean > 0.7


def group(*totals: float | None) -> Group:
    episodes = tuple(
        Episode(
            id=f"t#{n}", task="t", task_version="v", kind="code", group="t", attempt=1, policy="p",
            stop=Stop.SUBMITTED, reward=Reward(
                total=total or 0.0, solved=total == 1.0,
                trainable=Trainable.YES if total is not None else Trainable.MASK,
            ),
        )
        for n, total in enumerate(totals)
    )
    return Group(id="t", task="t", episodes=episodes)


def test_a_group_whose_rewards_are_all_the_same_teaches_nothing() -> None:
    assert is_flat(group(1.0, 1.0))
    assert is_flat(group(1.0, None))
    assert not is_flat(group(1.0, -0.5, None))


def test_masked_attempts_teach_the_curriculum_nothing() -> None:
    rates = taught({}, group(1.0, None, -0.5))
    assert rates["t"].solved == pytest.approx(1.0)
    assert rates["t"].unsolved == pytest.approx(1.0)


@given(
    rows=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=12),
    part=st.floats(0, 1),
)
def test_places_are_divided_within_the_bounds_and_by_weight(
    rows: list[tuple[float, float, float]], part: float,
) -> None:
    lower = [low for _, low, _ in rows]
    upper = [low + more for _, low, more in rows]
    weights = [weight for weight, _, _ in rows]
    places = sum(lower) + part * (sum(upper) - sum(lower))
    parts = divide(places, weights=weights, lower=lower, upper=upper)
    assert sum(parts) == pytest.approx(places, abs=1e-6)
    for got, low, high in zip(parts, lower, upper, strict=True):
        assert low - 1e-9 <= got <= high + 1e-9
    free = [n for n in range(len(rows)) if lower[n] + 1e-6 < parts[n] < upper[n] - 1e-6 and weights[n] > 1e-3]
    for one in free[1:]:
        assert parts[one] / weights[one] == pytest.approx(parts[free[0]] / weights[free[0]], rel=1e-3)


def test_bounds_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(ValueError, match="between the sums of the bounds"):
        divide(3.0, weights=[1.0], lower=[0.0], upper=[1.0])
    with pytest.raises(ValueError, match=r"with floor = 0\.2, at most 1 in all"):
        Fairness(kinds={"code": 0.9})


@given(shares=st.lists(st.floats(0, 1), min_size=1, max_size=30), seed=st.integers(0, 1000))
def test_a_systematic_draw_takes_as_many_of_any_neighbours_as_their_shares_add_up_to(
    shares: list[float], seed: int,
) -> None:
    drawn = systematic(shares, chance=random.Random(seed))
    assert len(set(drawn)) == len(drawn)
    for end in range(1, len(shares) + 1):
        total = math.fsum(shares[:end])
        taken = sum(position < end for position in drawn)
        assert math.floor(total + 1e-6) - 1 < taken + 1e-6 < math.ceil(total - 1e-6) + 1 + 1e-6
