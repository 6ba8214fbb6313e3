"""`quintain run --workers`: processes die in the middle of a run, and it ends as if none had."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from quintain.store import Run
from tests.flow.house import SLOW, command, last_json, needs_sandbox, quintain, small_set

pytestmark = needs_sandbox
PATIENCE_SECONDS = 60.0


def workers_of(run: Path) -> list[int]:
    """The pids of the worker processes of a run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"python") and b"worker" in words and str(run).encode() in words:
            found.append(int(path.parent.name))
    return found


def turns_taken(run: Path) -> int:
    return sum(path.read_text().count('"sampled"') for path in (run / "episodes").glob("*.jsonl"))


def test_workers_play_a_run_and_it_is_told_like_any_other(tmp_path: Path) -> None:
    small_set(tmp_path, 3)
    done = quintain("run", "set", "--policy", "oracle", "-n", "2", "--workers", "2", "--out", "first", "--json",
                    cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (last_json(done)["episodes"], last_json(done)["solved"]) == (6, 6)
    with Run.open(tmp_path / "first") as run:
        assert len(run.progress().finished) == 6
    assert quintain("show", "first", "sum-0#1", cwd=tmp_path).returncode == 0
    again = quintain("run", "--resume", "first", "--workers", "2", "--json", cwd=tmp_path)
    assert last_json(again)["played"] == 0, "there was nothing left to play"


@pytest.mark.alone
@pytest.mark.parametrize("who", ["a worker", "the supervisor"])
def test_a_run_whose_processes_are_killed_loses_and_doubles_nothing(who: str, tmp_path: Path) -> None:
    small_set(tmp_path, 3)
    (tmp_path / "slow.py").write_text(SLOW)
    run = tmp_path / "first"
    words = command("run", "set", "--policy", "slow:Slow", "-n", "2", "--workers", "2", "--sandboxes", "2", "--out",
                    str(run), "--json")
    going = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE_SECONDS
    while turns_taken(run) < 2:
        assert time.monotonic() < until
        assert going.poll() is None, going.communicate()
        time.sleep(0.05)
    if who == "a worker":
        os.kill(workers_of(run)[0], signal.SIGKILL)
        out, errors = going.communicate(timeout=PATIENCE_SECONDS)
        assert going.returncode == 0, errors
    else:
        going.kill()
        going.communicate(timeout=PATIENCE_SECONDS)
        while workers_of(run):
            assert time.monotonic() < until, "workers outlived their supervisor"
            time.sleep(0.05)
        done = quintain("run", "--resume", str(run), "--workers", "2", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        out = done.stdout
    assert '"episodes":6' in out
    with Run.open(run) as opened:
        progress = opened.progress()
        assert len(progress.finished) == 6
        assert not progress.broken
        assert not progress.unfinished
