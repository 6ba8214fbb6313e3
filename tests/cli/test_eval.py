"""`quintain eval`, run as a user runs it: what it tells, what it writes, and what it keeps apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quintain.cli.apart import hold_out, note_training, refuse_evaluation, refuse_training
from quintain.cli.eval import command
from quintain.cli.exits import Usage
from quintain.sandbox import NativeBackend
from quintain.tasks import open_taskset

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


def asked(*words: str) -> Result:
    return CliRunner().invoke(command, words)


@needs_native
def test_two_policies_are_measured_and_compared_and_their_tasks_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = asked("repair-heldout", "--take", "2", "-p", "null", "-p", "repair", "-n", "1", "--out", "runs/e", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    null, repair = told["policies"]
    assert null["completion"]["at"] == 0.0 and repair["completion"]["at"] == 1.0
    assert null["recovery"]["at"] == 0.0 and repair["recovery"]["at"] == 1.0
    assert told["comparison"]["better"] == 2 and told["comparison"]["completion"]["gap"]["at"] == 1.0
    assert "pass@1" in Path(told["report"]).read_text() and "<svg" in Path(told["page"]).read_text()
    again = asked("--run", told["runs"][1], "--out", "runs/again", "--json")
    assert json.loads(again.stdout.splitlines()[-1])["policies"][0]["completion"] == repair["completion"]
    with pytest.raises(Usage, match=r"2 of 240 tasks are evaluated on \(e\).*remove runs/held-out/e.json"):
        refuse_training(Path("runs"), open_taskset("repair-heldout").tasks())
    refuse_training(Path("runs"), open_taskset("repair-train").take(50).tasks())


def test_what_a_policy_was_trained_on_says_nothing_of_it(tmp_path: Path) -> None:
    tasks = list(open_taskset("repair-train").take(5).tasks())
    note_training(tmp_path / "t", tasks[:4])
    with pytest.raises(Usage, match=r"4 of 5 tasks were trained on by trained:t .* and 1 more"):
        refuse_evaluation([tmp_path / "t"], tasks, policy="trained:t")
    refuse_evaluation([tmp_path / "t" / "trained-on.json"], tasks[4:], policy="trained:t")
    with pytest.raises(Usage, match="does not say what it was trained on"):
        refuse_evaluation([tmp_path], tasks, policy="trained:t")


def test_an_evaluation_refuses_tasks_of_a_training_before_it_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    note_training(Path("t"), open_taskset("repair-heldout").take(1).tasks())
    done = asked("repair-heldout", "--take", "2", "-p", "oracle", "--trained-on", "t", "--out", "runs/e")
    assert done.exit_code == 2 and "were trained on by oracle" in done.output and not Path("runs").exists()


def test_a_list_that_is_damaged_stops_a_training_rather_than_being_passed_over(tmp_path: Path) -> None:
    place = hold_out(tmp_path, "e", open_taskset("repair-heldout").take(1).tasks())
    place.write_text("{")
    with pytest.raises(Usage, match="expected a list of tasks"):
        refuse_training(tmp_path, open_taskset("repair-train").take(1).tasks())


@pytest.mark.parametrize(("words", "said"), [
    ((), "expected TASKS and --policy, or --run"),
    (("humaneval",), "expected TASKS and --policy"),
    (("humaneval", "-p", "a", "-p", "b", "-p", "c"), "expected one policy, or two to compare, found 3"),
    (("humaneval", "-p", "oracle", "--run", "."), "found both"),
])
def test_what_does_not_go_together_is_refused(words: tuple[str, ...], said: str) -> None:
    done = asked(*words)
    assert done.exit_code == 2 and said in done.output
