"""`quintain run --health` and `quintain tasks health`, `suspend`, `readmit`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flow.house import last_json, needs_sandbox, quintain, small_set

WORDS = (["tasks", "health"], ["tasks", "suspend"], ["tasks", "readmit"])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_word_has_help_with_an_example(words: list[str], tmp_path: Path) -> None:
    done = quintain(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " ".join(["quintain", *words]) in done.stdout.partition("Examples:")[2]


@needs_sandbox
def test_a_task_that_a_person_suspends_is_in_no_later_run_until_it_is_readmitted(tmp_path: Path) -> None:
    small_set(tmp_path, 2)
    asked = ("run", "set", "--policy", "oracle", "--health", "health.jsonl", "--json")
    first = last_json(quintain(*asked, "--out", "runs/first", cwd=tmp_path))
    assert first["episodes"] == 2
    fine = quintain("tasks", "health", "health.jsonl", "--json", cwd=tmp_path)
    assert fine.returncode == 0, fine.stderr
    assert [(view["state"], view["verdicts"]) for view in lines(fine.stdout)] == [("probation", 1)] * 2
    by_attempts = quintain("tasks", "health", "runs/first", "--json", cwd=tmp_path)
    assert [view["verdicts"] for view in lines(by_attempts.stdout)] == [1, 1]

    word = ("tasks", "suspend", "health.jsonl", "sum-1", "--why", "its text lies")
    assert quintain(*word, cwd=tmp_path).returncode == 0
    told = quintain("tasks", "health", "health.jsonl", cwd=tmp_path)
    assert told.returncode == 1
    assert "its text lies" in told.stdout
    assert last_json(quintain(*asked, "--out", "runs/second", cwd=tmp_path))["episodes"] == 1

    back = quintain("tasks", "readmit", "health.jsonl", "sum-1", "--why", "mended", cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    again = quintain("tasks", "readmit", "health.jsonl", "sum-1", "--why", "mended", cwd=tmp_path)
    assert again.returncode == 1
    assert "is in the state probation and can go to active, retired, suspended" in again.stderr


def test_what_is_no_ledger_and_what_it_does_not_know_are_told(tmp_path: Path) -> None:
    done = quintain("tasks", "suspend", str(tmp_path), "x", "--why", "y", cwd=tmp_path)
    assert done.returncode == 2
    assert "expected a health ledger, found none at" in done.stderr
    (tmp_path / "health.jsonl").write_bytes(b"")
    done = quintain("tasks", "suspend", "health.jsonl", "x", "--why", "y", cwd=tmp_path)
    assert done.returncode == 1
    assert "knows no task 'x'" in done.stderr
