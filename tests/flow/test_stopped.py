"""`quintain run`, with and without workers: a kind that kills its sandboxes is stopped, and comes back when mended."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quintain.store import Run
from quintain.tasks import new_task, open_taskset, write_taskset
from quintain.types import Graded
from quintain.watch import Gate, Scope, folder_of
from tests.flow.house import command, needs_sandbox
from tests.tasks.harbors import SMALL

pytestmark = needs_sandbox
PATIENCE_SECONDS = 90.0

#: A backend as an installed package offers it: it kills the sandboxes of the sick kind (they are the large ones) until
#: there is a file `mended`, and the process that makes sandboxes once there is a file `strike`.
DEADLY = '''\
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

from quintain.sandbox import NativeBackend

HERE = Path(__file__).parent


class Deadly:
    name = "deadly"

    def __init__(self):
        self._inner = NativeBackend()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    @asynccontextmanager
    async def open(self, image="host", *, limits, count=1, **more):
        async with self._inner.open(image, limits=limits, count=count, **more) as boxes:
            if limits.disk_bytes >= 2**30 and not (HERE / "mended").exists():
                with (HERE / "crashes").open("a") as file:
                    file.write("x")
                for box in boxes:
                    os.kill(box.pid, signal.SIGKILL)
            yield boxes
'''
POLICY = '''\
import asyncio

from quintain.types import Turn

SUM = "```python\\ndef total(numbers):\\n    return sum(numbers)\\n```\\n"


class Slow:
    name = "slow"

    async def act(self, conversation, *, task, seed):
        await asyncio.sleep(0.3)
        if task.startswith("sum"):
            return Turn(text=SUM)
        return Turn(text="```bash\\necho 42 > /app/answer.txt\\n```\\nSUBMIT\\n")

    async def aclose(self):
        pass
'''


def ground(folder: Path, *, well: int, sick: int) -> None:
    """Tasks of two kinds, the backend, and the policy."""
    for nth in range(well):
        new_task(folder / "own" / f"sum-{nth}")
    for nth in range(sick):
        for path, text in SMALL.items():
            place = folder / "harbor" / f"bad-{nth}" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    items = [item for name in ("harbor", "own") for item in open_taskset(str(folder / name))]
    write_taskset(items, folder / "set.jsonl", format="jsonl")
    (folder / "deadly.py").write_text(DEADLY)
    (folder / "slow.py").write_text(POLICY)
    facts = folder / "deadly-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[quintain.sandbox]\ndeadly = deadly:Deadly\n")


@contextmanager
def going(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command("run", *words, "--json"), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)


def solved(run: Path) -> set[str]:
    with Run.open(run) as opened:
        return {event.episode for event in opened.journal.read()
                if isinstance(event, Graded) and event.final and event.reward.solved}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_kind_that_kills_its_sandboxes_is_stopped_and_costs_nobody_else_anything(
    tmp_path: Path, workers: int,
) -> None:
    ground(tmp_path, well=4, sick=6)
    run = tmp_path / "first"
    crew = ("--workers", str(workers)) if workers else ()
    with going(tmp_path, "set.jsonl", "--policy", "slow:Slow", "-n", "2", "--backend", "deadly", "--sandboxes", "4",
               "--out", str(run), *crew) as process:
        until = time.monotonic() + PATIENCE_SECONDS
        while not any(one.key == "shell" for one in Gate(folder_of(run) / "gate.json").holds):
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        crashes = (tmp_path / "crashes").stat().st_size
        (tmp_path / "mended").touch()
        out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    assert crashes <= 30
    assert "stopped: kind shell" in errors
    assert "kind code" not in errors, "nobody else was stopped"
    told = json.loads(out.splitlines()[-1])
    assert {f"sum-{nth}#{n}" for nth in range(4) for n in range(2)} <= solved(run), errors
    if workers:
        assert (told["solved"], told["faults"]["house"]) == (20, 0), errors
    elif told["faults"]["house"]:  # what had crashed in vain before it was stopped is tried again when the run goes on
        with going(tmp_path, "--resume", str(run)) as process:
            assert process.communicate(timeout=PATIENCE_SECONDS)[0]
    assert len(solved(run)) == 20
    assert Gate(folder_of(run) / "gate.json").hold(Scope.KIND, "shell") is None, "it came back by itself"
