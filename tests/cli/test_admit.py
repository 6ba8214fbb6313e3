"""`quintain admit`, from a folder of tasks to what their author should do."""

from __future__ import annotations

import json
from pathlib import Path

from tests.flow.house import needs_sandbox, quintain, small_set
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
