"""A breaker opens when it is sure and tries again by itself; its stops outlive processes and are undone by a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.watch import Attempted, Breaker, BreakerState, Gate, Scope, Terms, lower_bound
from quintain.watch.blame import Blame
from quintain.watch.breaker import looked, seen

CASE = Path(__file__).parents[3] / "shared" / "cases" / "OB04" / "trace.json"


def after(crashes: list[int], terms: Terms | None = None) -> Breaker:
    breaker = Breaker()
    for nth, crashed in enumerate(crashes):
        breaker = seen(breaker, bool(crashed), at_seconds=float(nth), began_seconds=float(nth), terms=terms or Terms())
    return breaker


def test_three_crashes_in_a_row_are_enough_and_two_are_not() -> None:
    assert after([1, 1]).state is BreakerState.CLOSED
    assert after([1, 1, 1]).state is BreakerState.OPEN
    assert after([0] * 90 + [1] * 5 + [0] * 5).state is BreakerState.CLOSED


@pytest.mark.skipif(not CASE.exists(), reason="needs the handed cases beside the checkout")
def test_the_handed_case_stops_the_sick_type_only() -> None:
    case = json.loads(CASE.read_text())
    stopped = [one["type"] for one in case["streams"] if after(one["crash"]).state is BreakerState.OPEN]
    assert stopped == case["stopped"]


def test_a_probe_that_crashes_doubles_the_rest_and_three_that_go_well_close_it() -> None:
    terms = Terms(rest_seconds=10.0)
    open_ = after([1, 1, 1], terms)
    assert looked(open_, at_seconds=5.0).state is BreakerState.OPEN
    half = looked(open_, at_seconds=12.0)
    assert half.state is BreakerState.HALF_OPEN
    straggler = seen(half, True, at_seconds=13.0, began_seconds=1.0, terms=terms)
    assert straggler == half, "it began before the probes, and says nothing of them"
    again = seen(half, True, at_seconds=13.0, began_seconds=12.5, terms=terms)
    assert (again.state, again.rest_seconds) == (BreakerState.OPEN, 20.0)
    for _ in range(3):
        half = seen(half, False, at_seconds=14.0, began_seconds=13.0, terms=terms)
    assert half == Breaker()


def test_what_goes_well_although_it_is_stopped_closes_it_too() -> None:
    stopped = after([1, 1, 1])
    for began, crashed in ((1.0, 0), (5.0, 0), (6.0, 0), (7.0, 1), (8.0, 0), (9.0, 0)):
        stopped = seen(stopped, bool(crashed), at_seconds=began + 1, began_seconds=began, terms=Terms())
        assert stopped.state is BreakerState.OPEN
    assert stopped.rest_seconds == Terms().rest_seconds
    assert seen(stopped, False, at_seconds=11.0, began_seconds=10.0, terms=Terms()) == Breaker()


def test_a_clock_that_went_back_does_not_keep_it_open_for_ever() -> None:
    open_ = looked(Breaker(state=BreakerState.OPEN, since_seconds=9e9, rest_seconds=30.0), at_seconds=100.0)
    assert looked(open_, at_seconds=131.0).state is BreakerState.HALF_OPEN


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_bound_is_below_the_rate_and_rises_with_the_evidence(crashed: int, well: int) -> None:
    bound = lower_bound(crashed, crashed + well, 3.0)
    assert 0.0 <= bound <= crashed / max(1, crashed + well)
    assert bound <= lower_bound(2 * crashed, 2 * (crashed + well), 3.0) + 1e-12


def crash(gate: Gate, times: int = 3) -> None:
    for _ in range(times):
        gate.saw(Scope.KIND, "ops", True, began_unix_seconds=0.0, fault="sandbox_lost: gone")


def test_a_stop_outlives_its_process_and_is_undone_from_another(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate.json", poll_seconds=0.0)
    crash(gate)
    hold = Gate(tmp_path / "gate.json").hold(Scope.KIND, "ops")
    assert hold is not None
    assert "3 of the last 3 crashed" in hold.reason and "sandbox_lost" in hold.reason
    assert Gate(tmp_path / "gate.json").release(Scope.KIND, "ops")
    assert gate.hold(Scope.KIND, "ops") is None
    gate.look()
    crash(gate, 2)
    assert gate.hold(Scope.KIND, "ops") is None, "its breaker has begun anew"


def test_what_a_person_stopped_is_not_a_breakers_to_open(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate.json", poll_seconds=0.0)
    Gate(tmp_path / "gate.json").stop(Scope.KIND, "ops", reason="mending", by="me")
    for _ in range(9):
        gate.saw(Scope.KIND, "ops", False, began_unix_seconds=0.0)
    crash(gate, 30)
    gate.look()
    hold = gate.hold(Scope.KIND, "ops")
    assert hold is not None and hold.by == "me"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"holds": [{"scope": "moon"}]}', b"[" * 100_000])
def test_a_damaged_file_is_set_aside_and_nothing_is_stopped(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_bytes(content)
    gate = Gate(tmp_path / "gate.json")
    assert gate.holds == ()
    assert (tmp_path / "gate.json.damaged").read_bytes() == content
    crash(gate)
    assert len(gate.holds) == 1


def result(kind: str, *, crashed: bool) -> Attempted:
    return Attempted(episode="e", task="t", kind=kind, began_unix_seconds=0.0, crashed=crashed)


def test_a_crash_is_a_workers_only_where_the_same_kind_goes_well_elsewhere() -> None:
    blame = Blame(lambda scope, key: False)
    first = list(blame.of(result("ops", crashed=True), image="host", worker="a", host="h"))
    assert first == [(Scope.KIND, "ops")], "nothing says that it is the worker's"
    list(blame.of(result("code", crashed=False), worker="b", host="i"))
    second = list(blame.of(result("code", crashed=True), image="img", worker="a", host="h"))
    assert second == [(Scope.KIND, "code"), (Scope.IMAGE, "img"), (Scope.WORKER, "a"), (Scope.HOST, "h")]
    stopped = Blame(lambda scope, key: scope is Scope.WORKER)
    assert list(stopped.of(result("code", crashed=True), worker="a")) == []
