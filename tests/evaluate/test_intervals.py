"""Shares, means and chances come with intervals that mean what they say."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.evaluate import bootstrap, mean_share, pass_all, pass_any, wilson


def test_the_interval_of_a_share_is_wilsons() -> None:
    found = wilson(81, 263)  # Wilson's score interval of 81 of 263, as in Newcombe 1998, table I
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    none = wilson(0, 20)
    assert none.at == none.low == 0.0 and round(none.high, 4) == 0.1611


@given(st.integers(1, 7), st.data())
def test_pass_any_and_pass_all_are_what_counting_all_draws_gives(episodes: int, data: st.DataObject) -> None:
    solved = data.draw(st.integers(0, episodes))
    k = data.draw(st.integers(1, episodes))
    draws = [[n < solved for n in chosen] for chosen in combinations(range(episodes), k)]
    assert pass_any(episodes, solved, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_all(episodes, solved, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@pytest.mark.parametrize(("episodes", "solved", "k"), [(3, 4, 1), (3, 1, 4), (3, -1, 1), (3, 1, 0)])
def test_a_k_beyond_the_episodes_is_refused(episodes: int, solved: int, k: int) -> None:
    with pytest.raises(ValueError, match="k="):
        pass_any(episodes, solved, k)


def test_episodes_of_one_task_are_no_independent_trials() -> None:
    same = mean_share([1.0, 0.0] * 10, [8] * 20)  # each task is always or never solved
    free = mean_share([0.5] * 20, [8] * 20)  # each episode is a coin
    alone = wilson(10, 20)
    assert same.high - same.low == pytest.approx(alone.high - alone.low, rel=0.1)
    assert free.at == same.at and free.high - free.low <= same.high - same.low


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_mean_lies_in_its_own_interval(shares: list[float]) -> None:
    found = mean_share(shares, [4] * len(shares))
    assert 0.0 <= found.low <= found.at + 1e-12 and found.at - 1e-12 <= found.high <= 1.0


def test_the_interval_of_completion_holds_the_truth_about_95_times_in_100() -> None:
    dice, held = random.Random(7), 0
    for _ in range(400):
        chances = [dice.betavariate(1.2, 0.8) for _ in range(40)]  # tasks differ in how hard they are; the mean is 0.6
        shares = [sum(dice.random() < chance for _ in range(4)) / 4 for chance in chances]
        found = mean_share(shares, [4] * 40)
        held += found.low <= 0.6 <= found.high
    assert 0.92 <= held / 400 <= 0.99


def test_redrawing_is_repeatable_and_surrounds_the_mean() -> None:
    values = [float(n) for n in range(50)]
    one, two = bootstrap(values, seed=3), bootstrap(values, seed=3)
    assert one == two and one.low < one.at == 24.5 < one.high
    assert bootstrap([2.0], draws=10).low == 2.0
