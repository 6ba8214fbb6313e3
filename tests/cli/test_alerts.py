"""`quintain alerts` on the folder of a run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quintain.cli.alerts import command
from quintain.store import Definition, Run
from tests.watch.logs import broken, solved

INCIDENTS = Path(__file__).parents[1] / "watch" / "incidents"


def alerts(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Run.create(tmp_path, Definition(taskset="t", policy="p"), name="first") as made:
        for event in (*solved("e#0"), *broken("f#0", kind="ops")):
            made.journal.append(event)
    return tmp_path / "first"


def test_a_stop_is_listed_with_its_reason_and_undone_by_one_command(run: Path) -> None:
    assert alerts("stop", run, "kind:ops", "--reason", "mending").exit_code == 0
    [hold] = json.loads(alerts("stops", run, "--json").output)
    assert (hold["scope"], hold["key"], hold["reason"]) == ("kind", "ops", "mending")
    assert alerts("release", run, "kind:ops").exit_code == 0
    assert json.loads(alerts("stops", run, "--json").output) == []
    again = alerts("release", run, "kind:ops")
    assert again.exit_code == 1 and "stopped: nothing" in again.output
    assert "expected SCOPE:NAME" in alerts("stop", run, "ops").output


def test_a_silence_is_made_shown_and_ended(run: Path) -> None:
    assert alerts("silence", run, "slow-*", "--for", "2h", "--label", "kind=ops").exit_code == 0
    [one] = json.loads(alerts("list", run, "--json").output)["silences"]
    assert (one["rule"], one["labels"]) == ("slow-*", {"kind": "ops"})
    assert alerts("unsilence", run, one["id"]).exit_code == 0
    assert alerts("unsilence", run, one["id"]).exit_code == 1
    assert "expected a duration" in alerts("silence", run, "x", "--for", "soon").output


def test_a_run_is_metered_and_traced_again_from_its_journal(run: Path) -> None:
    text = alerts("metrics", run).output
    assert 'quintain_attempts_closed_total{kind="ops",stop="broken"} 1' in text
    spans = [json.loads(line) for line in alerts("traces", run).output.splitlines()]
    assert len({span["trace"] for span in spans}) == 2


def test_rules_are_tested_by_a_recording(tmp_path: Path) -> None:
    recording = INCIDENTS / "silent-worker" / "recording.jsonl.gz"
    assert alerts("test", recording, "--expect", "silent-worker").exit_code == 0
    assert alerts("test", recording, "--expect", "leak").exit_code == 1
    (tmp_path / "rules.toml").write_text('[alert.mine]\nexpression = "quintain_nothing > 0"\n')
    wrong = alerts("test", recording, "--alerts", tmp_path / "rules.toml")
    assert wrong.exit_code == 2 and "rules.toml: [alert.mine] expression, character 1" in wrong.output


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
def test_promtool_takes_the_exported_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(alerts("export").output)
    done = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
