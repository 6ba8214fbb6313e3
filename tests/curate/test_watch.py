from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from quintain.curate import (
    Bounds,
    Chart,
    Ending,
    HealthLedger,
    HealthWatch,
    House,
    Run,
    Sighting,
    State,
    Why,
    cleared,
    questioned,
    runs_of,
    sightings,
    trouble,
    weight_of,
    with_run,
)
from quintain.policy import FunctionPolicy
from quintain.rollout import Collector, Patience
from quintain.testing import FakeEnvironment, fail_sometimes, fake_item
from quintain.types import (
    Event,
    Fault,
    FaultKind,
    Group,
    HouseError,
    Opened,
    Owner,
    Passed,
    Program,
    TaskError,
    TestResult,
    Verdict,
)

ITEMS = [fake_item(f"task{n}") for n in range(4)]
RIGHT = FunctionPolicy(lambda conversation, task, seed: f"right {seed}", name="right")
QUIET = House(attempts=2000, broken=2)


def ledger_of(path: Path, *items: str, bounds: Bounds | None = None) -> HealthLedger:
    ledger = HealthLedger(path / "health.jsonl", bounds=bounds)
    ledger.admit([item.task for item in ITEMS if item.task.id in items or not items], evidence="fit")
    return ledger


def see(watch: HealthWatch, task: str, ending: Ending, *, times: int = 1, **fields: object) -> None:
    version = next(item.task.version for item in ITEMS if item.task.id == task)
    for n in range(times):
        watch.see(Sighting(task=task, version=version, episode=f"{task}#{n}", ending=ending, **fields))  # type: ignore[arg-type]


def failing(answer: str, *tests: str, trials: int = 1) -> Run:
    return Run(trials=trials, failed=tests or ("t::a",), answer=answer)


async def play(watch: HealthWatch, *, size: int, environment: FakeEnvironment | None = None) -> list[Group]:
    collector = Collector(
        environment or FakeEnvironment(), lambda event: None, concurrency=2, watch=watch.watch, admits=watch.admits,
        patience=Patience(pause_seconds=0.0),
    )
    async with collector.collecting(ITEMS, RIGHT, size=size) as groups:
        return [group async for group in groups]


def test_a_task_leaves_probation_after_enough_verdicts_and_is_suspended_when_all_are_solved(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, bounds=Bounds(probation_verdicts=5, stuck_for=12))
    watch = HealthWatch(ledger)
    assert weight_of(ledger.standings["task0"]) == 0.25
    groups = {group.task: group for group in asyncio.run(play(watch, size=30))}
    for task in groups:
        moves = ledger.standings[task].moves
        assert [(move.to, move.why) for move in moves] == [
            (State.PROBATION, Why.ADMITTED), (State.ACTIVE, Why.PROVEN), (State.SUSPENDED, Why.ALWAYS_SOLVED),
        ]
        assert set(groups[task].rewards_G) == {None}
        assert 12 <= len(groups[task].episodes) <= 13, "one more was in hand when the task was suspended"


def test_what_is_not_in_the_ledger_is_not_played(tmp_path: Path) -> None:
    groups = asyncio.run(play(HealthWatch(ledger_of(tmp_path, "task1")), size=2))
    assert [group.task for group in groups] == ["task1"]


def test_what_another_process_suspends_leaves_the_schedule_once_it_is_looked_at(tmp_path: Path) -> None:
    now = 0.0
    watch = HealthWatch(ledger_of(tmp_path), poll_seconds=1.0, clock=lambda: now)
    assert watch.admits("task0")
    HealthLedger(tmp_path / "health.jsonl").move("task0", State.SUSPENDED, Why.BY_HAND, by="me")
    now = 1.0
    assert not watch.admits("task0")
    assert watch.admits("task1")


def test_a_task_that_crashes_is_suspended_and_one_bad_hour_of_the_house_suspends_nobody(tmp_path: Path) -> None:
    lost = FakeEnvironment(plan=fail_sometimes(0.3, [HouseError(FaultKind.SANDBOX_LOST, "gone")], seed=1))
    ledger = ledger_of(tmp_path, bounds=Bounds(stuck_for=10_000))
    asyncio.run(play(HealthWatch(ledger), size=60, environment=lost))
    assert {one.state for one in ledger.standings.values()} <= {State.PROBATION, State.ACTIVE}
    broken = FakeEnvironment(plan=fail_sometimes(0.3, [TaskError("no such file: data.csv")], seed=1))
    asyncio.run(play(HealthWatch(ledger), size=60, environment=broken))
    assert {one.moves[-1].why for one in ledger.standings.values()} == {Why.CRASHES}


def test_a_task_whose_sandbox_fails_while_the_others_do_well_is_suspended(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    watch = HealthWatch(ledger)
    for _ in range(100):
        see(watch, "task1", Ending.SOLVED)
        see(watch, "task2", Ending.UNSOLVED)
    see(watch, "task0", Ending.INFRASTRUCTURE, times=4)
    assert ledger.standings["task0"].state is State.PROBATION
    see(watch, "task0", Ending.INFRASTRUCTURE)
    assert ledger.standings["task0"].moves[-1].why is Why.INFRASTRUCTURE


@pytest.mark.parametrize(("endings", "why"), [
    ("S" * 190 + "T" * 4, None), ("S" * 190 + "T" * 5, Why.TAMPER), ("U" * 50 + "C" * 10, None),
    ("U" * 50 + "C" * 11, Why.CRASHES), ("S" * 499, None), ("S" * 500, Why.ALWAYS_SOLVED),
    ("U" * 500, Why.NEVER_SOLVED), ("U" + "S" * 499, None), ("SJ" * 499, None), ("I" * 5 + "S", Why.INFRASTRUCTURE),
])
def test_the_bounds_are_where_they_are_said_to_be(endings: str, why: Why | None) -> None:
    found = trouble(Chart(endings=endings), Bounds(), house=QUIET, has_oracle=True)
    assert (found.why if found else None) is why


@pytest.mark.parametrize(("pairs", "why"), [
    ("b" * 70 + "v" * 30, Why.GAP), ("b" * 85 + "v" * 15, None), ("v" * 3, None),
    ("v" * 40 + "h" * 30 + "b" * 30, None),
    ("", None),
])
def test_a_large_gap_that_is_no_accident_suspends(pairs: str, why: Why | None) -> None:
    found = trouble(Chart(pairs=pairs), Bounds(), house=QUIET, has_oracle=True)
    assert (found.why if found else None) is why


def test_one_answer_that_throws_dice_condemns_no_test() -> None:
    chart = Chart()
    for _ in range(200):
        chart = with_run(chart, failing("abc"))
    assert chart.failures == {"t::a": 1}
    assert trouble(chart, Bounds(), house=QUIET, has_oracle=False) is None


def test_answers_alone_condemn_only_where_no_authors_answer_can_be_asked() -> None:
    chart = Chart(trials=100)
    for n in range(20):
        chart = with_run(chart, failing(f"answer{n}"))
    alone = trouble(chart, Bounds(), house=QUIET, has_oracle=False)
    assert alone is not None
    assert alone.why is Why.FLAKY
    assert alone.tests == ("t::a",)
    assert trouble(chart, Bounds(), house=QUIET, has_oracle=True) is None
    assert questioned(chart, Bounds()) == ("t::a",)
    asked = with_run(with_run(with_run(chart, failing("")), Run(trials=2)), failing(""))
    assert trouble(asked, Bounds(), house=QUIET, has_oracle=True) is not None


def test_the_authors_answer_acquits_a_test_that_only_answers_accuse(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "task0", bounds=Bounds(control_runs=60))
    watch = HealthWatch(ledger, has_oracle=lambda task: True)
    for n in range(20):
        see(watch, "task0", Ending.TORN, runs=(failing(f"answer{n}"),))
    assert watch.questioned() == {"task0": ("t::a",)}
    for _ in range(30):
        watch.saw_control("task0", ITEMS[0].task.version, Run(trials=2))
    assert watch.questioned() == {}
    assert watch.chart("task0").failures == {}
    assert ledger.standings["task0"].state is State.PROBATION


def test_an_authors_answer_that_fails_again_and_again_is_no_flake(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "task0")
    watch = HealthWatch(ledger, has_oracle=lambda task: True)
    version = ITEMS[0].task.version
    for _ in range(60):
        watch.saw_control("task0", version, Run(trials=2))
    for run in (failing(""), failing(""), Run(trials=2), failing(""), failing("")):
        watch.saw_control("task0", version, run)
    assert ledger.standings["task0"].state.is_drawn
    watch.saw_control("task0", version, failing(""))
    assert ledger.standings["task0"].moves[-1].why is Why.ORACLE_FAILED


def test_what_was_seen_is_known_to_the_next_run(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "task0")
    watch = HealthWatch(ledger)
    see(watch, "task0", Ending.SOLVED, times=30, runs=(Run(trials=2, answer="x"),))
    watch.close()
    after = HealthWatch(HealthLedger(ledger.path))
    see(after, "task0", Ending.TORN, runs=(failing("y"),))
    assert after.chart("task0").verdicts == 31
    assert after.chart("task0").trials == 61


def test_another_version_of_a_task_is_not_counted(tmp_path: Path) -> None:
    watch = HealthWatch(ledger_of(tmp_path, "task0"))
    watch.see(Sighting(task="task0", version="old", episode="e", ending=Ending.TAMPER))
    assert watch.chart("task0") == Chart()


def test_a_test_that_was_acquitted_begins_anew_and_can_be_condemned_later() -> None:
    chart = with_run(with_run(Chart(trials=900), failing("x", "t::a", "t::b")), failing("y", "t::b"))
    left = cleared(chart, ["t::a"])
    assert left.failures == {"t::b": 2}
    assert (left.trials_of("t::a"), left.trials_of("t::b")) == (0, 902)
    assert left.incidents == (("t::b",), ("t::b",))
    for n in range(3):
        left = with_run(left, failing(f"new{n}"))
    found = trouble(left, Bounds(), house=QUIET, has_oracle=False)
    assert found is not None
    assert found.tests == ("t::a",)


def test_the_events_of_a_run_say_the_same_as_the_run_while_it_was_played(tmp_path: Path) -> None:
    events: list[Event] = []
    live: list[Sighting] = []

    class Noting(HealthWatch):
        def see(self, sighting: Sighting) -> None:
            live.append(sighting)

    watch = Noting(ledger_of(tmp_path))
    flaky = FakeEnvironment(plan=fail_sometimes(0.2, [HouseError(FaultKind.VERIFIER_ERROR, "sick")], seed=4))
    collector = Collector(flaky, events.append, watch=watch.watch, patience=Patience(pause_seconds=0.0))

    async def main() -> None:
        async with collector.collecting(ITEMS, RIGHT, size=5) as groups:
            async for _ in groups:
                pass

    asyncio.run(main())
    assert list(sightings(events)) == live
    opened = sum(isinstance(event, Opened) for event in events)
    assert len(live) == opened, "each attempt says something, those that the house broke too"
    kinds = Counter(one.ending for one in live)
    assert kinds[Ending.SOLVED] >= 10
    assert kinds[Ending.CRASH] == opened - kinds[Ending.SOLVED] > 0


def test_only_tests_on_which_runs_disagree_accuse_anybody() -> None:
    def result(id: str, kind: FaultKind | None) -> TestResult:
        owner = Owner.HOUSE if kind is FaultKind.CONFLICTING_RUNS else Owner.POLICY
        fault = Fault(owner=owner, kind=kind, message="no") if kind else None
        return TestResult(id=id, passed=Passed.FAILED if kind else Passed.PASSED, fault=fault)

    def runs(*tests: TestResult) -> tuple[Run, ...]:
        return runs_of(Verdict(suite="s", level="L4", tests=tests), Program(files={"a.py": b"1"}))

    assert runs(result("a", FaultKind.ASSERTION_ERROR), result("b", None)) == ()
    (torn,) = runs(result("a", FaultKind.CONFLICTING_RUNS), result("b", FaultKind.WRONG_ANSWER))
    assert (torn.trials, torn.failed) == (1, ("a",))
    (late,) = runs(result("a", FaultKind.NONDETERMINISTIC))
    assert (late.trials, late.failed) == (2, ("a",))
    (clean,) = runs(result("a", None))
    assert (clean.trials, clean.failed) == (1, ())
