"""What Harbor has played becomes episodes of ours, what we have played trials of Harbor's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quintain.bridges import read_trials, write_trials
from quintain.types import Broke, Closed, Graded, Message, Opened, Role, Sampled, Stop, fold
from tests.bridges.test_exchange import log_of, logs

TRIAL: dict[str, Any] = {
    "schema_version": 1, "id": "ec8d8e60-a2f7-4e49-9008-4b20255d0db3", "task_name": "org/sum",
    "task_checksum": "5d" * 32, "trial_name": "sum__a", "trial_uri": "file:///t", "task_id": {"path": "tasks/sum"},
    "config": {"task": {"path": "tasks/sum"}}, "agent_info": {"name": "terminus-2", "version": "2", "model_info": None},
    "verifier_result": {"rewards": {"reward": 1, "passed_share": 1.0}}, "verifier_environment_mode": "shared",
    "exception_info": None, "started_at": "2026-12-01T12:00:00Z", "finished_at": "2026-12-01T12:00:09Z",
    "reward_valid": True, "step_results": None,
}
ATIF = {"schema_version": "ATIF-v1.8", "agent": {"name": "terminus-2", "version": "2", "model_name": "m"}, "steps": [
    {"step_id": 1, "source": "user", "message": "Add.", "timestamp": "2026-12-01T12:00:01Z"},
    {"step_id": 2, "source": "agent", "message": "done", "timestamp": "2026-12-01T12:00:03Z",
     "metrics": {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}}]}


def trial(folder: Path, atif: dict[str, Any] | None = None, **changed: Any) -> Path:
    place = folder / "job" / "sum__a"
    (place / "agent").mkdir(parents=True)
    (place / "result.json").write_text(json.dumps({**TRIAL, **changed}))
    if atif:
        (place / "agent" / "trajectory.json").write_text(json.dumps(atif))
    return folder / "job"


def raised(name: str) -> dict[str, str]:
    return {"exception_type": name, "exception_message": "so it was", "exception_traceback": "",
            "occurred_at": "2026-12-01T12:00:08Z"}


def test_a_trial_with_a_trajectory_is_asked_said_judged_and_closed(tmp_path: Path) -> None:
    (log,) = read_trials(trial(tmp_path, ATIF))
    opened, said, graded, closed = log
    assert isinstance(opened, Opened) and isinstance(said, Sampled)
    assert isinstance(graded, Graded) and isinstance(closed, Closed)
    assert (opened.task, opened.policy, opened.episode) == ("org/sum", "terminus-2", "sum__a")
    assert opened.conversation == (Message(role=Role.USER, text="Add."),)
    assert (said.turn.output_token_ids, said.turn.logprobs, said.turn.policy_version) == ((3,), (-0.5,), "m")
    assert (graded.reward.total, graded.reward.solved, graded.verdict.level) == (1.0, True, "L1")
    assert {score.name: score.value for score in graded.reward.scores} == {"reward": 1.0, "passed_share": 1.0}
    assert (closed.stop, closed.at_seconds, closed.index) == (Stop.SOLVED, 9.0, 3)
    assert read_one(tmp_path / "job" / "sum__a") == log


def read_one(folder: Path) -> tuple[object, ...]:
    (log,) = read_trials(folder)
    return log


@pytest.mark.parametrize(("changed", "stop", "total"), [
    ({"verifier_result": {"rewards": {"reward": 0.5}}}, Stop.SUBMITTED, 0.5),
    ({"verifier_result": {"rewards": {"a": 1.0, "b": 0.0}}}, Stop.SUBMITTED, 0.5),
    ({"verifier_result": {"rewards": {"reward": 40}}}, Stop.SOLVED, 1.0),
    ({"exception_info": raised("AgentTimeoutError")}, Stop.WALL_TIME, 1.0),
    ({"exception_info": raised("HealthcheckError"), "reward_valid": False}, Stop.BROKEN, None),
    ({"exception_info": raised("HealthcheckError"), "reward_valid": None}, Stop.BROKEN, None),
    ({"verifier_result": None, "reward_valid": False}, Stop.BROKEN, None),
])
def test_what_says_nothing_of_the_agent_is_broken_and_has_no_reward(
    tmp_path: Path, changed: dict[str, Any], stop: Stop, total: float | None,
) -> None:
    episode = fold(read_one(trial(tmp_path, **changed)))  # type: ignore[arg-type]
    assert episode.stop is stop
    assert (episode.reward.total if episode.reward else None) == total


def test_a_trial_that_broke_tells_of_what(tmp_path: Path) -> None:
    log = read_one(trial(tmp_path, verifier_result=None, reward_valid=False, exception_info=raised("ApiError")))
    (broke,) = [event for event in log if isinstance(event, Broke)]
    assert broke.fault.message == "ApiError: so it was"


def test_what_is_no_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no result\.json"):
        list(read_trials(tmp_path))
    with pytest.raises(ValueError, match="expected the result of a trial"):
        list(read_trials(trial(tmp_path, agent_info=None)))


def test_our_episodes_come_back_as_they_were(tmp_path: Path) -> None:
    many = [log_of(), log_of("t#1", broke=True), log_of("t#2", tokens=False, solved=False, total=0.25)]
    assert write_trials(tmp_path / "job", logs(*many)) == 3
    found = {log[0].episode: log for log in read_trials(tmp_path / "job")}
    assert found == {log[0].episode: tuple(log) for log in many}
    with pytest.raises(FileExistsError):
        write_trials(tmp_path / "job", [])


@pytest.mark.bridge("harbor", "ours into theirs", "its own models and its viewer's scanner read a job that we wrote")
def test_harbors_own_models_and_its_viewer_read_what_is_written(tmp_path: Path) -> None:
    python = os.environ.get("QUINTAIN_HARBOR_PYTHON") or sys.executable
    if python == sys.executable and importlib.util.find_spec("harbor") is None:
        pytest.skip("harbor (Python ≥ 3.12) is not installed; set QUINTAIN_HARBOR_PYTHON to an interpreter that has it")
    write_trials(tmp_path / "jobs" / "job", logs(log_of(), log_of("t#1", broke=True)))
    program = ("import sys, pathlib, json\nfrom harbor.viewer.scanner import JobScanner\n"
               "from harbor.models.trajectories import Trajectory\n"
               "scan = JobScanner(pathlib.Path(sys.argv[1]))\n"
               "assert scan.get_job_config('job') and scan.get_job_result('job').n_total_trials == 2\n"
               "for name in scan.list_trials('job'):\n"
               "    result = scan.get_trial_result('job', name)\n"
               "    path = pathlib.Path(sys.argv[1], 'job', name, 'agent', 'trajectory.json')\n"
               "    Trajectory.model_validate_json(path.read_text())\n"
               "    judged = result.verifier_result\n"
               "    print(json.dumps([result.reward_valid, judged and judged.rewards]))\n")
    done = subprocess.run([python, "-c", program, str(tmp_path / "jobs")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(map(json.loads, done.stdout.splitlines()), key=str) == [
        [False, None], [True, {"solved": 1.0, "reward": 0.8}]]
