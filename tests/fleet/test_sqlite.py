"""What only the queue in a file can get wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quintain.fleet import BODY_BYTES, Job, Register, SqliteQueue, Terms
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


def test_a_clock_that_is_put_back_keeps_no_lease_for_longer_and_takes_none_from_the_living(tmp_path: Path) -> None:
    now = [10_000.0]

    async def story() -> None:
        queue = await SqliteQueue.open(tmp_path / "q.db", Terms(lease_seconds=30.0), clock=lambda: now[0])
        await queue.put([Job(id=id, kind="k") for id in "ab"])
        dead, alive = await queue.lease("w", most=2)
        now[0] = 6_400.0
        assert not await queue.lease("w")
        [alive] = await queue.extend([alive])
        assert alive.until_seconds == 6_430.0
        now[0] = 6_425.0
        [alive] = await queue.extend([alive])
        now[0] = 6_431.0
        assert [lease.id for lease in await queue.lease("other", most=2)] == [dead.id]
        assert await queue.ack([alive]) == (alive,)
        await queue.aclose()

    asyncio.run(story())


@pytest.fixture
def little_disk(tmp_path: Path) -> Iterator[Path]:
    """Of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place]).returncode:
        pytest.skip("needs root, and a tmpfs that may be mounted")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def remounted(place: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", place], check=True)


@pytest.mark.root
def test_a_disk_that_is_full_costs_no_job_and_with_room_again_all_goes_on(little_disk: Path) -> None:
    file = little_disk / "q.db"

    async def story() -> None:
        queue = await SqliteQueue.open(file)
        register = await Register.open(little_disk / "register.db")
        added: list[str] = []

        async def flood() -> None:
            for nth in range(200):
                added.extend(await queue.put([Job(id=f"{nth}-{n}", kind="k", body=b"x" * 2000) for n in range(20)]))

        with pytest.raises(HouseError, match=r"q\.db: database or disk is full"):
            await flood()
        with pytest.raises(HouseError, match="full"):
            await register.enrol([Job(id=f"{n}", kind="k", body=b"x" * 2000) for n in range(1000)])
        assert (await queue.stats()).count.ready == len(added) > 0, "what was put whole is there, and nothing by halves"
        await asyncio.to_thread(remounted, little_disk, "size=20m")
        leases = await queue.lease("w", most=len(added))
        assert [lease.id for lease in await queue.ack(leases)] == added
        assert len(await register.enrol([Job(id="a", kind="k")])) == 1
        await register.aclose()
        await queue.aclose()

    asyncio.run(story())
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


@pytest.mark.root
def test_a_queue_on_a_disk_that_may_not_be_written_says_where(little_disk: Path) -> None:
    async def story() -> None:
        queue = await SqliteQueue.open(little_disk / "q.db")
        await queue.aclose()
        await asyncio.to_thread(remounted, little_disk, "ro")
        for opening in (SqliteQueue.open(little_disk / "q.db"), Register.open(little_disk / "sub" / "r.db")):
            with pytest.raises(HouseError, match=str(little_disk)):
                await opening

    asyncio.run(story())


def test_a_queue_of_which_a_part_was_written_over_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "q.db"

    async def made() -> None:
        queue = await SqliteQueue.open(file)
        await queue.put([Job(id=f"j{n}", kind="k", body=b"x" * 2000) for n in range(200)])
        await queue.aclose()

    async def used() -> None:
        queue = await SqliteQueue.open(file)
        try:
            await queue.drain()
        finally:
            await queue.aclose()

    asyncio.run(made())
    content = bytearray(file.read_bytes())
    content[3 * 4096:60 * 4096] = b"\xa5" * (57 * 4096)
    file.write_bytes(content)
    with pytest.raises(HouseError, match=r"q\.db: database disk image is malformed"):
        asyncio.run(used())


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
