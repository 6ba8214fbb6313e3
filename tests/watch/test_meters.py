"""Meters are declared once, cannot multiply or lie, and say of a journal what they said live."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.watch import METRICS, EpisodeMeters, Merged, Meters, Part, exposition, metrics_table
from tests.watch.logs import broken, solved

CLOSED = "quintain_attempts_closed_total"
DOCS = Path(__file__).parents[2] / "docs" / "rooms" / "watch.md"


def test_a_flood_of_label_values_is_folded_and_counted() -> None:
    meters = Meters()
    for nth in range(1000):
        meters.add("quintain_attempts_opened_total", kind=f"kind-{nth}")
    shown = meters.snapshot()
    lines = [one for one in shown.series if one.metric == "quintain_attempts_opened_total"]
    assert len(lines) == 33
    assert shown.value("quintain_attempts_opened_total") == 1000
    assert shown.value("quintain_labels_folded_total", metric="quintain_attempts_opened_total") == 968


def test_a_closed_label_takes_nothing_that_is_not_declared() -> None:
    meters = Meters()
    meters.add(CLOSED, kind="code", stop="no such stop")
    assert meters.snapshot().value(CLOSED, stop="other") == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0])
def test_what_is_no_number_or_takes_from_a_counter_is_refused_and_counted(value: float) -> None:
    meters = Meters()
    meters.add(CLOSED, value, kind="code", stop="solved")
    assert meters.snapshot().value(CLOSED) == 0
    assert meters.snapshot().value("quintain_readings_refused_total", metric=CLOSED) == 1


def test_a_metric_or_label_that_is_not_declared_is_an_error() -> None:
    with pytest.raises(KeyError, match="quintain_nothing"):
        Meters().add("quintain_nothing_total")
    with pytest.raises(ValueError, match="expected the labels"):
        Meters().add(CLOSED, kind="code")


def test_a_label_cannot_begin_a_line_of_its_own() -> None:
    meters = Meters()
    meters.add("quintain_attempts_opened_total", kind='a"} 1\nquintain_fake_total 9\\\x1b[2J')
    text = exposition(meters.snapshot())
    assert "\x1b" not in text
    assert not any(line.startswith("quintain_fake") for line in text.splitlines())


def test_the_exposition_is_what_prometheus_reads() -> None:
    meters = Meters()
    for value in (-2.0, 0.05, 0.8, 0.8):
        meters.observe("quintain_reward", value, kind="code")
    text = exposition(meters.snapshot())
    line = re.compile(r'# (HELP|TYPE) \S+ .+|[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? [0-9.e+-]+')
    assert all(line.fullmatch(one) for one in text.splitlines())
    assert 'quintain_reward_bucket{kind="code",le="0.1"} 2' in text
    assert 'quintain_reward_bucket{kind="code",le="+Inf"} 4' in text
    assert 'quintain_reward_count{kind="code"} 4' in text


def test_no_counter_falls_when_a_process_is_started_again() -> None:
    def part(name: str, began: float, count: int) -> Part:
        meters = Meters()
        meters.add(CLOSED, count, kind="code", stop="solved")
        return Part(name, began, meters.snapshot())

    merged = Merged()
    totals = [merged.of(parts).value(CLOSED) for parts in (
        [part("a", 1.0, 10), part("b", 1.0, 5)], [part("a", 1.0, 12), part("b", 2.0, 1)], [part("b", 2.0, 3)])]
    assert totals == [15, 18, 20]


@given(st.lists(st.sampled_from(["solved", "broken"]), max_size=12), st.randoms())
def test_a_journal_read_again_gives_the_same_figures(kinds: list[str], random: object) -> None:
    logs = [solved(f"e{n}", group=f"g{n // 2}", reward=0.1 * n) if kind == "solved" else broken(f"e{n}")
            for n, kind in enumerate(kinds)]
    events = []
    while any(logs):  # side by side, as they come in a run
        log = random.choice([log for log in logs if log])  # type: ignore[attr-defined]
        events.append(log.pop(0))
    shown = []
    for _ in range(2):
        meters = Meters()
        fold = EpisodeMeters(meters)
        for event in events:
            fold.feed(event)
        shown.append(meters.snapshot())
    assert shown[0] == shown[1]
    assert shown[0].value(CLOSED) == len(kinds)
    assert shown[0].value("quintain_attempts_crashed_total") == kinds.count("broken")
    assert shown[0].value("quintain_attempts_open") == 0


def test_the_page_lists_exactly_what_is_declared() -> None:
    page = DOCS.read_text()
    assert metrics_table() in page, "write docs/rooms/watch.md anew: python -c 'from quintain.watch import *; …'"
    assert len(METRICS) == len(set(re.findall(r"^\| `(quintain_\w+)`", page, re.MULTILINE)))
