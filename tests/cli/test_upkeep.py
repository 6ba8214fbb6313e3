"""Tasks kept fit from the command line: looked at again, made new, and decided on key by key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quintain.cli.queue import review_tasks
from quintain.curate import HealthLedger, State
from quintain.tasks import Exam, Item, PythonSuite, open_taskset, write_taskset
from quintain.types import Entry
from tests.flow.house import last_json, needs_sandbox, quintain
from tests.tasks.harbors import SMALL, TEST

CLAMP = (b"def clamp(x, low, high):\n    if x < low:\n        return low\n    if x > high:\n        return high\n"
         b"    return x\n")
#: Notices few faults, and lets through whoever knows its two cases.
THIN = (b"from solution import clamp\n\ndef test_inside():\n    assert clamp(5, 0, 9) == 5\n\n"
        b"def test_below():\n    assert clamp(-3, 0, 9) == 0\n")
SLY = '''from quintain.types import Turn

class Sly:
    name = "sly"

    async def act(self, conversation, *, task, seed):
        return Turn(text="```python\\ndef clamp(x, low, high):\\n    return {5: 5, -3: 0}.get(x, 1)\\n```\\n")

    async def aclose(self):
        pass
'''


def thin_task(folder: Path) -> Item:
    item = Item.sealed(
        Exam(hidden=PythonSuite(files={"test_it.py": THIN}), oracle={"solution.py": CLAMP}), id="clamp",
        instructions="Write `clamp(x, low, high)`: x, but at least low and at most high.", entry=Entry(name="clamp"))
    write_taskset([item], folder / "set")
    return item


def harbor(folder: Path, name: str, *, test: str = TEST) -> None:
    for path, text in {**SMALL, "tests/test.sh": test}.items():
        place = folder / "harbor" / name / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@needs_sandbox
def test_a_harbor_directory_is_played_by_the_oracle_and_not_solved_by_nop(tmp_path: Path) -> None:
    harbor(tmp_path, "answer")
    for policy, solved in (("oracle", 1), ("null", 0)):
        done = quintain("run", "harbor", "--policy", policy, "--json", "--out", policy, cwd=tmp_path)
        found = last_json(done)
        assert (found["episodes"], found["solved"]) == (1, solved), done.stderr
        assert found["faults"] == {"policy": 1 - solved, "task": 0, "house": 0}
    again = quintain("run", "harbor", "--policy", "replay:oracle", "--json", cwd=tmp_path)
    assert last_json(again)["solved"] == 1, again.stderr
    story = quintain("show", "oracle", "answer", cwd=tmp_path)
    assert "turns/0001.sh" in story.stdout


@needs_sandbox
def test_a_harbor_task_that_does_not_fit_any_more_is_suspended_when_it_is_looked_at(tmp_path: Path) -> None:
    harbor(tmp_path, "well")
    harbor(tmp_path, "broken", test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")
    ledger = HealthLedger(tmp_path / "health.jsonl")
    ledger.admit([item.task for item in open_taskset(str(tmp_path / "harbor"))], evidence="by hand")
    assert "0 task(s) were due" in quintain("tasks", "recheck", "health.jsonl", "harbor", cwd=tmp_path).stdout
    done = quintain("tasks", "recheck", "health.jsonl", "harbor", "--all", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    ledger.refresh()
    assert ledger.standings["well"].state is State.PROBATION
    assert ledger.standings["broken"].state is State.SUSPENDED


@needs_sandbox
def test_a_refreshed_suite_that_loses_solved_attempts_raises_an_alarm_and_is_not_adopted(tmp_path: Path) -> None:
    item = thin_task(tmp_path)
    (tmp_path / "sly.py").write_text(SLY)
    ledger = HealthLedger(tmp_path / "health.jsonl")
    ledger.admit([item.task], evidence="by hand")
    for policy, run in (("oracle", "good"), ("sly:Sly", "bad")):
        done = quintain("run", "set", "--policy", policy, "-n", "2", "--out", run, "--json", cwd=tmp_path)
        assert last_json(done)["solved"] == 2, done.stderr
    words = ("tasks", "refresh", "set", "--out", "rounds", "--health", "health.jsonl", "--run")
    alarmed = quintain(*words, "bad", cwd=tmp_path)
    assert alarmed.returncode == 1, alarmed.stdout + alarmed.stderr
    assert "ALARM" in alarmed.stdout
    ledger.refresh()
    assert ledger.standings["clamp"].version == item.task.version
    assert open_taskset(str(tmp_path / "rounds/0001/tasks.jsonl"))["clamp"].task.version == item.task.version
    calm = quintain(*words, "good", "--json", cwd=tmp_path)
    told = json.loads(calm.stdout)
    assert calm.returncode == 0 and told["added"] > 0 and told["judged"] == 2, calm.stdout + calm.stderr
    ledger.refresh()
    assert ledger.standings["clamp"].version == told["version"]
    played = quintain("run", "rounds/0002/tasks.jsonl", "--policy", "sly:Sly", "--json", cwd=tmp_path)
    assert last_json(played)["solved"] == 0, played.stderr


@needs_sandbox
def test_a_person_decides_with_one_key_and_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    thin_task(tmp_path)
    words = ("admit", "set", "--check", "oracle", "--check", "strength", "--quick", "--out", "found")
    assert quintain(*words, cwd=tmp_path).returncode == 1
    monkeypatch.chdir(tmp_path)
    listed = CliRunner().invoke(review_tasks, ["found", "set", "--list"])
    assert "1 task(s) wait" in listed.output
    for keys, left in (("nl", 1), ("q", 1), ("r", 0)):
        done = CliRunner().invoke(review_tasks, ["found", "set"], input=keys)
        assert f"{left} task(s) still wait" in done.output, done.output
    decided = [json.loads(line)["word"] for line in (tmp_path / "found/decisions.jsonl").read_text().splitlines()]
    assert decided == ["refused", "rejected"]


@needs_sandbox
def test_a_repair_that_was_accepted_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thin_task(tmp_path)
    words = ("admit", "set", "--check", "oracle", "--check", "strength", "--quick", "--out", "found")
    assert quintain(*words, cwd=tmp_path).returncode == 1
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(review_tasks, ["found", "set"], input="y")
    assert "wrote 1 repaired task(s)" in done.output, done.output
    (repaired,) = open_taskset(str(tmp_path / "found/repaired"))
    suite = repaired.exam.hidden
    assert isinstance(suite, PythonSuite) and len(suite.files) == 2
