"""A run that is killed, interrupted or disturbed: no episode is lost, and none is doubled."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from quintain.tasks import new_task

from .house import (
    alive,
    closings,
    descendants,
    last_json,
    needs_sandbox,
    openings,
    quintain,
    small_set,
    start_slow_run,
    wait_until_closed,
)

pytestmark = [needs_sandbox, pytest.mark.alone]

TASKS, SIZE = 5, 2
ALL = {f"sum-{task}#{nth}" for task in range(TASKS) for nth in range(SIZE)}


def test_a_run_killed_in_the_middle_is_finished_with_no_episode_lost_or_doubled(tmp_path: Path) -> None:
    process = start_slow_run(tmp_path, tasks=TASKS, size=SIZE, run="r")
    wait_until_closed(process, tmp_path / "r", episodes=3)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    before = closings(tmp_path / "r")
    assert 3 <= sum(before.values()) < len(ALL)

    done = quintain("run", "--resume", "r", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert last_json(done)["episodes"] == len(ALL)
    assert last_json(done)["solved"] == len(ALL)
    assert closings(tmp_path / "r") == dict.fromkeys(ALL, 1)
    assert openings(tmp_path / "r") == dict.fromkeys(ALL, 1)


def test_a_killed_run_leaves_no_process_of_its_sandboxes(tmp_path: Path) -> None:
    process = start_slow_run(tmp_path, tasks=TASKS, size=SIZE, run="r")
    wait_until_closed(process, tmp_path / "r", episodes=1)
    started = descendants(process.pid)
    assert started
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    cleaned = quintain("doctor", "--clean", "--json", cwd=tmp_path)
    assert cleaned.returncode == 0, cleaned.stderr
    until = time.monotonic() + 5
    while alive(started) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(started) == set()


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    first = last_json(quintain("run", "set", "--policy", "oracle", "--out", "r", "--json", cwd=tmp_path))
    size = (tmp_path / "r" / "journal.jsonl").stat().st_size
    again = last_json(quintain("run", "--resume", "r", "--json", cwd=tmp_path))
    assert (again["episodes"], again["solved"]) == (first["episodes"], first["solved"])
    assert (tmp_path / "r" / "journal.jsonl").stat().st_size == size


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_cleanly_and_says_how_to_go_on(sent: signal.Signals, tmp_path: Path) -> None:
    process = start_slow_run(tmp_path, tasks=TASKS, size=SIZE, run="r")
    wait_until_closed(process, tmp_path / "r", episodes=2)
    os.killpg(process.pid, sent)  # as a terminal does: to everything that the run has started, too
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "quintain run --resume r" in stderr
    assert "Traceback" not in stderr
    assert '"finished":false' in stdout.splitlines()[-1]
    left = {path.name for path in (tmp_path / "r").iterdir()}
    assert "result.json" not in left

    done = quintain("run", "--resume", "r", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert closings(tmp_path / "r") == dict.fromkeys(ALL, 1)
    assert openings(tmp_path / "r") == dict.fromkeys(ALL, 1)


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    process = start_slow_run(tmp_path, tasks=TASKS, size=SIZE, run="r")
    try:
        wait_until_closed(process, tmp_path / "r", episodes=1)
        other = quintain("run", "--resume", "r", cwd=tmp_path)
        assert other.returncode == 1
        assert "another process writes this run" in other.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_a_run_does_not_go_on_with_other_tasks(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    quintain("run", "set", "--policy", "oracle", "--out", "r", cwd=tmp_path)
    new_task(tmp_path / "set" / "newcomer")
    done = quintain("run", "--resume", "r", cwd=tmp_path)
    assert done.returncode == 1
    assert "no longer holds the tasks" in done.stderr


def test_resuming_takes_no_new_wishes(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    quintain("run", "set", "--policy", "oracle", "--out", "r", cwd=tmp_path)
    done = quintain("run", "--resume", "r", "--policy", "null", cwd=tmp_path)
    assert done.returncode == 2
    assert "policy" in done.stderr
