"""From tasks to rewards, through real sandboxes, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from quintain.store import Run
from quintain.types import fold

from .house import last_json, needs_sandbox, quintain, small_set

pytestmark = needs_sandbox


def test_the_oracle_solves_what_the_null_policy_does_not(tmp_path: Path) -> None:
    small_set(tmp_path, 3)
    oracle = quintain("run", "set", "--policy", "oracle", "--json", "--out", "oracle", cwd=tmp_path)
    null = quintain("run", "set", "--policy", "null", "--json", "--out", "null", cwd=tmp_path)
    assert (oracle.returncode, null.returncode) == (0, 0), oracle.stderr + null.stderr
    right, wrong = last_json(oracle), last_json(null)
    assert {"episodes", "solved", "faults", "seconds", "run"} <= set(right)
    assert (right["episodes"], right["solved"]) == (3, 3)
    assert float(str(right["reward"])) > float(str(wrong["reward"]))
    assert right["faults"] == {"policy": 0, "task": 0, "house": 0}
    assert (wrong["episodes"], wrong["solved"]) == (3, 0)
    assert wrong["faults"] == {"policy": 3, "task": 0, "house": 0}


def test_the_repairing_policy_gets_there_by_reading_the_feedback(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    done = quintain("run", "set", "--policy", "repair", "--json", "--out", "r", cwd=tmp_path)
    assert last_json(done)["solved"] == 1, done.stderr
    with Run.open(tmp_path / "r") as run:
        episode = fold(run.journal.read("sum-0#0"))
    assert len(episode.turns) == 3
    assert [fault.kind.value for fault in episode.faults] == ["syntax_error"]

    story = quintain("show", "r", "sum-0", cwd=tmp_path)
    assert story.returncode == 0, story.stderr
    for word in ("step 1", "rejected", "syntax_error", "feedback", "step 3", "verdict", "reward", "solved"):
        assert word in story.stdout
    second = quintain("show", "r", "sum-0", "--step", "2", cwd=tmp_path)
    assert "step 2" in second.stdout
    assert "step 3" not in second.stdout
    told = json.loads(quintain("show", "r", "sum-0", "--json", cwd=tmp_path).stdout)
    assert told["events"][0]["event"] == "opened"
    assert told["episode"]["stop"] == "solved"


def test_a_run_is_shown_as_a_table_with_a_hint(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    quintain("run", "set", "--policy", "null", "-n", "2", cwd=tmp_path)
    shown = quintain("show", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for word in ("sum-0#0", "sum-1#1", "4 episodes, 0 solved", "next: quintain show"):
        assert word in shown.stdout
    rows = json.loads(quintain("show", "latest", "--json", cwd=tmp_path).stdout)["episodes"]
    assert [row["solved"] for row in rows] == [False] * 4


def test_a_recorded_run_can_be_said_again(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    quintain("run", "set", "--policy", "repair", "--out", "r", cwd=tmp_path)
    again = quintain("run", "set", "--policy", "replay:r", "--json", "--out", "again", cwd=tmp_path)
    assert last_json(again)["solved"] == 1, again.stderr
    with Run.open(tmp_path / "r") as first, Run.open(tmp_path / "again") as second:
        turns = [fold(run.journal.read("sum-0#0")).turns for run in (first, second)]
    assert [turn.text for turn in turns[0]] == [turn.text for turn in turns[1]]


def test_a_task_that_cannot_be_read_is_named_and_the_others_are_played(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    (tmp_path / "set" / "sum-0" / "task.toml").write_text("limits = 3\n")
    done = quintain("run", "set", "--policy", "oracle", "--json", cwd=tmp_path)
    assert done.returncode == 1
    found = last_json(done)
    assert (found["episodes"], found["solved"]) == (1, 1)
    assert "sum-0" in str(found["unreadable"])
    assert "task.toml" in done.stderr


def test_checking_finds_the_task_whose_tests_accept_anything(tmp_path: Path) -> None:
    tasks = small_set(tmp_path, 2)
    (tasks / "sum-1" / "tests" / "test_total.py").write_text("def test_nothing():\n    assert True\n")
    done = quintain("tasks", "check", "set", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    *rows, total = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["task"]: row["fit"] for row in rows} == {"sum-0": "fit", "sum-1": "unfit"}
    assert total == {"tasks": 2, "fit": 1, "unfit": 1, "unproven": 0}


def test_a_folder_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    (tmp_path / "r").mkdir()
    done = quintain("run", "set", "--policy", "oracle", "--out", "r", cwd=tmp_path)
    assert done.returncode == 2
    assert "is there already" in done.stderr and "--resume r" in done.stderr
