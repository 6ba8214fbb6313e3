from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.policy import FunctionPolicy, ScriptedPolicy
from quintain.rollout import Collector, Patience, tickets
from quintain.store import Definition, Mode, Run, Standing, standing
from quintain.tasks import Item
from quintain.testing import FakeEnvironment, fail_sometimes, fake_item
from quintain.types import Closed, Event, FaultKind, Group, HouseError, Opened, Stop, TaskError, fold

ITEMS = [fake_item(f"task{n}") for n in range(5)]
POLICY = ScriptedPolicy({item.task.id: ["wrong", "right"] for item in ITEMS[:4]})
PATIENCE = Patience(pause_seconds=0.0)


async def gather(collector: Collector, items: list[Item], *, size: int = 2) -> list[Group]:
    async with collector.collecting(items, POLICY, size=size) as groups:
        return [group async for group in groups]


def test_each_task_gives_one_group_of_the_size_that_was_asked_for() -> None:
    events: list[Event] = []
    groups = asyncio.run(gather(Collector(FakeEnvironment(), events.append, concurrency=3), ITEMS))
    assert Counter(len(group.episodes) for group in groups) == {2: 5}
    by_task = {group.task: group for group in groups}
    assert by_task["task0"].rewards_G == (1.0, 1.0)
    assert [episode.id for episode in by_task["task4"].episodes] == ["task4#0", "task4#1"]
    assert {episode.stop for episode in by_task["task4"].episodes} == {Stop.GAVE_UP}
    assert len({event.episode for event in events}) == 10


def test_no_more_run_at_once_than_was_asked_for() -> None:
    environment = FakeEnvironment(pause_seconds=0.005)
    asyncio.run(gather(Collector(environment, lambda event: None, concurrency=3), ITEMS, size=4))
    assert environment.most_at_once == 3


def test_tasks_are_taken_only_as_they_are_needed() -> None:
    taken: list[str] = []

    def items() -> Iterator[Item]:
        for n in range(1000):
            taken.append(f"lazy{n}")
            yield fake_item(f"lazy{n}")

    async def main() -> int:
        collector = Collector(FakeEnvironment(), lambda event: None, concurrency=2)
        async with collector.collecting(items(), POLICY, size=1) as groups:
            seen = 0
            async for _ in groups:
                seen += 1
                await asyncio.sleep(0.01)  # a slow consumer
                if seen == 5:
                    return len(taken)
        raise AssertionError("expected to return from the loop")

    assert asyncio.run(main()) <= 5 + 2 + 2 + 2


def test_a_loop_that_is_left_early_leaves_nothing_running() -> None:
    environment = FakeEnvironment(pause_seconds=0.005)

    async def main() -> None:
        collector = Collector(environment, lambda event: None, concurrency=3)
        async with aclosing(collector.collect(ITEMS, POLICY, size=4)) as groups:
            async for _ in groups:
                break
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert environment.left


def test_what_the_consumer_raises_comes_out_as_it_is() -> None:
    async def main() -> None:
        collector = Collector(FakeEnvironment(), lambda event: None)
        async with collector.collecting(ITEMS, POLICY, size=1) as groups:
            async for group in groups:
                raise KeyError(group.task)

    with pytest.raises(KeyError, match="task"):
        asyncio.run(main())


def test_a_journal_that_cannot_be_written_ends_the_run_with_its_own_error() -> None:
    def refuse(event: Event) -> None:
        raise HouseError(FaultKind.STORE_ERROR, "disk full")

    with pytest.raises(HouseError, match="disk full"):
        asyncio.run(gather(Collector(FakeEnvironment(), refuse), ITEMS))


def test_a_task_that_comes_twice_is_refused() -> None:
    with pytest.raises(TaskError, match="expected each task once, found 'task0' twice"):
        asyncio.run(gather(Collector(FakeEnvironment(), lambda event: None), [ITEMS[0], ITEMS[0]]))


def test_seeds_depend_on_the_run_and_the_episode_only() -> None:
    seeds = [ticket.seed for seed in (0, 1) for ticket in tickets(ITEMS[0], size=3, seed=seed)]
    assert len(set(seeds)) == 6
    assert seeds[:3] == [ticket.seed for ticket in tickets(ITEMS[0], size=3, seed=0)]
    assert [ticket.episode for ticket in tickets(ITEMS[0], size=2, seed=0, round=2)] == ["task0@2#0", "task0@2#1"]


class Killed(BaseException):
    """The end of a process, as far as one can be had inside of it."""


@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=5), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_a_run_that_is_killed_again_and_again_loses_and_doubles_no_episode(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lost = [HouseError(FaultKind.SANDBOX_LOST, "gone"), KeyError("bug")]
    environment = FakeEnvironment(plan=fail_sometimes(0.05, lost, seed=seed))
    path = Run.create(folder, Definition(taskset="t", policy="p", size=2)).path

    async def go(cut: int | None) -> list[Group]:
        with Run.open(path, mode=Mode.WRITE) as run:
            kept = 0

            def keep(event: Event) -> None:
                nonlocal kept
                if kept == cut:
                    raise Killed
                run.journal.append(event)
                kept += 1

            stubborn = Patience(pause_seconds=0.0, attempts=9)
            collector = Collector(environment, keep, past=run.journal.read, concurrency=3, patience=stubborn)
            return await gather(collector, ITEMS)

    for cut in cuts:
        try:
            asyncio.run(go(cut))
        except Killed:
            continue
    groups = asyncio.run(go(None))
    assert sorted(group.task for group in groups) == [item.task.id for item in ITEMS]
    with Run.open(path) as run:
        assert set(run.journal.episodes()) == {f"task{n}#{k}" for n in range(5) for k in range(2)}
        for group in groups:
            for episode in group.episodes:
                log = list(run.journal.read(episode.id))
                assert standing(log) is Standing.FINISHED
                assert fold(log) == episode
                assert sum(isinstance(e, Closed) for e in log) == sum(isinstance(e, Opened) for e in log)
        assert {e for group in groups for e in group.rewards_G} == {1.0, -0.5}


def test_a_resumed_run_does_not_ask_again_about_what_is_finished(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(conversation: object, task: str, seed: int) -> str:
        asked.append(task)
        return "right"

    async def go(items: list[Item]) -> None:
        with Run.open(path, mode=Mode.WRITE) as run:
            collector = Collector(FakeEnvironment(), run.journal.append, past=run.journal.read)
            async with collector.collecting(items, FunctionPolicy(answer), size=1) as groups:
                async for _ in groups:
                    pass

    path = Run.create(tmp_path, Definition(taskset="t", policy="p")).path
    asyncio.run(go(ITEMS[:3]))
    asyncio.run(go(ITEMS))
    assert sorted(asked) == sorted(item.task.id for item in ITEMS)


def test_of_a_task_that_is_no_longer_admitted_nothing_is_begun_and_what_was_is_masked() -> None:
    events: list[Event] = []
    suspended: set[str] = {"task3"}

    def watch(event: Event) -> None:
        if isinstance(event, Closed) and event.episode == "task0#0":
            suspended.add("task0")

    collector = Collector(
        FakeEnvironment(), events.append, concurrency=1, watch=watch, admits=lambda task: task not in suspended,
    )
    groups = {group.task: group for group in asyncio.run(gather(collector, ITEMS, size=3))}
    assert set(groups) == {"task0", "task1", "task2", "task4"}
    assert groups["task0"].rewards_G == (None,)
    assert groups["task0"].episodes[0].solved  # still there to be read
    assert groups["task1"].rewards_G == (1.0, 1.0, 1.0)
    opened = Counter(event.task for event in events if isinstance(event, Opened))
    assert opened == {"task0": 1, "task1": 3, "task2": 3, "task4": 3}


def test_a_group_that_waits_for_its_consumer_is_masked_when_its_task_is_suspended_meanwhile() -> None:
    suspended: set[str] = set()

    async def main() -> list[Group]:
        collector = Collector(
            FakeEnvironment(), lambda event: None, concurrency=4, admits=lambda task: task not in suspended,
        )
        found = []
        async with collector.collecting(ITEMS[:3], POLICY, size=1) as groups:
            async for group in groups:
                if not found:
                    await asyncio.sleep(0.05)  # the others are complete and wait
                    suspended.update(item.task.id for item in ITEMS)
                found.append(group)
        return found

    first, *waiting = asyncio.run(main())
    assert first.rewards_G == (1.0,)
    assert [group.rewards_G for group in waiting] == [(None,), (None,)]
