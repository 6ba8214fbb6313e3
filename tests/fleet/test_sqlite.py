"""What only the queue in a file can get wrong."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from quintain.fleet import BODY_BYTES, Job, SqliteQueue, Terms
from quintain.types import HouseError

PATIENCE_SECONDS = 60.0

#: Takes jobs and acknowledges them, noting each, until there are none.
TAKER = """
import asyncio, sys
from pathlib import Path
from quintain.fleet import SqliteQueue

async def main(file, notes):
    queue = await SqliteQueue.open(Path(file))
    with open(notes, "a") as done:
        while leases := await queue.lease("w", most=7, wait_seconds=3.0):
            for lease in await queue.ack(leases):
                done.write(f"{lease.id}\\n")
                done.flush()
    await queue.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_are_killed_at_any_time_lose_nothing_and_leave_counts_that_are_true(tmp_path: Path) -> None:
    file = tmp_path / "q.db"
    jobs = [Job(id=f"j{n}", kind="xyz"[n % 3], body=b"x" * 50) for n in range(400)]

    async def taker(nth: int) -> asyncio.subprocess.Process:
        notes = tmp_path / f"done{nth}"
        return await asyncio.create_subprocess_exec(sys.executable, "-c", TAKER, str(file), str(notes))

    def noted() -> list[str]:
        return [line for path in tmp_path.glob("done*") for line in path.read_text().splitlines()]

    async def killed(one: asyncio.subprocess.Process, after: int) -> None:
        """Once so many are noted."""
        until = time.monotonic() + PATIENCE_SECONDS
        while len(noted()) < after:
            assert time.monotonic() < until
            assert one.returncode is None
            await asyncio.sleep(0.005)
        one.send_signal(signal.SIGKILL)
        await one.wait()

    async def story() -> None:
        queue = await SqliteQueue.open(file, Terms(lease_seconds=1.0, deliveries=50))
        await queue.put(jobs)
        for nth in range(2):
            await killed(await taker(nth), 60 * (nth + 1))
        last = await taker(2)
        assert await last.wait() == 0
        stats = await queue.stats()
        assert stats.count.total == 0
        done = noted()
        assert len(set(done)) == len(done), "acknowledged twice"
        # what was acknowledged and not noted is at most one batch for each that was killed
        assert len(jobs) - 2 * 7 <= len(done) <= len(jobs)
        await queue.aclose()

    asyncio.run(story())
    with sqlite3.connect(file) as database:
        assert database.execute("select count(*) from jobs").fetchone() == (0,)
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_terms_stay_with_the_queue_until_others_are_given(tmp_path: Path) -> None:
    async def story() -> None:
        for given, kept in ((None, Terms()), (Terms(bound=7), Terms(bound=7)), (None, Terms(bound=7))):
            queue = await SqliteQueue.open(tmp_path / "q.db", given)
            assert queue.terms == kept
            await queue.aclose()

    asyncio.run(story())


def test_a_file_that_is_no_queue_or_of_another_version_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_bytes(b"whatever it is, it is no database" * 100)
    with pytest.raises(HouseError, match=r"text\.db"):
        asyncio.run(SqliteQueue.open(tmp_path / "text.db"))
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.execute("pragma user_version = 9")
    with pytest.raises(HouseError, match="expected a queue of version 1, found 9"):
        asyncio.run(SqliteQueue.open(tmp_path / "new.db"))


def test_a_queue_that_is_closed_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        queue = await SqliteQueue.open(tmp_path / "q.db")
        await queue.aclose()
        await queue.aclose()
        with pytest.raises(HouseError, match="closed already"):
            await queue.stats()

    asyncio.run(story())


@pytest.mark.parametrize(("fields", "message"), [
    ({"id": ""}, "id of 1 to 200 bytes"), ({"id": "x" * 201}, "id of 1 to 200 bytes"),
    ({"kind": ""}, "kind of 1 to 64 bytes"), ({"priority": 10}, "priority from 0 to 9"),
    ({"priority": -1}, "priority from 0 to 9"), ({"body": b"x" * (BODY_BYTES + 1)}, "keep it in a blob store"),
])
def test_a_job_that_no_queue_could_keep_is_refused_where_it_is_made(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Job(**{"id": "a", "kind": "k", **fields})  # type: ignore[arg-type]
