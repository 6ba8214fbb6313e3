"""Claim: writers and compactors of a library that are killed at random lose no acknowledged event and double none.

Two writers append episodes of five events to segments of one run, each with a blob, and note an episode on a file of
their own when it has been acknowledged; two compactors compact without a pause. One of the four after the other is
killed (SIGKILL), up to 0.8 s after it has begun its work, and another takes its place. At the end all is compacted, and
what was acknowledged is compared with the library. The server of an object store is not among those that are killed
(tests/store/test_objects.py cuts its connections).

--kills N (200). --quick: 10.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from _machine import finish

from quintain.store import Definition, Library, Run

WRITER = """
    import sys, time
    from pathlib import Path
    from quintain.store import LocalBlobs, Segment
    from quintain.types import Built, Closed, Message, Opened, Program, Role, Said, Sampled, Stop, Turn
    run, name, told = Path(sys.argv[1]), sys.argv[2], open(sys.argv[3], "a", buffering=1)
    with Segment(run / "segments", LocalBlobs(run / "blobs")) as segment:
        for number in range(100_000):
            id = f"{name}-{number}"
            segment.append(
                Opened(episode=id, index=0, at_seconds=0, task="t", task_version="v", kind="code", group="g", attempt=1,
                       seed=number, policy="p", unix_seconds=1.8e9, conversation=()),
                Sampled(episode=id, index=1, at_seconds=1, turn=Turn(text=id * 20, output_token_ids=(1, 2, number))))
            segment.append(
                Built(episode=id, index=2, at_seconds=2, program=Program(files={"a": (id * 9000).encode()})),
                Said(episode=id, index=3, at_seconds=2, message=Message(role=Role.USER, text="no")),
                Closed(episode=id, index=4, at_seconds=3, stop=Stop.TURNS))
            told.write(id + "\\n")
            time.sleep(0.01)
"""
COMPACTOR = """
    import sys
    from pathlib import Path
    import duckdb, pyarrow.parquet
    from quintain.store import Library
    open(sys.argv[2], "w").write("begun")
    while True:
        Library(Path(sys.argv[1])).compact()
"""


def start(script: str, *said: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *map(str, said)])


def kill_many(folder: Path, run: Path, kills: int, chance: random.Random) -> None:
    def born(role: str, number: int) -> subprocess.Popen[bytes]:
        if role == "writer":
            return start(WRITER, run, f"w{number}", folder / f"told-{number}")
        return start(COMPACTOR, folder / "runs", folder / f"begun-{number}")

    roles = ("writer", "writer", "compactor", "compactor")
    living = [(role, number, born(role, number)) for number, role in enumerate(roles)]
    try:
        for number in range(4, kills + 4):
            role, mine, process = living.pop(chance.randrange(4))
            begun = folder / (f"told-{mine}" if role == "writer" else f"begun-{mine}")
            while not begun.exists() or not begun.stat().st_size:
                assert process.poll() is None, f"a {role} ended by itself with {process.returncode}"
                time.sleep(0.02)
            time.sleep(chance.random() * 0.8)
            process.kill()
            process.wait()
            living.append((role, number, born(role, number)))
    finally:
        for *_, process in living:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    said = parser.parse_args()
    kills = 10 if said.quick else said.kills
    folder = Path(tempfile.mkdtemp(prefix="quintain-bench-"))
    try:
        with Run.create(folder / "runs", Definition(taskset="made-up", policy="p"), name="r") as run:
            kill_many(folder, run.path, kills, random.Random(11))
        library = Library(folder / "runs")
        library.compact()
        told = {line for path in folder.glob("told-*") for line in path.read_text().split("\n")[:-1]}
        rows = library.query("SELECT episode, count(*) AS n FROM events GROUP BY episode").to_pylist()
        events = {row["episode"]: row["n"] for row in rows}
        first = next(iter(sorted(told)))
        exact = library.events(first)[2].program.files["a"] == (first * 9000).encode()  # type: ignore[union-attr]
        finish(
            kills=kills, acknowledged=len(told) * 5, lost=sum(max(0, 5 - events.get(id, 0)) for id in told),
            doubled=sum(max(0, count - 5) for count in events.values()), opens=not library.verify() and exact,
            episodes=len(events), manifest=library.status().manifest,
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
