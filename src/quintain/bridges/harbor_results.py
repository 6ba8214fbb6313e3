"""A job of Harbor's as logs of episodes, and logs as a job that Harbor's own viewer and models read.

    JOB/ result.json config.json  TRIAL/ result.json config.json agent/trajectory.json (ATIF) verifier/reward.json

The shapes are those of harbor 0.26 (harbor/models/trial, harbor/models/job). Of a trial that others have played becomes
what it says: asked, said, told as in its trajectory, judged with its rewards, closed. A trial that Harbor holds to have
no valid reward is broken: it is never trained on.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from quintain.bridges.atif import read_atif, write_atif
from quintain.bridges.atif_log import OWN, from_atif, to_atif
from quintain.types import (
    Broke,
    Closed,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Owner,
    Passed,
    Reward,
    Score,
    Stop,
    TestResult,
    Verdict,
    fold,
)

_TRAJECTORY = Path("agent", "trajectory.json")
#: Exceptions after which the time was over, and the rewards count.
_LATE = ("AgentTimeoutError",)
_SOLVED = 1.0


class _Named(msgspec.Struct, frozen=True):
    name: str
    version: str = ""


class _Raised(msgspec.Struct, frozen=True):
    exception_type: str
    exception_message: str = ""


class _Rewards(msgspec.Struct, frozen=True):
    rewards: dict[str, float] | None = None


class _Trial(msgspec.Struct, frozen=True):
    """What is read of a trial's result.json; whatever else it says is let be. `reward_valid` is Harbor's own word."""

    task_name: str
    trial_name: str
    task_checksum: str
    agent_info: _Named
    verifier_result: _Rewards | None = None
    verifier_environment_mode: str | None = None
    exception_info: _Raised | None = None
    reward_valid: bool | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


def read_trials(job: Path) -> Iterator[tuple[Event, ...]]:
    """The log of each finished trial of a job's folder, or of the one trial whose folder it is, by name. A trial that
    `write_trials` has written is the very log.

    Raises ValueError for a result that is none of Harbor's, FileNotFoundError where there is no trial at all.
    """
    folders = [job] if _is_trial(job) else sorted(path.parent for path in job.glob("*/result.json"))
    if not folders:
        raise FileNotFoundError(2, "expected the folder of a job or trial of Harbor's, found no result.json", str(job))
    for folder in folders:
        yield _log(folder, _trial(folder / "result.json"))


def _is_trial(folder: Path) -> bool:
    path = folder / "result.json"
    return path.is_file() and b'"trial_name"' in path.read_bytes()


def _trial(path: Path) -> _Trial:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Trial)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path}: expected the result of a trial: {error}") from None


def _log(folder: Path, trial: _Trial) -> tuple[Event, ...]:
    path = folder / _TRAJECTORY
    document = read_atif(path.read_bytes()) if path.is_file() else None
    if document is not None and OWN in (document.extra or {}):
        return from_atif(document)
    began = trial.started_at.timestamp() if trial.started_at else 0.0
    said = [event for event in from_atif(document) if not isinstance(event, Closed)] if document is not None else []
    opened = said[0] if said else None
    conversation = opened.conversation if isinstance(opened, Opened) else ()
    head = Opened(
        episode=trial.trial_name, index=0, at_seconds=0.0, task=trial.task_name, task_version=trial.task_checksum,
        kind="foreign", group=trial.task_name, attempt=1, seed=0, policy=trial.agent_info.name, unix_seconds=began,
        conversation=conversation)
    events: list[Event] = [head, *(msgspec.structs.replace(event, episode=trial.trial_name) for event in said[1:])]
    seconds = (trial.finished_at.timestamp() - began) if trial.finished_at and began else 0.0
    at = max(seconds, events[-1].at_seconds)
    stamp: dict[str, Any] = {"episode": trial.trial_name, "at_seconds": at}
    rewards = dict(trial.verifier_result.rewards or {}) if trial.verifier_result else {}
    if not _counts(trial, rewards):
        fault = Fault(owner=Owner.HOUSE, kind=FaultKind.VERIFIER_ERROR if rewards else FaultKind.UNKNOWN,
                      message=_why(trial))
        events.append(Broke(index=len(events), fault=fault, **stamp))
        stop = Stop.BROKEN
    else:
        graded = _graded(trial, rewards)
        events.append(Graded(index=len(events), verdict=graded[0], reward=graded[1], final=True, **stamp))
        late = trial.exception_info is not None and trial.exception_info.exception_type in _LATE
        stop = Stop.WALL_TIME if late else Stop.SOLVED if graded[1].solved else Stop.SUBMITTED
    return (*events, Closed(index=len(events), stop=stop, **stamp))


def _counts(trial: _Trial, rewards: Mapping[str, float]) -> bool:
    """Whether the rewards say something of the agent: Harbor's word, or where it says none, that nothing was raised."""
    valid = trial.reward_valid if trial.reward_valid is not None else (
        trial.exception_info is None or trial.exception_info.exception_type in _LATE)
    return bool(rewards) and valid


def _why(trial: _Trial) -> str:
    raised = trial.exception_info
    return f"{raised.exception_type}: {raised.exception_message}"[:2000] if raised else "the trial has no reward"


def _graded(trial: _Trial, rewards: Mapping[str, float]) -> tuple[Verdict, Reward]:
    """Each reward is a test that has passed when it is at least 1. Paid is `reward`, or the mean where there is none,
    cut to [-1, 1]; each score to [0, 1]. What was cut stands in the evidence."""
    main = rewards["reward"] if "reward" in rewards else sum(rewards.values()) / len(rewards)
    level = "L2" if trial.verifier_environment_mode == "separate" else "L1"
    judged = {"reward": main} if "reward" in rewards else rewards
    tests = tuple(TestResult(id=name, passed=Passed.PASSED if value >= _SOLVED else Passed.FAILED)
                  for name, value in judged.items())
    said = ", ".join(f"{name} = {value:g}" for name, value in rewards.items())
    verdict = Verdict(suite=trial.task_checksum, level=level, tests=tests,
                      evidence=(Evidence(source="reward", text=said[:2000]),))
    scores = tuple(Score(name=name, value=min(1.0, max(0.0, value)), evidence=f"{value:g}")
                   for name, value in rewards.items())
    return verdict, Reward(total=min(1.0, max(-1.0, main)), solved=verdict.solved, scores=scores,
                           suite=trial.task_checksum, level=level)


def write_trials(job: Path, logs: Iterable[tuple[str, Sequence[Event]]], *, tasks: Path | None = None) -> int:
    """The attempts of (run, log) pairs as a job; how many. `tasks` is the folder that says in the trials where the
    task's directory lies. Raises FileExistsError for a folder that is there."""
    job.mkdir(parents=True)
    results: list[dict[str, Any]] = []
    for run, log in logs:
        starts = [at for at, event in enumerate(log) if isinstance(event, Opened)]
        for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
            results.append(_written(job, run, log[start:end], tasks or Path("tasks")))
    _dump(job / "config.json", {"job_name": job.name, "jobs_dir": str(job.parent)})
    _dump(job / "result.json", _job(job, results))
    return len(results)


def _written(job: Path, run: str, log: Sequence[Event], tasks: Path) -> dict[str, Any]:
    opened = log[0]
    if not isinstance(opened, Opened):
        raise ValueError("expected the log of one attempt, which begins with its Opened")
    document, episode = to_atif(log, run=run), fold(log)
    digest = hashlib.sha256(f"{run}\0{document.trajectory_id}".encode("utf-8", "surrogatepass")).hexdigest()
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', opened.task).strip('-.')[:60] or 'task'}__{digest[:8]}"
    reward = episode.reward
    fault = next((event.fault for event in reversed(log) if isinstance(event, Broke)), None)
    ended = _when(opened, log[-1].at_seconds)
    config = {"task": {"path": str(tasks / opened.task)}, "trial_name": name, "trials_dir": str(job),
              "agent": {"name": opened.policy or "policy"}}
    result: dict[str, Any] = {
        "schema_version": 1, "id": str(uuid.uuid5(uuid.NAMESPACE_URL, digest)), "task_name": opened.task,
        "trial_name": name, "trial_uri": f"file://{(job / name).absolute()}", "task_id": config["task"],
        "task_checksum": opened.task_version, "config": config,
        "agent_info": {"name": opened.policy or "policy", "version": document.agent.version},
        "agent_result": {
            "n_input_tokens": document.final_metrics and document.final_metrics.total_prompt_tokens,
            "n_output_tokens": document.final_metrics and document.final_metrics.total_completion_tokens},
        "verifier_result": {"rewards": _rewards(reward)} if reward is not None else None,
        "exception_info": _raised(fault, ended) if fault is not None else None,
        "started_at": _when(opened, 0.0), "finished_at": ended,
    }
    place = job / name
    (place / "agent").mkdir(parents=True)
    (place / "verifier").mkdir()
    (place / _TRAJECTORY).write_bytes(write_atif(document))
    if reward is not None:
        _dump(place / "verifier" / "reward.json", _rewards(reward))
    _dump(place / "config.json", config)
    _dump(place / "result.json", result)
    return result


def _rewards(reward: Reward) -> dict[str, float]:
    measured = {score.name: score.value for score in reward.scores if score.value is not None}
    return {**measured, "reward": reward.total}


def _raised(fault: Fault, when: str) -> dict[str, Any]:
    """By a name of which Harbor knows that no reward comes with it."""
    return {"exception_type": "HealthcheckError", "exception_message": f"{fault.label}: {fault.message}",
            "exception_traceback": "", "occurred_at": when}


def _job(job: Path, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    wrong = sum(result["exception_info"] is not None for result in results)
    times = [result["started_at"] for result in results] or [datetime.fromtimestamp(0, UTC).isoformat()]
    ends = [result["finished_at"] for result in results] or times
    return {
        "schema_version": 1, "id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(job.absolute()))), "started_at": min(times),
        "updated_at": max(ends), "finished_at": max(ends), "n_total_trials": len(results),
        "stats": {"n_completed_trials": len(results), "n_errored_trials": wrong, "evals": _evals(results)},
    }


def _evals(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for result in results:
        own = found.setdefault(f"{result['agent_info']['name']}__adhoc",
                               {"n_trials": 0, "n_errors": 0, "reward_stats": {}, "exception_stats": {}})
        own["n_trials"] += 1
        if raised := result["exception_info"]:
            own["n_errors"] += 1
            own["exception_stats"].setdefault(raised["exception_type"], []).append(result["trial_name"])
        for name, value in ((result["verifier_result"] or {}).get("rewards") or {}).items():
            own["reward_stats"].setdefault(name, {}).setdefault(str(value), []).append(result["trial_name"])
    return found


def _dump(path: Path, table: object) -> None:
    path.write_text(json.dumps(table, indent=1, allow_nan=False) + "\n")


def _when(opened: Opened, at_seconds: float) -> str:
    return datetime.fromtimestamp(opened.unix_seconds + at_seconds, UTC).isoformat()
