"""What a calendar holds comes out in the order of its times, whatever is added meanwhile."""

from __future__ import annotations

import heapq
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.fleet._calendar import Calendar

times = st.one_of(
    st.floats(0.0, 2.0), st.floats(0.0, 1e4), st.floats(1.7e9, 1.8e9), st.floats(-100.0, 0.0), st.just(math.inf),
    st.sampled_from([0.0, 1 / 16, 1.0, 1e300]),
)


@given(st.lists(st.one_of(times, st.none()), max_size=200))
def test_a_calendar_gives_what_a_heap_would_give(steps: list[float | None]) -> None:
    calendar: Calendar[tuple[float, int]] = Calendar()
    heap: list[tuple[float, int]] = []
    for number, at in enumerate(steps):
        if at is not None:
            calendar.add((at, number))
            heapq.heappush(heap, (at, number))
        elif heap:
            assert calendar.take() == heapq.heappop(heap)
        assert bool(calendar) is bool(heap)
        assert calendar.due == (heap[0][0] if heap else math.inf)
    assert [calendar.take() for _ in range(len(heap))] == [heapq.heappop(heap) for _ in range(len(heap))]


def test_an_empty_calendar_has_nothing_to_take() -> None:
    with pytest.raises(IndexError):
        Calendar[tuple[float, int]]().take()
