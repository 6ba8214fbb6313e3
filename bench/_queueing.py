"""The queues at work: leases and acknowledgements per second, memory with a million jobs, fairness and ageing.

Speed: two worker processes take leases in batches of 20 and acknowledge each batch, until the queue is empty; the clock
runs from the word to go till the last acknowledgement; of three rounds the best counts. Beside it the same work on the
raw NATS client (`fetch(20)`, `ack`).
Fairness: seconds from when the first job of a new kind is put until it is leased, behind 100,000 of another, while two
tasks of one process work through them. Ageing: case QS05 under a virtual clock, a low job under a steady overload of
high ones. Memory: what a million jobs of 200 bytes make each part of a queue weigh.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from _machine import finish

from quintain.fleet import Job, MemoryQueue, NatsQueue, Queue, SqliteQueue, Terms, serve_nats

TERMS = Terms(lease_seconds=120.0, bound=2_000_000)
BODY = b"x" * 200
BATCH = 20
WORKERS = 2
ROUNDS = 3
PARTS = ("speed", "fairness", "memory")


def jobs(count: int, kind: str = "code", first: int = 0) -> list[Job]:
    return [Job(id=f"{kind}/{n}", kind=kind, body=BODY) for n in range(first, first + count)]


async def fill(queue: Queue, count: int, kind: str = "code") -> float:
    """Jobs put per second, in batches of 500."""
    began = time.perf_counter()
    for first in range(0, count, 500):
        await queue.put(jobs(min(500, count - first), kind, first))
    return count / (time.perf_counter() - began)


@asynccontextmanager
async def opened(where: str) -> AsyncIterator[Queue]:
    queue: Queue = await (NatsQueue.open(where) if where.startswith("nats:") else SqliteQueue.open(Path(where)))
    try:
        yield queue
    finally:
        await queue.aclose()


async def work(where: str) -> None:
    """A worker process: until the queue is empty. Tells when it was done, and how much it did."""
    async with opened(where) as queue:
        await queue.stats()
        print("ready", flush=True)
        sys.stdin.readline()
        done, last, cpu = 0, time.time(), time.process_time()
        while leases := await queue.lease(f"{os.getpid()}", most=BATCH):
            done += len(await queue.ack(leases))
            last = time.time()
        print(json.dumps([done, last, time.process_time() - cpu]), flush=True)


async def work_raw(url: str) -> None:
    """The same on nats-py alone."""
    import nats
    from nats.errors import TimeoutError as NatsTimeoutError

    client = await nats.connect(url)
    subscription = await client.jetstream().pull_subscribe_bind("all", stream="raw")
    print("ready", flush=True)
    sys.stdin.readline()
    done, last, cpu = 0, time.time(), time.process_time()
    while True:
        try:
            messages = await subscription.fetch(BATCH, timeout=0.5)
        except (TimeoutError, NatsTimeoutError):
            break
        for message in messages:
            await message.ack()
        await client.flush()
        done += len(messages)
        last = time.time()
    print(json.dumps([done, last, time.process_time() - cpu]), flush=True)
    await client.close()


async def race(mode: str, where: str, count: int) -> tuple[float, float]:
    """Jobs per second of two worker processes, and their CPU for each in microseconds."""
    crew = [
        await asyncio.create_subprocess_exec(
            sys.executable, __file__, mode, where, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        for _ in range(WORKERS)
    ]
    for one in crew:
        assert one.stdout is not None
        assert (await one.stdout.readline()).strip() == b"ready"
    began = time.time()
    done, last, cpu = 0, began, 0.0
    for one in crew:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
    for one in crew:
        out, _ = await one.communicate()
        part, ended, used = json.loads(out.splitlines()[-1])
        done, last, cpu = done + part, max(last, ended), cpu + used
    assert done == count, f"expected {count} acknowledgements, found {done}"
    return done / (last - began), 1e6 * cpu / done


async def race_raw(url: str, count: int) -> tuple[float, float]:
    import nats
    from nats.js.api import ConsumerConfig, RetentionPolicy

    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="raw", subjects=["raw.>"], retention=RetentionPolicy.WORK_QUEUE)
    await stream.add_consumer("raw", ConsumerConfig(durable_name="all", ack_wait=120, max_ack_pending=-1))
    for first in range(0, count, 500):
        sent = [await stream.publish_async(f"raw.{n}", BODY) for n in range(first, min(first + 500, count))]
        for future in sent:
            await future
    await client.close()
    return await race("--work-raw", url, count)


async def first_of_a_new_kind(queue: Queue, flood: int) -> float:
    """Seconds until the first job of a new kind is leased, behind a flood that two tasks work through."""
    await fill(queue, flood, "flood")
    found = asyncio.Event()

    async def crew() -> None:
        while not found.is_set():
            leases = await queue.lease("w", most=BATCH)
            if any(lease.kind == "new" for lease in leases):
                found.set()
            await queue.ack(leases)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(crew())
        await asyncio.sleep(0.5)
        await queue.put(jobs(1, "new"))
        began = time.perf_counter()
        await found.wait()
        return time.perf_counter() - began


async def ageing() -> float:
    """QS05: how long a job of priority 0 waits where one of priority 3 and 1 s comes every 0.9 s, for one worker."""
    now = [0.0]
    queue = MemoryQueue(Terms(lease_seconds=60.0, ageing_seconds=15.0), clock=lambda: now[0])
    await queue.put([Job(id="low", kind="k", priority=0)])
    high = 0
    while now[0] < 600.0:
        while high * 0.9 <= now[0]:
            await queue.put([Job(id=f"high {high}", kind="k", priority=3)])
            high += 1
        [lease] = await queue.lease("w")
        if lease.id == "low":
            return now[0]
        now[0] += 1.0
        await queue.ack([lease])
    raise AssertionError("expected the low job to start, found it starved")


def resident_mib(pid: int | str = "self") -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def memory_mib(kind: str, where: str, count: int) -> None:
    """In a process of its own: what `count` jobs make a queue weigh here."""
    empty = resident_mib()
    if kind == "memory":
        queue: Queue = MemoryQueue(TERMS)
        await fill(queue, count)
    else:
        async with opened(where) as queue:
            await fill(queue, count)
    print(json.dumps(round(resident_mib() - empty, 1)))


async def weigh(kind: str, where: str, count: int) -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--weigh", kind, where, "--count", str(count), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return float(out.splitlines()[-1])


async def figures(parts: Sequence[str], count: int, flood: int, many: int) -> dict[str, object]:
    found: dict[str, object] = {"jobs": count, "batch": BATCH, "workers": WORKERS, "many": many}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "speed" in parts:
            rounds: dict[str, list[float]] = {}
            for nth in range(ROUNDS):
                await speed(folder / f"{nth}", count, rounds)
            for name, measured in rounds.items():
                note(found, name, min(measured) if name.endswith("_us") else max(measured))
        if "fairness" in parts:
            found |= await fair(folder, flood)
            note(found, "ageing_wait_s", await ageing(), 1)
            found["ageing_bound_s"] = 60.0
        if "memory" in parts:
            found |= await heavy(folder, many)
    return found


async def speed(folder: Path, count: int, rounds: dict[str, list[float]]) -> None:
    """One round of all that is measured by the second."""
    def keep(name: str, speed: float, cpu: float | None = None) -> None:
        rounds.setdefault(f"{name}_per_s", []).append(speed)
        if cpu is not None:
            rounds.setdefault(f"{name}_cpu_us", []).append(cpu)

    file = folder / "speed.db"
    queue: Queue = await SqliteQueue.open(file, TERMS)
    keep("sqlite_put", await fill(queue, count))
    await queue.aclose()
    keep("sqlite", *await race("--work", str(file), count))
    async with serve_nats(folder / "nats") as server:
        queue = await NatsQueue.open(server.url, TERMS)
        keep("nats_put", await fill(queue, count))
        keep("nats", *await race("--work", server.url, count))
        await queue.aclose()
        keep("nats_raw", *await race_raw(server.url, count))


def note(found: dict[str, object], name: str, value: float, digits: int | None = None) -> None:
    """Keep a figure, and show it at once to who waits."""
    found[name] = round(value, digits)
    print(f"{name} {found[name]}", file=sys.stderr, flush=True)


async def fair(folder: Path, flood: int) -> dict[str, object]:
    found: dict[str, object] = {"flood": flood}
    note(found, "new_kind_memory_s", await first_of_a_new_kind(MemoryQueue(TERMS), flood), 4)
    queue: Queue = await SqliteQueue.open(folder / "fair.db", TERMS)
    note(found, "new_kind_sqlite_s", await first_of_a_new_kind(queue, flood), 4)
    await queue.aclose()
    async with serve_nats(folder / "fair") as server:
        queue = await NatsQueue.open(server.url, TERMS)
        note(found, "new_kind_nats_s", await first_of_a_new_kind(queue, flood), 4)
        await queue.aclose()
    return found


async def heavy(folder: Path, many: int) -> dict[str, object]:
    found: dict[str, object] = {}
    file = folder / "many.db"
    queue: Queue = await SqliteQueue.open(file, TERMS)
    await queue.aclose()
    found["memory_queue_mib"] = await weigh("memory", "-", many)
    found["sqlite_client_mib"] = await weigh("sqlite", str(file), many)
    found["sqlite_file_mib"] = round(file.stat().st_size / 2**20, 1)
    async with serve_nats(folder / "many") as server:
        empty = resident_mib(server.pid)
        queue = await NatsQueue.open(server.url, TERMS)
        await queue.aclose()
        found["nats_client_mib"] = await weigh("nats", server.url, many)
        found["nats_server_mib"] = round(resident_mib(server.pid) - empty, 1)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer jobs")
    parser.add_argument("--count", type=int)
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--work", metavar="WHERE", help=argparse.SUPPRESS)
    parser.add_argument("--work-raw", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--weigh", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.work:
        asyncio.run(work(asked.work))
    elif asked.work_raw:
        asyncio.run(work_raw(asked.work_raw))
    elif asked.weigh:
        asyncio.run(memory_mib(*asked.weigh, asked.count))
    else:
        count = asked.count or (10_000 if asked.quick else 30_000)
        many = 50_000 if asked.quick else 1_000_000
        parts = [asked.part] if asked.part else PARTS
        finish(**asyncio.run(figures(parts, count, 20_000 if asked.quick else 100_000, many)))


if __name__ == "__main__":
    main()
