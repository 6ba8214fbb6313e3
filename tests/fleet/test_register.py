"""What was asked is settled once, whoever dies and whoever is late; on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from quintain.fleet import (
    Answer,
    End,
    Job,
    MemoryQueue,
    Place,
    Reconciled,
    Register,
    SqliteQueue,
    State,
    Tally,
    Terms,
    reconcile,
)
from quintain.types import HouseError
from tests.fleet import postgres

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
Opened = Callable[[], AbstractAsyncContextManager[Register]]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="needs the package psycopg (the extra postgres)")
    folder = postgres.programs()
    if folder is None:
        pytest.skip("needs PostgreSQL's programs (apt-get install postgresql)")
    with postgres.running(folder) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens one and the same register as often as it is called."""
    where = str(tmp_path / "register.db")
    if request.param == "postgres":
        import psycopg

        server: str = request.getfixturevalue("server")
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        where = server.replace("/postgres?", f"/{name}?")

    @asynccontextmanager
    async def open() -> AsyncIterator[Register]:
        register = await Register.open(where)
        try:
            yield register
        finally:
            await register.aclose()

    return open


def jobs(*ids: str) -> list[Job]:
    return [Job(id=id, kind="code", tenant="ada", priority=2, body=id.encode()) for id in ids]


def test_an_episode_is_enrolled_once_and_settled_once(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as register:
            assert await register.enrol(jobs("a", "b")) == ("a", "b")
            assert await register.enrol(jobs("b", "c")) == ("c",)
            assert await register.unsettled() == tuple(jobs("a", "b", "c"))
            assert await register.begin(["a", "b", "none such"], "w1") == {"a": 1, "b": 1}
            assert await register.accept("a", 1, b"first") is Answer.ACCEPTED
            assert await register.accept("a", 1, b"first") is Answer.ACCEPTED, "said again after a lost answer"
            assert await register.begin(["a"], "w2") == {}, "there is nothing to do any more"
            assert await register.unsettled(after="a") == tuple(jobs("b", "c"))
            entry = await register.entry("a")
            assert entry is not None
            assert (entry.state, entry.result, entry.accepted) == (State.SETTLED, b"first", 1)
            assert [(one.worker, one.end) for one in entry.tried] == [("w1", End.ACCEPTED)]
            tally = await register.tally()
            assert (tally.open, tally.settled, tally.attempts["running"]) == (2, 1, 1)

    asyncio.run(story())


def test_a_result_of_an_earlier_attempt_is_kept_as_late_and_never_counts(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as one, opened() as other:
            await one.enrol(jobs("s1"))
            assert await one.begin(["s1"], "w1") == {"s1": 1}
            assert await other.begin(["s1"], "w2") == {"s1": 2}
            assert await one.accept("s1", 1, b"1.0") is Answer.LATE
            assert await other.accept("s1", 2, b"0.0") is Answer.ACCEPTED
            assert await one.accept("s1", 1, b"1.0") is Answer.LATE
            assert await one.accept("s1", 3, b"1.0") is Answer.UNKNOWN, "an attempt that nobody began"
            assert await one.accept("s1", 0, b"1.0") is Answer.UNKNOWN
            assert await one.accept("s2", 1, b"1.0") is Answer.UNKNOWN
            entry = await one.entry("s1")
            assert entry is not None
            assert entry.result == b"0.0"
            assert [(t.attempt, t.end, t.result) for t in entry.tried] == [
                (1, End.LATE, b"1.0"), (2, End.ACCEPTED, None)]

    asyncio.run(story())


def test_of_many_who_commit_at_once_one_is_accepted(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as one, opened() as other:
            ids = [f"e{n}" for n in range(20)]
            await one.enrol(jobs(*ids))
            for register, worker in ((one, "w1"), (other, "w2")):
                await register.begin(ids, worker)
            async with asyncio.TaskGroup() as group:
                tried = [
                    (id, group.create_task(register.accept(id, attempt, f"{attempt}".encode())))
                    for id in ids for register, attempt in ((one, 1), (other, 2), (one, 2), (other, 1))
                ]
            for id in ids:
                entry = await one.entry(id)
                assert entry is not None
                assert (entry.result, entry.accepted) == (b"2", 2)
            answers = [task.result() for _, task in tried]
            assert answers.count(Answer.ACCEPTED) == 2 * len(ids), "attempt 2, said twice, and no other"

    asyncio.run(story())


def test_what_fails_stays_open_and_what_is_abandoned_says_why(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as register:
            await register.enrol(jobs("a"))
            await register.begin(["a"], "w1")
            assert await register.fail("a", 1, "the sandbox was lost")
            assert not await register.fail("a", 1, "twice")
            assert await register.begin(["a"], "w2") == {"a": 2}
            assert await register.abandon("a", "three deliveries")
            assert not await register.abandon("a", "again")
            assert await register.accept("a", 2, b"too late") is Answer.LATE
            entry = await register.entry("a")
            assert entry is not None
            assert (entry.state, entry.reason, entry.result) == (State.ABANDONED, "three deliveries", None)
            assert [t.reason for t in entry.tried] == ["the sandbox was lost", "three deliveries"]
            assert await register.reopen("a")
            assert await register.begin(["a"], "w3") == {"a": 3}
            assert await register.accept("a", 3, b"at last") is Answer.ACCEPTED

    asyncio.run(story())


def test_what_a_lost_queue_forgot_is_put_again_and_nothing_else(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as register:
            await register.enrol(jobs(*(f"e{n:04}" for n in range(1200))))
            queue = MemoryQueue(Terms(deliveries=1))
            assert await reconcile(register, queue) == Reconciled(put=1200)
            assert await reconcile(register, queue) == Reconciled(put=0), "the queue keeps them all"
            [settled, dead] = await queue.lease("w", most=2)
            attempts = await register.begin([settled.id], "w")
            await register.accept(settled.id, attempts[settled.id], b"done")
            await queue.ack([settled])
            await queue.nack([dead], reason="it killed its worker")
            assert await reconcile(register, queue) == Reconciled(abandoned=1)
            lost = MemoryQueue(Terms(bound=700))
            assert await reconcile(register, lost) == Reconciled(put=500, full=True)
            lost = MemoryQueue()
            assert await reconcile(register, lost) == Reconciled(put=1198)
            kept = {one.job.id for one in await lost.peek(most=2000)}
            assert not kept & {settled.id, dead.id}
            assert await register.tally() == Tally(open=1198, settled=1, abandoned=1, attempts={
                "running": 0, "accepted": 1, "late": 0, "failed": 0, "lost": 0})

    asyncio.run(story())


@pytest.mark.shared
@pytest.mark.skipif(not CASES.is_dir(), reason="needs the handed cases beside the checkout")
@pytest.mark.parametrize("case", ["QS01", "QS08"])
def test_the_handed_traces_end_with_one_result_from_the_attempt_that_holds_the_lease(
    case: str, opened: Opened, tmp_path: Path,
) -> None:
    trace = json.loads((CASES / case / "trace.json").read_text())
    wait = float(trace.get("ack_wait_s", 60))
    first_done, second_done = [event["t"] for event in trace["events"]][-2:]
    now = [0.0]

    async def story() -> None:
        queue = await SqliteQueue.open(tmp_path / "q.db", Terms(lease_seconds=wait), clock=lambda: now[0])
        async with opened() as register:
            await register.enrol(jobs("job1"))
            await queue.put(jobs("job1"))
            [first] = await queue.lease("w1")
            one = await register.begin(["job1"], "w1")
            now[0] = wait
            [second] = await queue.lease("w2")
            two = await register.begin(["job1"], "w2")
            while now[0] < first_done:  # it heartbeats, as the case demands
                now[0] = min(now[0] + wait / 3, first_done)
                [second] = await queue.extend([second])
            assert await register.accept("job1", one["job1"], b"1.0") is Answer.LATE
            assert await queue.ack([first]) == ()
            assert [kept.job.id for kept in await queue.peek(place=Place.LEASED)] == ["job1"]
            while now[0] < second_done:
                now[0] = min(now[0] + wait / 3, second_done)
                [second] = await queue.extend([second])
            assert await register.accept("job1", two["job1"], b"0.0") is Answer.ACCEPTED
            assert await queue.ack([second]) == (second,)
            entry = await register.entry("job1")
            assert entry is not None
            assert entry.result == b"0.0"
            assert [one.end for one in entry.tried] == [End.LATE, End.ACCEPTED]
        await queue.aclose()

    asyncio.run(story())


def test_a_log_is_kept_with_the_result_that_counts_and_with_no_other(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as register:
            await register.enrol([Job(id=id, kind="code") for id in ("a", "b")])
            first = await register.begin(["a", "b"], "w1")
            second = await register.begin(["a"], "w2")
            assert await register.accept("a", first["a"], b"1.0", log=b"stale") is Answer.LATE
            assert await register.accept("a", second["a"], b"1.0", log=b"what happened") is Answer.ACCEPTED
            assert await register.accept("a", second["a"], b"1.0", log=b"what happened") is Answer.ACCEPTED
            assert await register.accept("b", first["b"], b"1.0") is Answer.ACCEPTED
            assert await register.log("a") == b"what happened"
            assert await register.log("b") is None

    asyncio.run(story())


def test_two_runs_in_one_database_keep_apart_by_their_schemas(server: str) -> None:
    async def story() -> None:
        one, other = [await Register.open(f"{server}&schema=run_{name}") for name in ("one", "other")]
        for register in (one, other):
            assert await register.enrol([Job(id="a", kind="code")]) == ("a",)
        begun = await one.begin(["a"], "w")
        assert await one.accept("a", begun["a"], b"1.0") is Answer.ACCEPTED
        assert ((await one.tally()).settled, (await other.tally()).open) == (1, 1)
        await one.aclose()
        await other.aclose()
        with pytest.raises(HouseError, match="schema of letters"):
            await Register.open(f"{server}&schema=drop table")

    asyncio.run(story())


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="needs the package psycopg (the extra postgres)")
    with pytest.raises(HouseError, match=r"postgresql://127\.0\.0\.1/none") as found:
        asyncio.run(Register.open("postgresql://ada:secret@127.0.0.1:9/none"))
    assert "secret" not in str(found.value)


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(b"no database at all, whatever its name says" * 100)
    with pytest.raises(HouseError, match=r"r\.db"):
        asyncio.run(Register.open(tmp_path / "r.db"))


def test_workers_say_that_they_are_there_and_are_forgotten_when_they_do_not(opened: Opened) -> None:
    async def story() -> None:
        async with opened() as register:
            assert await register.attending(60.0) == ()
            await register.attend("w1", b"small")
            await register.attend("w2", b"any")
            await register.attend("w1", b"large")
            assert await register.attending(60.0) == (("w1", b"large"), ("w2", b"any"))
            assert await register.attending(-1.0) == (), "as after a while of silence"

    asyncio.run(story())
