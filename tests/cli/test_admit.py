"""`quintain admit`, from a folder of tasks to what their author should do."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from tests.flow.house import command, needs_sandbox, quintain, small_set
from tests.tasks.harbors import SMALL


@needs_sandbox
def test_a_folder_of_tasks_is_judged_kept_and_shown(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    words = ("admit", "set", "--check", "schema", "--check", "oracle", "--check", "null", "--quick", "--out", "found")
    done = quintain(*words, "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 admitted" in done.stdout
    report = json.loads((tmp_path / "found" / "report.json").read_text())
    assert [one["ruling"] for one in report] == ["admitted"]
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "http" not in page
    again = quintain(*words, "--json", cwd=tmp_path)
    told = json.loads(again.stdout)
    assert [f["seconds"] for f in told["findings"]] == [f["seconds"] for f in report[0]["findings"]]


@needs_sandbox
def test_a_policy_shows_how_hard_a_task_is(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    for policy, said in (("oracle", "always solved"), ("null", "never solved")):
        done = quintain("admit", "set", "--check", "difficulty", "--policy", policy, "--json", cwd=tmp_path)
        problems = json.loads(done.stdout)["findings"][0]["problems"]
        assert [problem["code"] for problem in problems] == [said], done.stdout + done.stderr


@needs_sandbox
def test_a_harbor_directory_alone_is_judged_by_its_own_scripts(tmp_path: Path) -> None:
    for path, text in SMALL.items():
        (tmp_path / "task" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / path).write_text(text)
    checks = [word for step in ("static", "leaks", "null") for word in ("--check", step)]
    done = quintain("admit", "task", *checks, "--base", "*=host", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    results = {finding["check"]: finding["result"] for finding in told["findings"]}
    assert results == {"static": "pass", "leaks": "pass", "null": "pass"}, told
    bad = (tmp_path / "task" / "tests" / "test.sh")
    bad.write_text("#!/bin/bash\npytest /tests || true\necho 1 > /logs/verifier/reward.txt\n")
    done = quintain("admit", "task", "--check", "static", cwd=tmp_path)
    assert done.returncode == 1
    assert "test.sh:2: the exit code of the tests is thrown away" in done.stdout
    assert "test.sh:3: it pays whatever the tests say" in done.stdout


def test_wrong_usage_says_what_was_expected(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    assert "--out FOLDER" in quintain("admit", "set", "--fix", cwd=tmp_path).stderr
    assert quintain("admit", "nowhere", cwd=tmp_path).returncode == 2
    assert "Examples:" in quintain("admit", "--help", cwd=tmp_path).stdout
    lost = quintain("admit", "set", "--check", "schema", "--html", "nowhere/page.html", cwd=tmp_path)
    assert lost.returncode == 2 and "expected a folder for the page, found none at nowhere" in lost.stderr


@needs_sandbox
def test_a_place_where_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "kept").write_text("in the way")
    done = quintain("admit", "set", "--check", "schema", "--out", "found", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "found/kept" in done.stderr, done.stderr


@needs_sandbox
def test_an_admission_that_was_killed_goes_on_and_two_may_share_a_folder(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    words = command("admit", "set", "--quick", "--json", "--out", "found", "--check", "oracle", "--check", "null")
    killed = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL)
    while killed.poll() is None and not any((tmp_path / "found").glob("kept/*.jsonl")):
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    (kept, *_) = (tmp_path / "found" / "kept").glob("*.jsonl")
    kept.write_bytes(kept.read_bytes() + b'{"crc":"0123')  # what a death in the middle of a line leaves
    both = [subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [json.loads(line) for one in both for line in one.communicate(timeout=120)[0].splitlines()]
    assert sorted((one["task"], one["ruling"]) for one in told) == [
        ("sum-0", "admitted"), ("sum-0", "admitted"), ("sum-1", "admitted"), ("sum-1", "admitted")]
    report = json.loads((tmp_path / "found" / "report.json").read_text())
    assert [one["task"] for one in report] == ["sum-0", "sum-1"]
    assert sorted(one.name for one in (tmp_path / "found").iterdir()) == ["kept", "report.html", "report.json"]


JUDGE = '''\
import json, re
from quintain.types import Turn

class Judge:
    name = "judge"

    async def act(self, conversation, *, task, seed):
        word = re.search(r"<task-(\\w+)>", conversation[-1].text)[1]
        quote = json.loads(conversation[-1].text.split("\\n")[1])[:12]
        readings = [{"quote": quote, "one": "this", "other": "that"}]
        return Turn(text=json.dumps({"word": word, "readings": readings}))

    async def aclose(self):
        pass
'''


@needs_sandbox
def test_what_a_judge_reads_in_two_ways_waits_for_a_person(tmp_path: Path) -> None:
    small_set(tmp_path, 1)
    (tmp_path / "oddly.py").write_text(JUDGE)
    steps = [word for step in ("spec", "oracle", "null") for word in ("--check", step)]
    words = ("admit", "set", *steps, "--quick", "--out", "found")
    assert "may mean" not in quintain(*words, cwd=tmp_path).stdout
    assert "0 task(s) wait" in quintain("tasks", "review", "found", "set", "--list", cwd=tmp_path).stdout
    done = quintain(*words, "--judge", "oddly:Judge", cwd=tmp_path)
    assert done.returncode == 0 and "may mean 'this' or 'that'" in done.stdout, done.stdout + done.stderr
    listed = quintain("tasks", "review", "found", "set", "--list", cwd=tmp_path).stdout
    assert "1 task(s) wait" in listed and "may mean" in listed
