"""Flaky tests in real runs: the retry that diagnoses, the author's answer as a witness, suites made new."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from quintain.curate import (
    Bounds,
    Diagnosing,
    HealthLedger,
    HealthWatch,
    Refreshed,
    State,
    Trouble,
    Why,
    adopt,
    attend,
    control,
    lighten,
    recheck,
    refresh,
    review,
    solved_attempts,
)
from quintain.env import CodeEnvironment, Work
from quintain.grade import Oracle, verifier_build
from quintain.guard import Rescore, Solved
from quintain.policy import FunctionPolicy, turn_of
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.testing import ProcessBackend
from quintain.types import (
    Entry,
    Event,
    FaultKind,
    Group,
    Isolation,
    Passed,
    Program,
    Reward,
    TaskError,
    Trainable,
    Verdict,
)
from tests.grade.ground import needs_native

RIGHT = b"def add(a, b):\n    return a + b\n"
STEADY = """from solution import add

def test_one():
    assert add(1, 2) == 3

def test_two():
    assert add(0, 5) == 5
"""
#: Fails in each run whose number is in `{bad}`, counted in a file of the host: chance as a test wants it.
DICE = STEADY + """
def test_dice():
    import pathlib
    tally = pathlib.Path({path!r})
    nth = len(tally.read_text()) if tally.exists() else 0
    tally.write_text("x" * (nth + 1))
    assert nth not in {bad!r}
"""


def item(suite: str = STEADY, *, oracle: bytes | None = RIGHT, null: bytes = b"", id: str = "add") -> Item:
    exam = Exam(
        hidden=PythonSuite(files={"test_add.py": suite.encode()}), null=({"solution.py": null},),
        oracle={"solution.py": oracle} if oracle is not None else None,
    )
    return Item.sealed(exam, id=id, instructions="Add.", entry=Entry(path="solution.py", name="add"),
                       isolation=Isolation.PROCESS)


def dice(tmp_path: Path, *bad: int) -> str:
    return DICE.format(path=str(tmp_path / "tally"), bad=bad)


def graded(task: Item, source: bytes = RIGHT) -> tuple[Verdict, Reward]:
    async def run() -> tuple[Verdict, Reward]:
        environment = Diagnosing(CodeEnvironment(ProcessBackend()))
        work = Work(program=Program(files={"solution.py": source}))
        return await environment.grade(task, work, episode="e", seed=1)

    return asyncio.run(run())


def test_what_fails_and_passes_again_is_masked_and_never_a_pass(tmp_path: Path) -> None:
    verdict, reward = graded(item(dice(tmp_path, 0)))
    assert not verdict.solved
    assert not reward.solved
    assert reward.trainable is Trainable.MASK
    torn = {test.id: test.fault for test in verdict.tests if test.passed is not Passed.PASSED}
    assert list(torn) == ["test_add.py::test_dice"]
    assert torn["test_add.py::test_dice"] is not None
    assert torn["test_add.py::test_dice"].kind is FaultKind.CONFLICTING_RUNS
    assert [flag.detector for flag in reward.flags] == ["retry"]


def test_what_passes_and_then_fails_is_masked_too(tmp_path: Path) -> None:
    verdict, reward = graded(item(dice(tmp_path, 1)))
    assert not verdict.solved
    assert reward.trainable is Trainable.MASK


def test_what_fails_twice_is_a_failure(tmp_path: Path) -> None:
    wrong = b"def add(a, b):\n    return a + b if a else 7\n"
    verdict, reward = graded(item(), wrong)
    assert reward.trainable is Trainable.YES
    assert {t.fault.kind for t in verdict.tests if t.fault} == {FaultKind.ASSERTION_ERROR}


def test_answers_that_are_mostly_wrong_are_not_asked_again(tmp_path: Path) -> None:
    graded(item(dice(tmp_path)), b"def add(a, b):\n    return None\n")
    assert (tmp_path / "tally").read_text() == "x"


def test_the_authors_answer_is_asked_while_there_is_doubt_and_settles_it(tmp_path: Path) -> None:
    bad = (0, *range(4, 1000, 3))
    task = item(dice(tmp_path, *bad))
    soon = Bounds(false_alarm=0.02, control_alarm=0.1)  # sooner sure than in earnest: runs are slow here
    ledger = HealthLedger(tmp_path / "health.jsonl", bounds=soon)
    ledger.admit([task.task], evidence="fit")
    watch = HealthWatch(ledger, has_oracle=lambda id: True)
    events: list[Event] = []
    backend = ProcessBackend()
    policy = FunctionPolicy(
        lambda conversation, task, seed: "" if turn_of(conversation) else f"```python\n{RIGHT.decode()}# {seed}\n```",
        name="right",
    )
    collector = Collector(
        Diagnosing(CodeEnvironment(backend)), events.append, concurrency=1, watch=watch.watch, admits=watch.admits,
    )

    async def main() -> list[Group]:
        async with asyncio.TaskGroup() as children:
            witness = children.create_task(attend(watch, Oracle(backend), lambda id: task, pause_seconds=0.01))
            async with collector.collecting([task], policy, size=12) as groups:
                found = [group async for group in groups]
            witness.cancel()
        return found

    (group,) = asyncio.run(main())
    move = ledger.standings["add"].moves[-1]
    assert (move.to, move.tests) == (State.SUSPENDED, ("test_add.py::test_dice",))
    assert move.why in (Why.FLAKY, Why.ORACLE_FAILED)
    assert len(group.episodes) < 12
    assert set(group.rewards_G) == {None}
    chart = ledger.standings["add"].chart
    assert chart.control_failures["test_add.py::test_dice"] > 0
    assert set(chart.failures) == {"test_add.py::test_dice"}


def test_a_run_of_the_authors_answer_counts_each_test_that_failed(tmp_path: Path) -> None:
    async def run() -> None:
        oracle = Oracle(ProcessBackend())
        clean = await control(oracle, item(), seed=0)
        assert clean is not None
        assert (clean.trials, clean.failed) == (2, ())
        thrown = await control(oracle, item(dice(tmp_path, 0)), seed=0)
        assert thrown is not None
        assert (thrown.trials, thrown.failed) == (1, ("test_add.py::test_dice",))

    asyncio.run(run())


def test_a_look_tells_a_broken_author_from_an_accident_and_from_a_null_answer_that_passes(tmp_path: Path) -> None:
    async def look(task: Item) -> Trouble | None:
        return await recheck(Oracle(ProcessBackend()), task, runs=1)

    assert asyncio.run(look(item())) is None
    broken = asyncio.run(look(item(oracle=b"def add(a, b):\n    return 4\n")))
    accident = asyncio.run(look(item(dice(tmp_path, 0))))
    hollow = asyncio.run(look(item(null=RIGHT)))
    assert [found.why for found in (broken, accident, hollow) if found is not None] == [
        Why.ORACLE_FAILED, Why.FLAKY, Why.NULL_PASSED,
    ]


def test_a_weekly_look_suspends_what_broke_and_brings_back_what_is_well(tmp_path: Path) -> None:
    well, broken = item(id="well"), item(oracle=b"def add(a, b):\n    return 4\n", id="broken")
    ledger = HealthLedger(tmp_path / "health.jsonl", clock=lambda: 1000.0)
    ledger.admit([well.task, broken.task], evidence="fit")
    ledger.suspend("well", Trouble(why=Why.CRASHES, evidence="a bad day"))

    async def look(now: float) -> dict[str, State | None]:
        found = await review(ledger, Oracle(ProcessBackend()), [well, broken], now_unix_seconds=now, runs=1)
        return {one.task: one.moved for one in found}

    assert asyncio.run(look(1001.0)) == {}
    assert asyncio.run(look(1000.0 + 7 * 86_400)) == {"well": State.PROBATION, "broken": State.SUSPENDED}
    assert ledger.standings["well"].checked is not None
    assert ledger.standings["well"].checked.build == verifier_build()
    assert ledger.standings["broken"].moves[-1].why is Why.ORACLE_FAILED


WEAK = """from solution import middle
def test_a(): assert middle([3, 1, 2]) == 2
def test_b(): assert middle([5, 5, 9]) == 5
def test_c(): assert middle([1, 2, 3, 4]) == 2.5
"""
MIDDLE = b"""def middle(numbers):
    numbers = sorted(numbers)
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2
"""
#: Solves the weak suite only: of four numbers it takes the places in the middle as they stand.
LUCKY = b"def middle(numbers):\n    if len(numbers) == 4:\n        return (numbers[1] + numbers[2]) / 2\n"
LUCKY += MIDDLE.split(b"\n", 1)[1]


@needs_native
def test_a_refreshed_suite_has_new_cases_other_tiers_and_another_version_and_alarms_when_solved_ones_are_lost() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_m.py": WEAK.encode()}), oracle={"solution.py": MIDDLE})
    whole = Item.sealed(exam, id="middle", instructions="The median.", entry=Entry(path="solution.py", name="middle"))

    async def run(*sources: bytes) -> Refreshed:
        solved = [
            Solved(attempt=f"a#{n}", program=Program(files={"solution.py": s})) for n, s in enumerate(sources)
        ]
        async with NativeBackend(engines=1) as backend:
            return await refresh(backend, Oracle(backend), whole, None, seed=3, solved=solved)

    fresh = asyncio.run(run(MIDDLE, LUCKY))
    assert len(fresh.added) >= 5
    assert fresh.item.task.version != whole.task.version
    assert fresh.item.exam.reserve is not None
    assert fresh.rescored is not None
    assert fresh.rescored.lost == ("a#1",)
    assert fresh.alarm


def test_what_raises_the_alarm_is_not_adopted_and_what_does_not_takes_the_place_of_the_old_version(
    tmp_path: Path,
) -> None:
    ledger = HealthLedger(tmp_path / "health.jsonl")
    old, new = item(), item(STEADY + "\ndef test_three():\n    assert add(2, 2) == 4\n")
    ledger.admit([old.task], evidence="fit")

    async def run() -> Refreshed:
        backend = ProcessBackend()
        return await refresh(backend, Oracle(backend), new, None, seed=0, grown=False)

    fresh = asyncio.run(run())
    assert fresh.rescored is None
    lost = Rescore(suite="s", judged=20, unjudged=0, lost=("add#3",))
    with pytest.raises(TaskError, match=r"1 of 20 solved attempts are not solved by version .* look at add#3"):
        adopt(ledger, msgspec.structs.replace(fresh, rescored=lost))
    assert ledger.standings["add"].version == old.task.version
    adopt(ledger, fresh)
    assert ledger.standings["add"].version == fresh.item.task.version
    assert ledger.standings["add"].state is State.PROBATION


def test_a_task_loses_its_flaky_test_where_the_rest_is_strong_enough(tmp_path: Path) -> None:
    async def run(task: Item) -> Item | None:
        return await lighten(Oracle(ProcessBackend()), task, ["test_add.py::test_dice"])

    light = asyncio.run(run(item(dice(tmp_path))))
    assert light is not None
    assert isinstance(light.exam.hidden, PythonSuite)
    assert b"test_dice" not in light.exam.hidden.files["test_add.py"]
    only = "from solution import add\ndef test_dice():\n    assert add(1, 1) == 2\ndef test_weak():\n    add(1, 2)\n"
    assert asyncio.run(run(item(only))) is None


def test_the_solved_attempts_of_a_run_are_found_newest_first() -> None:
    events: list[Event] = []
    task = item()

    async def main() -> None:
        policy = FunctionPolicy(
            lambda conversation, task, seed: f"```python\n{RIGHT.decode()}# {seed}\n```", name="right")
        collector = Collector(CodeEnvironment(ProcessBackend()), events.append, concurrency=1)
        async with collector.collecting([task], policy, size=3) as groups:
            async for _ in groups:
                pass

    asyncio.run(main())
    found = solved_attempts(events, "add")
    assert [one.attempt for one in found] == ["add#2", "add#1", "add#0"]
    assert solved_attempts(events, "other") == ()
