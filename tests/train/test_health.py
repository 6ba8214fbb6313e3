"""The numbers of a training are read together, and what is wrong is said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.train import (
    Bounds,
    Control,
    Drift,
    DriftBounds,
    DriftMonitor,
    Illness,
    Reading,
    Trajectory,
    alarms,
    contributions,
    drift_of,
    drift_of_rows,
)
from quintain.types import Reward, Score


def course(count: int = 20, **columns) -> list[Reading]:
    """A training of so many updates; each column is a constant or a function of the share of it that is over."""
    def at(value, nth):
        return value(nth / (count - 1)) if callable(value) else value

    return [Reading(step=nth, **{name: at(value, nth) for name, value in columns.items()}) for nth in range(count)]


WELL = {
    "solved": lambda t: 0.2 + 0.4 * t, "held_out": lambda t: 0.2 + 0.3 * t, "reward": lambda t: t, "visible": 0.6,
    "hidden": 0.55, "hack_rate": 0.0, "entropy_nats": lambda t: 1.0 - 0.5 * t, "length_tokens": lambda t: 100 + 50 * t,
    "truncated": 0.02, "useless": 0.4, "house_failures": 0.01, "contributions": lambda t: {"solved": 0.4},
}


def ill(**changed) -> set[Illness]:
    return {alarm.illness for alarm in alarms(course(**{**WELL, **changed}))}


def test_a_training_that_is_well_raises_no_alarm() -> None:
    assert ill() == set()
    assert alarms([]) == () and alarms(course()) == ()


@pytest.mark.parametrize(
    ("illness", "changed"),
    [
        (Illness.COLLAPSE, {"held_out": lambda t: 0.6 - 2 * abs(t - 0.5)}),
        (Illness.NO_SIGNAL, {"useless": lambda t: 0.5 + 0.5 * t}),
        (Illness.ENTROPY, {"entropy_nats": lambda t: 1.0 - 0.99 * t}),
        (Illness.ENTROPY, {"entropy_nats": lambda t: 1.0 + 5.0 * t}),
        (Illness.LENGTH, {"length_tokens": lambda t: 100 + 400 * t, "held_out": 0.3}),
        (Illness.LENGTH, {"truncated": lambda t: 0.5 * t}),
        (Illness.HACKS, {"hack_rate": lambda t: 0.1 * t}),
        (Illness.GAP, {"visible": lambda t: 0.6 + 0.4 * t}),
        (Illness.COMPONENT, {"contributions": lambda t: {"style": 0.1 * t}, "held_out": 0.3}),
        (Illness.HOUSE, {"house_failures": 0.3}),
    ],
)
def test_each_illness_is_seen(illness, changed) -> None:
    assert ill(**changed) == {illness}


def test_what_is_not_measured_is_no_alarm_and_no_health() -> None:
    for name in WELL:
        assert ill(**{name: {} if name == "contributions" else None}) == set()


def test_a_longer_reply_that_solves_more_is_no_illness() -> None:
    assert ill(length_tokens=lambda t: 100 + 900 * t) == set()


def test_a_control_that_learns_is_an_alarm() -> None:
    found = alarms(course(**WELL), control=Control.RANDOM)
    assert [alarm.illness for alarm in found] == [Illness.CONTROL]
    assert "held-out rose by 0.237 under the control random" in found[0].says
    assert alarms(course(**{**WELL, "held_out": 0.3}), control=Control.RANDOM) == ()


def test_one_bad_update_is_no_alarm() -> None:
    readings = course(**WELL)
    readings[-1] = Reading(step=19, useless=1.0, hack_rate=0.0, held_out=0.5)
    assert alarms(readings) == ()


@given(st.lists(st.builds(
    Reading, step=st.integers(0, 99), held_out=st.none() | st.floats(0, 1), entropy_nats=st.none() | st.floats(0, 9),
    length_tokens=st.none() | st.floats(0, 1e6), contributions=st.dictionaries(st.text(max_size=2), st.floats(-1, 1)),
), max_size=30), st.integers(1, 9))
def test_no_course_of_numbers_breaks_the_alarms(readings, window) -> None:
    for alarm in alarms(readings, Bounds(window=window), control=Control.SHUFFLED):
        assert alarm.says and "nan" not in alarm.says


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="window must be at least 1"):
        Bounds(window=0)


def reward(solved: float, style: float | None) -> Reward:
    added = 0.04 * (style or 0.0)
    return Reward(total=0.8 * solved + added, solved=solved > 0, scores=(
        Score(name="solved", value=solved, contribution=0.8 * solved),
        Score(name="style", value=style, contribution=added), Score(name="unused", value=1.0)))


def test_the_parts_of_the_variance_sum_to_the_whole() -> None:
    found = contributions([reward(1.0, 1.0), reward(0.0, 0.5), reward(1.0, None), reward(0.0, 0.0)])
    assert set(found) == {"solved", "style"}
    assert found["solved"].mean == pytest.approx(0.4) and found["style"].measured == 0.75
    assert sum(share.variance_share or 0.0 for share in found.values()) == pytest.approx(1.0)
    assert (found["solved"].variance_share or 0.0) > 0.95
    assert contributions([reward(1.0, 1.0)] * 3)["solved"].variance_share is None
    assert contributions([]) == {}


def test_a_policy_does_not_drift_from_itself() -> None:
    same = drift_of([-1.0, -2.0, math.nan], [-1.0, -2.0, -1.0], [1, 1, 0])
    assert same == Drift(tokens=2, mean=0.0, largest=0.0, kl=0.0, outside=0.0)
    assert DriftBounds().broken_by(same) == ()


def test_a_drift_is_measured_over_sampled_tokens() -> None:
    found = drift_of([-1.0, -1.0, -9.0], [-1.0 + math.log(3), -1.0, 0.0], [True, True, False])
    assert found.mean == pytest.approx(math.log(3) / 2) and found.largest == pytest.approx(math.log(3))
    assert found.kl == pytest.approx((3 - 1 - math.log(3)) / 2) and found.outside == 0.5


def test_the_alarm_is_for_what_lasts_and_at_once_for_the_impossible() -> None:
    monitor = DriftMonitor(patience=2)
    off, fine = drift_of([-1.0], [-1.4], [1]), drift_of([-1.0], [-1.001], [1])
    assert monitor.add(off) is None and monitor.add(fine) is None and monitor.add(off) is None
    said = monitor.add(off)
    assert said is not None and "for 2 batches" in said and "mean 0.4 is above 0.05" in said
    assert monitor.add(fine) is None
    gone = monitor.add(drift_of([-1.0], [-math.inf], [1]))
    assert gone is not None and "1 tokens are impossible" in gone
    with pytest.raises(ValueError, match="patience must be at least 1"):
        DriftMonitor(patience=0)


def test_the_drift_of_a_batch_counts_rows_that_have_log_probabilities() -> None:
    plain = {"group": "g", "task": "t", "token_ids": (1, 2), "loss_mask": (False, True), "policy_versions": ("", "0")}
    rows = [Trajectory(episode="1", logprobs=(0.0, -1.0), **plain), Trajectory(episode="2", **plain)]
    found = drift_of_rows(rows, [[5.0, -1.0], [0.0, 0.0]])
    assert found is not None and (found.tokens, found.mean) == (1, 0.0)
    assert drift_of_rows(rows[1:], [[0.0, 0.0]]) is None
    with pytest.raises(ValueError, match="trajectory 1: expected 2 log-probabilities, found 1"):
        drift_of_rows(rows[:1], [[0.0]])
    with pytest.raises(ValueError, match="of 2 rows, found 0"):
        drift_of_rows(rows, [])
