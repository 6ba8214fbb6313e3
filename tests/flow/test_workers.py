"""`quintain run --workers`: processes die in the middle of a run, and it ends as if none had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from quintain.curate import HealthLedger, State, Why
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


def test_workers_and_a_curriculum_go_together(tmp_path: Path) -> None:
    small_set(tmp_path, 3)
    done = quintain("run", "set", "--policy", "oracle", "-n", "2", "--workers", "2", "--curriculum", "2", "--places",
                    "2", "--health", "health.jsonl", "--out", "first", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (last_json(done)["episodes"], last_json(done)["solved"]) == (8, 8)
    assert "4 of 4 groups taught nothing" in done.stderr, "groups came out as they do without workers"
    assert len((tmp_path / "first" / "curriculum.jsonl").read_text().splitlines()) == 2
    told = quintain("tasks", "health", "health.jsonl", "--json", cwd=tmp_path)
    verdicts = [json.loads(line).get("verdicts", 0) for line in told.stdout.splitlines()]
    assert sum(verdicts) == 8, "the process that leads saw every episode"


def test_a_task_that_is_suspended_leaves_a_run_of_workers_within_seconds(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    (tmp_path / "slow.py").write_text(SLOW)
    run = tmp_path / "first"
    words = command("run", "set", "--policy", "slow:Slow", "-n", "30", "--workers", "1", "--sandboxes", "2", "--out",
                    str(run), "--health", "health.jsonl", "--json")
    going = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE_SECONDS
    while turns_taken(run) < 2:
        assert time.monotonic() < until
        assert going.poll() is None, going.communicate()
        time.sleep(0.05)
    ledger = HealthLedger(tmp_path / "health.jsonl")
    for task in ("sum-0", "sum-1"):
        ledger.move(task, State.SUSPENDED, Why.BY_HAND, evidence="it lies")
    out, errors = going.communicate(timeout=PATIENCE_SECONDS)
    assert going.returncode == 0, errors
    played = json.loads(out.splitlines()[-1])["episodes"]
    assert 2 <= played < 60, "what ran ended, and what nobody had begun was withdrawn"
    assert "given up" not in errors
    ledger.move("sum-0", State.PROBATION, Why.BY_HAND, evidence="mended")
    again = quintain("run", "--resume", str(run), "--workers", "2", "--sandboxes", "12", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    with Run.open(run) as opened:
        finished = opened.progress().finished
    assert sum(id.startswith("sum-0#") for id in finished) == 30, "nothing of it was lost"
    assert sum(id.startswith("sum-1#") for id in finished) < 30
