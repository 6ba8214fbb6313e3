"""A guard stops and resumes kinds of work within a look, and no job is lost by it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quintain.fleet import Count, Job, Line, MemoryQueue, Queue, Register, SqliteQueue, heed, quota, strictest


async def put(queue: Queue, kind: str, count: int) -> None:
    await queue.put([Job(id=f"{kind}{nth}", kind=kind) for nth in range(count)])


async def until_stopped(queue: Queue, kind: str, *, stopped: bool) -> None:
    async with asyncio.timeout(20.0):
        while (await queue.stats()).kinds[kind].stopped is not stopped:  # noqa: ASYNC110 - it is asked as a person would
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
def test_a_kind_whose_breaker_trips_leaves_the_queue_and_loses_nothing(tmp_path: Path, *, durable: bool) -> None:
    async def main() -> None:
        queue: Queue = await SqliteQueue.open(tmp_path / "queue.db") if durable else MemoryQueue()
        await put(queue, "sick", 5)
        await put(queue, "well", 2)
        tripped, heard, told = {"sick"}, list[tuple[str, str]](), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(heed(
                queue, lambda kind, line: "nine in ten fail" if kind in tripped else "", told=told, look_seconds=0.01,
                hear=lambda kind, why: heard.append((kind, why)),
            ))
            await until_stopped(queue, "sick", stopped=True)
            taken = await queue.lease("w", most=10, wait_seconds=1.0)
            assert [lease.kind for lease in taken] == ["well", "well"]
            assert (await queue.stats()).kinds["sick"].count.ready == 5
            tripped.clear()
            await until_stopped(queue, "sick", stopped=False)
            assert len(await queue.lease("w", most=10, wait_seconds=1.0)) == 5
            told.set()
        assert heard == [("sick", "nine in ten fail"), ("sick", "")]
        await queue.aclose()

    asyncio.run(main())


def test_what_a_person_stopped_stays_stopped_and_what_a_guard_stopped_ends_with_it() -> None:
    async def main() -> None:
        queue = MemoryQueue()
        await put(queue, "by-hand", 1)
        await put(queue, "by-guard", 1)
        await queue.stop("by-hand")
        told = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(heed(queue, lambda kind, line: "no" if kind == "by-guard" else "", told=told,
                                   look_seconds=0.01))
            await until_stopped(queue, "by-guard", stopped=True)
            told.set()
        found = (await queue.stats()).kinds
        assert (found["by-hand"].stopped, found["by-guard"].stopped) == (True, False)

    asyncio.run(main())


def test_what_a_guard_stopped_before_it_was_killed_is_resumed_by_its_successor(tmp_path: Path) -> None:
    async def main() -> None:
        queue = MemoryQueue()
        await put(queue, "sick", 1)
        await put(queue, "by-hand", 1)
        await queue.stop("by-hand")
        kept = tmp_path / "stopped.json"
        first = asyncio.create_task(heed(queue, lambda kind, line: "no" if kind == "sick" else "",
                                         told=asyncio.Event(), look_seconds=0.01, kept=kept))
        await until_stopped(queue, "sick", stopped=True)
        first.cancel()  # it has no time to resume anything
        await asyncio.wait([first])
        assert (await queue.stats()).kinds["sick"].stopped
        told = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(heed(queue, lambda kind, line: "", told=told, look_seconds=0.01, kept=kept))
            await until_stopped(queue, "sick", stopped=False)
            told.set()
        assert (await queue.stats()).kinds["by-hand"].stopped

    asyncio.run(main())


def test_a_quota_bounds_what_is_out_and_the_strictest_guard_decides() -> None:
    most = quota({"code": 2})
    assert most("code", Line(count=Count(leased=1))) == ""
    assert most("code", Line(count=Count(leased=2))) == "2 are out, its quota is 2"
    assert most("math", Line(count=Count(leased=9))) == ""
    both = strictest(lambda kind, line: "", most, lambda kind, line: "the last word")
    assert both("code", Line(count=Count(leased=2))) == "2 are out, its quota is 2"
    assert both("code", Line(count=Count())) == "the last word"
    with pytest.raises(ValueError, match="expected quotas of at least 0"):
        quota({"code": -1})


def test_an_episode_is_withdrawn_only_while_nobody_is_at_it(tmp_path: Path) -> None:
    async def main() -> None:
        register = await Register.open(tmp_path / "register.db")
        await register.enrol([Job(id="waits", kind="k"), Job(id="runs", kind="k")])
        [attempt] = (await register.begin(["runs"], "w")).values()
        assert await register.withdraw("waits", "its task is suspended")
        assert not await register.withdraw("runs", "its task is suspended")
        assert not await register.withdraw("waits", "again")
        assert await register.begin(["waits"], "w") == {}, "whoever is handed its job finds nothing to do"
        assert (await register.accept("runs", attempt, b"r")).value == "accepted"
        assert await register.reopen("waits"), "it is not lost: a run that goes on may ask it again"
        await register.aclose()

    asyncio.run(main())
