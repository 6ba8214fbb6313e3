"""The statistics of spot checks, against the numbers that are known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.guard import (
    Candidate,
    Drawn,
    Reviewer,
    Sequential,
    Sprt,
    Stratum,
    draw,
    lower_bound,
    reviews_needed,
    uniform_estimate,
    upper_bound,
    weighted_estimate,
)
from quintain.guard.audit import at_most


@pytest.mark.parametrize(
    ("rate", "count"), [(0.05, 59), (0.02, 149), (0.01, 299), (0.005, 598), (0.001, 2995)],
)
def test_the_known_numbers_of_reviews(rate: float, count: int) -> None:
    assert reviews_needed(rate) == count
    assert upper_bound(0, count) <= rate < upper_bound(0, count - 1)


def test_a_reviewer_who_misses_some_must_look_at_more() -> None:
    assert reviews_needed(0.01, sensitivity=0.9) == 332
    assert upper_bound(0, 300, sensitivity=0.8) == pytest.approx(upper_bound(0, 300) / 0.8)


@pytest.mark.parametrize(
    ("hits", "count", "percent"), [(0, 300, 0.99), (1, 300, 1.57), (3, 300, 2.56), (0, 1000, 0.30), (3, 1000, 0.77)],
)
def test_the_known_upper_bounds(hits: int, count: int, percent: float) -> None:
    assert round(100 * upper_bound(hits, count), 2) == percent


@pytest.mark.parametrize(
    ("found", "of", "bound"), [(20, 20, 0.8609), (18, 20, 0.7174), (0, 20, 0.0), (1, 300, 0.00017)],
)
def test_lower_bounds(found: int, of: int, bound: float) -> None:
    assert lower_bound(found, of) == pytest.approx(bound, abs=5e-5)


@given(st.integers(1, 400), st.data())
def test_the_two_bounds_mirror_each_other(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    assert lower_bound(hits, count) == pytest.approx(1 - upper_bound(count - hits, count), abs=1e-9)
    assert lower_bound(hits, count) <= hits / count <= upper_bound(hits, count)


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_tail_is_the_sum_of_the_binomial(count: int, rate: float) -> None:
    for hits in (0, count // 2, count):
        direct = sum(math.comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(hits + 1))
        assert at_most(hits, count, rate) == pytest.approx(direct, abs=1e-9)


def test_the_sequential_test_takes_as_many_reviews_as_wald_says() -> None:
    test = Sprt()
    assert round(test.expected_reviews(alarming=False)) == 551
    assert round(test.expected_reviews(alarming=True)) == 326


def test_the_sequential_test_errs_as_seldom_as_it_claims() -> None:
    test, chance = Sprt(accepted=0.02, alarming=0.10), random.Random(7)
    wrong = {0.02: 0, 0.10: 0}
    for rate in wrong:
        for _ in range(400):
            hits = reviewed = 0
            while (said := test.decide(hits, reviewed)) is Sequential.GO_ON:
                reviewed += 1
                hits += chance.random() < rate
            wrong[rate] += said is (Sequential.HIGH if rate == 0.02 else Sequential.LOW)
    assert wrong[0.02] / 400 <= 0.08
    assert wrong[0.10] / 400 <= 0.08


def test_nothing_reviewed_proves_nothing() -> None:
    assert upper_bound(0, 0) == 1.0
    assert Sprt().decide(0, 0) is Sequential.GO_ON
    assert uniform_estimate([]).upper == weighted_estimate([]).upper == 1.0
    assert uniform_estimate([]).rate is None


def population(count: int, hacks: int) -> tuple[list[Candidate], set[str]]:
    """Hacks are paid best and behave alike in pairs; the rest is many and alike."""
    names = [f"a{n:05d}" for n in range(count)]
    bad = set(names[:hacks])
    return [
        Candidate(attempt=name, task=f"t{n % 50}", reward=0.89 if name in bad else 0.5 + (n % 300) / 1000,
                  behaviour=f"hack{n // 2}" if name in bad else "common")
        for n, name in enumerate(names)
    ], bad


def test_half_is_drawn_from_the_best_paid_and_a_quarter_each_from_the_new_and_from_all() -> None:
    candidates, _ = population(10_000, 400)
    drawn = draw(candidates, 300, seed=5)
    counts = {stratum: sum(stratum in one.strata for one in drawn) for stratum in Stratum}
    assert counts == {Stratum.TOP: 150, Stratum.NEW: 75, Stratum.UNIFORM: 75, Stratum.ALL: 0}
    assert drawn == draw(list(reversed(candidates)), 300, seed=5)
    assert drawn != draw(candidates, 300, seed=6)


def test_behaviours_that_were_seen_before_are_not_new() -> None:
    candidates, _ = population(1_000, 40)
    drawn = draw(candidates, 100, seed=5, known={f"hack{n}": 9 for n in range(20)})
    assert all(Stratum.NEW not in one.strata for one in drawn)


def test_every_attempt_at_a_task_with_a_confirmed_hack_is_drawn() -> None:
    candidates, _ = population(1_000, 10)
    drawn = {one.attempt: one for one in draw(candidates, 40, seed=0, hot=frozenset({"t7"}))}
    of_task = [c.attempt for c in candidates if c.task == "t7"]
    assert all(drawn[name].probability == 1.0 and drawn[name].strata == (Stratum.ALL,) for name in of_task)


def test_the_probability_of_each_is_how_often_it_is_drawn() -> None:
    candidates, _ = population(200, 10)
    often = dict.fromkeys((c.attempt for c in candidates), 0)
    stated: dict[str, float] = {}
    for seed in range(400):
        for one in draw(candidates, 40, seed=seed):
            often[one.attempt] += 1
            if one.attempt == "a00001":
                stated[one.attempt] = one.probability
    assert often["a00001"] / 400 == pytest.approx(stated["a00001"], abs=0.06)


def test_the_weighted_and_the_uniform_estimate_are_right_on_average_where_the_plain_one_is_not() -> None:
    candidates, bad = population(2_000, 100)
    plain, uniform, weighted = [], [], []
    for seed in range(100):
        reviewed = [(one, one.attempt in bad) for one in draw(candidates, 200, seed=seed)]
        plain.append(sum(hack for _, hack in reviewed) / len(reviewed))
        uniform.append(uniform_estimate(reviewed).rate or 0.0)
        weighted.append(weighted_estimate(reviewed).rate or 0.0)
    assert sum(plain) / 100 > 0.3, "the best paid and the new hold most of the hacks"
    assert sum(uniform) / 100 == pytest.approx(0.05, abs=0.008)
    assert sum(weighted) / 100 == pytest.approx(0.05, abs=0.008)


def test_the_upper_bound_of_the_uniform_part_holds_in_nineteen_of_twenty_draws() -> None:
    candidates, bad = population(2_000, 100)
    held = sum(
        uniform_estimate([(one, one.attempt in bad) for one in draw(candidates, 200, seed=seed)]).upper >= 0.05
        for seed in range(100))
    assert held >= 0.92 * 100


def test_seeds_measure_the_reviewer() -> None:
    reviewer = Reviewer(hacks=20, found=18, honest=20, condemned=1)
    assert reviewer.sensitivity == 0.9
    assert reviewer.false_alarms == 0.05
    assert reviewer.sensitivity_at_least == pytest.approx(0.7174, abs=1e-4)
    assert reviewer.corrected(0.05) == pytest.approx(0.0)
    assert reviewer.corrected(0.475) == pytest.approx(0.5)
    assert Reviewer(hacks=10, found=1, honest=10, condemned=5).corrected(0.3) is None
    assert Reviewer().sensitivity is None


@pytest.mark.parametrize("call", [
    lambda: reviews_needed(0.0), lambda: reviews_needed(0.1, confidence=1.0), lambda: upper_bound(3, 2),
    lambda: lower_bound(-1, 2), lambda: Sprt(accepted=0.1, alarming=0.1), lambda: draw([], -1, seed=0),
])
def test_what_cannot_be_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="found"):
        call()


def test_a_drawn_attempt_says_its_strata() -> None:
    assert Drawn(attempt="a", strata=(Stratum.TOP,), probability=0.5).strata == (Stratum.TOP,)
