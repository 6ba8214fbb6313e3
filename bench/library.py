"""Claim: eight writers put 20,000 steps a second into a library, an episode is found in 50 ms, all is summed up in 1 s.

Counted as ingested are steps whose four events (Sampled with 300 letters, 40 output and 120 prompt ids and 40
log-probabilities, Built with one file, Ran with what it printed, Said) have been acknowledged by `Segment.append`,
checked that they read back equal, one frame for each episode of eight steps; making up the texts and numbers is in the
time too. Then they are compacted to Parquet, and asked through `Library`: `lookup_ms` is all steps of an episode by its
id (`steps`), `events_ms` its whole log; `aggregate_s` is the slowest of the sums over all steps of columns that have
one value for each. The same look-up in SQL, and sums over all lists of ids and log-probabilities, are told apart.
`jsonl_bytes_per_step` is what the same events take as lines of a `Journal`; `ingest_cpu_us` and `compact_cpu_us` are
CPU time for each step, which alone says much on a machine that others use.

--quick: 40,000 steps. --steps N, --writers N.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import statistics
import struct
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

from _machine import finish

from quintain.store import Definition, Journal, Library, LocalBlobs, Mode, Result, Run, Segment
from quintain.types import (
    Built,
    Closed,
    Event,
    Graded,
    Message,
    Opened,
    Outcome,
    Passed,
    Program,
    Ran,
    Reward,
    Role,
    Said,
    Sampled,
    Score,
    Status,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

STEPS = 8  # of an episode


def source_text() -> str:
    """Real code: what lies beside this interpreter, a few megabytes."""
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.py")))


class Maker:
    """Episodes whose texts, ids and numbers differ, cheaply made."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._text = source_text()
        self._ids = tuple(self._random.choices(range(32_000), k=200_000))
        self._logprobs = struct.unpack("<100000f", struct.pack("<100000f", *(
            -self._random.expovariate(3.0) for _ in range(100_000))))

    def episode(self, id: str) -> Iterator[Event]:
        draw = self._random.random
        yield Opened(
            episode=id, index=0, at_seconds=0.0, task=f"task-{int(draw() * 500)}", task_version="ab" * 32, kind="code",
            group=id.partition("#")[0], attempt=1, seed=int(draw() * 2**31), policy="bench", unix_seconds=1.8e9,
            conversation=(Message(role=Role.USER, text=self._words(300)),),
        )
        index, at = 1, 0.0
        for number in range(STEPS):
            at += draw()
            yield from self._step(id, index, at, number)
            index += 4
        tests = tuple(TestResult(id=f"t{n}", passed=Passed.PASSED if draw() < 0.7 else Passed.FAILED) for n in range(4))
        verdict = Verdict(suite="cd" * 32, level="L4", tests=tests, build="ef" * 32)
        total = 0.8 if verdict.solved else verdict.share * 0.4
        scores = (Score(name="tests", value=verdict.share, contribution=total), Score(name="style", value=draw()))
        reward = Reward(total=total, solved=verdict.solved, scores=scores, suite=verdict.suite, level="L4")
        yield Graded(episode=id, index=index, at_seconds=at, verdict=verdict, reward=reward, final=True)
        stop = Stop.SOLVED if verdict.solved else Stop.TURNS
        yield Closed(episode=id, index=index + 1, at_seconds=at, stop=stop)

    def _step(self, id: str, index: int, at: float, number: int) -> Iterator[Event]:
        ids, probs = int(self._random.random() * 199_000), int(self._random.random() * 99_000)
        yield Sampled(episode=id, index=index, at_seconds=at, turn=Turn(
            text=self._words(300), prompt_token_ids=self._ids[ids:ids + 120],
            output_token_ids=self._ids[ids + 120:ids + 160], logprobs=self._logprobs[probs:probs + 40],
            policy_version=str(number // 4),
        ))
        program = Program(files={"solution.py": self._words(200).encode()}, argv=("python3", "solution.py"))
        yield Built(episode=id, index=index + 1, at_seconds=at, program=program)
        yield Ran(episode=id, index=index + 2, at_seconds=at + 0.1, outcome=Outcome(
            status=Status.FAILED, exit_code=1, stdout=self._words(150).encode(), wall_seconds=0.1, cpu_seconds=0.05,
            peak_memory_bytes=10_000_000 + index,
        ))
        yield Said(episode=id, index=index + 3, at_seconds=at + 0.1, message=Message(
            role=Role.USER, text=self._words(100)))

    def _words(self, count: int) -> str:
        at = int(self._random.random() * (len(self._text) - 1_000))
        return self._text[at:at + count]


def write(run: Path, writer: int, episodes: int, barrier: Barrier) -> None:
    maker = Maker(writer)
    barrier.wait()
    start = time.process_time()
    with Segment(run / "segments", LocalBlobs(run / "blobs")) as segment:
        for number in range(episodes):
            segment.append(*maker.episode(f"w{writer}-{number:06}#0"))
    (run.parent.parent / f"cpu-{writer}").write_text(str(time.process_time() - start))


def ingest(run: Path, writers: int, episodes: int) -> float:
    """Seconds from when all writers are ready until the last one has closed its segment (flushed to the disk)."""
    barrier = multiprocessing.Barrier(writers + 1)
    processes = [
        multiprocessing.Process(target=write, args=(run, writer, episodes // writers, barrier))
        for writer in range(writers)
    ]
    for process in processes:
        process.start()
    barrier.wait()
    start = time.monotonic()
    for process in processes:
        process.join()
        assert process.exitcode == 0, f"a writer ended with {process.exitcode}"
    return time.monotonic() - start


def as_lines(folder: Path, episodes: int) -> float:
    """Bytes of a step as lines of a journal, over some episodes."""
    maker = Maker(99)
    with Journal(folder / "journal.jsonl", LocalBlobs(folder / "blobs"), mode=Mode.WRITE) as journal:
        for number in range(episodes):
            for event in maker.episode(f"w9-{number:06}#0"):
                journal.append(event)
    return (folder / "journal.jsonl").stat().st_size / (episodes * STEPS)


AGGREGATES = (
    "SELECT count(*) AS n, avg(output_tokens) AS tokens, avg(mean_logprob) AS mean FROM steps",
    "SELECT policy_version, status, count(*) AS n, avg(wall_seconds) AS s, sum(peak_memory_bytes) AS b FROM steps "
    "GROUP BY ALL ORDER BY ALL",
    "SELECT task, count(*) AS n, avg(reward) AS r FROM episodes GROUP BY task ORDER BY r DESC LIMIT 10",
)
#: What reads every id and every log-probability of the library.
OF_LISTS = (
    "SELECT count(*) AS n, avg(len(output_token_ids)) AS tokens FROM steps",
    "SELECT avg(list_avg(logprobs)) AS mean FROM steps",
)


def ask(library: Library, writers: int, episodes: int) -> dict[str, object]:
    draw = random.Random(7)
    lookups, logs, asked = [], [], []
    start = time.monotonic()
    library.steps("w0-000000#0")
    first = (time.monotonic() - start) * 1000
    cpu = time.process_time()
    for _ in range(50):
        id = f"w{draw.randrange(writers)}-{draw.randrange(episodes // writers):06}#0"
        start = time.monotonic()
        found = library.steps(id)
        lookups.append((time.monotonic() - start) * 1000)
        assert found.num_rows == STEPS, f"{id}: found {found.num_rows} steps"
        start = time.monotonic()
        assert len(library.events(id, run="bench")) == STEPS * 4 + 3
        logs.append((time.monotonic() - start) * 1000)
    cpu = (time.process_time() - cpu) / len(lookups) * 1000
    for _ in range(10):
        id = f"w{draw.randrange(writers)}-{draw.randrange(episodes // writers):06}#0"
        start = time.monotonic()
        found = library.query("SELECT * FROM steps WHERE run = 'bench' AND episode = ? ORDER BY step", (id,))
        asked.append((time.monotonic() - start) * 1000)
        assert found.num_rows == STEPS, f"{id}: found {found.num_rows} steps"
    sums, of_lists = (
        {sql.partition(" FROM")[0][:60]: seconds_for(library, sql) for sql in some} for some in (AGGREGATES, OF_LISTS))
    return {
        "lookup_ms": round(statistics.median(lookups), 1), "lookup_ms_worst": round(max(lookups), 1),
        "lookup_ms_first": round(first, 1), "events_ms": round(statistics.median(logs), 1),
        "lookup_and_events_cpu_ms": round(cpu, 1), "lookup_by_sql_ms": round(statistics.median(asked), 1),
        "aggregate_s": max(sums.values()), "aggregates_s": sums, "aggregates_of_lists_s": of_lists,
    }


def seconds_for(library: Library, sql: str) -> float:
    start = time.monotonic()
    library.query(sql)
    return round(time.monotonic() - start, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    said = parser.parse_args()
    episodes = (40_000 if said.quick else said.steps) // STEPS // said.writers * said.writers
    steps = episodes * STEPS
    folder, begun = Path(tempfile.mkdtemp(prefix="quintain-bench-")), time.monotonic()
    try:
        with Run.create(folder / "runs", Definition(taskset="made-up", policy="bench"), name="bench") as run:
            seconds = ingest(run.path, said.writers, episodes)
            kept = sum(path.stat().st_size for path in (run.path / "segments").iterdir())
            run.finish(Result(episodes=episodes, solved=0))
        library = Library(folder / "runs")
        library.query("SELECT count(*) FROM runs")  # imports what it needs
        cpu = time.process_time()
        made = library.compact()
        cpu = time.process_time() - cpu
        status = library.status()
        assert status.rows["steps"] == steps and not status.aside and not status.pending, status
        (folder / "lines").mkdir()
        lines = as_lines(folder / "lines", 250)
        answers = ask(library, said.writers, episodes)
        by_table = library.folder / "parts" / "steps"
        finish(
            steps=steps, ingest_per_s=round(steps / seconds), **answers, bytes_per_step=round(status.bytes / steps),
            steps_table_bytes_per_step=round(sum(p.stat().st_size for p in by_table.rglob("*.parquet")) / steps),
            segment_bytes_per_step=round(kept / steps), jsonl_bytes_per_step=round(lines),
            ingest_cpu_us=round(sum(float(path.read_text()) for path in folder.glob("cpu-*")) / steps * 1e6, 1),
            compact_per_s=round(steps / made.seconds), compact_cpu_us=round(cpu / steps * 1e6, 1),
            writers=said.writers, events=made.events, parts=status.parts, seconds=round(time.monotonic() - begun, 1),
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
