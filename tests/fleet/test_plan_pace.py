from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.fleet import Pace, Pacing


def driven(pace: Pace, *, knee: float, windows: int, begin: float = 0.0, base: float = 1.0) -> list[int]:
    """A plant that runs as much as it may: latency is flat up to the knee, and grows in proportion beyond it."""
    limits = []
    for n in range(windows):
        at = begin + 5.0 * n
        seconds = base * max(1.0, pace.limit / knee)
        for part in range(5):
            pace.step(seconds, at=at + part, running=pace.limit)
        limits.append(pace.limit)
    return limits


@given(knee=st.integers(4, 2000))
@settings(max_examples=50, deadline=None)
def test_it_finds_where_latency_begins_to_grow(knee: int) -> None:
    """Up to 1.5 times the best latency is well: so it hovers between below the knee and 1.5 times as much,
    and does not creep upwards however long it runs."""
    pace = Pace(Pacing(step=max(1, knee // 50)))
    settled = driven(pace, knee=knee, windows=600)[100:]
    assert max(settled) <= 1.6 * knee + 3
    assert sum(settled) / len(settled) >= 0.9 * knee
    assert min(settled) >= 0.6 * knee - 2


def test_it_shrinks_when_the_plant_does_and_grows_again_with_it() -> None:
    pace = Pace(Pacing(step=4))
    before = driven(pace, knee=100, windows=100)[-20:]
    during = driven(pace, knee=20, windows=40, begin=500.0)[-20:]
    after = driven(pace, knee=100, windows=100, begin=700.0)[-20:]
    assert max(during) < min(before)
    assert min(after) > max(during)


def test_pressure_and_failures_shrink_it_without_any_latency() -> None:
    pace = Pace(Pacing(least=2), start=100)
    pace.press(0.1, at=0.0)
    pace.press(0.95, at=1.0)
    assert pace.press(0.0, at=5.0) == 65
    pace.fail(at=6.0)  # the window after a shrinking only watches
    assert pace.fail(at=10.0) == 65
    assert pace.press(0.0, at=15.0) == 42


def test_a_limit_that_nothing_pushes_against_does_not_grow() -> None:
    pace = Pace(start=10)
    for n in range(50):
        pace.step(1.0, at=float(n), running=3)
    assert pace.limit == 10


@given(
    least=st.integers(1, 5), room=st.integers(0, 50),
    acts=st.lists(st.tuples(st.sampled_from(["step", "press", "fail"]), st.floats(0.0, 10.0), st.floats(0.0, 20.0))),
)
def test_it_stays_within_its_bounds(least: int, room: int, acts: list[tuple[str, float, float]]) -> None:
    pace = Pace(Pacing(least=least, most=least + room))
    now = 0.0
    for act, value, seconds in acts:
        now += seconds
        before = pace.limit
        if act == "step":
            after = pace.step(value, at=now, running=before)
        elif act == "press":
            after = pace.press(value / 10.0, at=now)
        else:
            after = pace.fail(at=now)
        assert least <= after <= least + room
        assert after <= 2 * before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"least": 0}, "expected 1 <= least <= most"), ({"least": 3, "most": 2}, "expected 1 <= least <= most"),
        ({"cut": 1.0}, "cut must be between 0 and 1"), ({"slack": 1.0}, "slack must be greater than 1"),
        ({"window_seconds": 0.0}, "window_seconds must be greater than 0"), ({"step": 0}, "step must be at least 1"),
    ],
)
def test_a_pace_that_cannot_be_is_refused(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pacing(**fields)  # type: ignore[arg-type]


def test_a_start_outside_the_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="start must be from 1 to 10, found 11"):
        Pace(Pacing(most=10), start=11)
