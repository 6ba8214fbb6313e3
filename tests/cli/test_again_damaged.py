"""What replay and rescore say of a run whose options are damaged, and of a reward that cannot be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.cli.again import item_of
from quintain.cli.exits import Usage
from quintain.cli.rescore import _scalar
from quintain.replay import Salvaged, salvage
from quintain.store import Definition, Run


def salvaged(folder: Path, choice: str) -> Salvaged:
    with Run.create(folder, Definition(taskset="humaneval", policy="oracle", options={"choice": choice}), name="run"):
        pass
    return salvage(folder / "run")


@pytest.mark.parametrize("choice", ["{bad", "[1]", '{"take": "many"}'])
def test_a_damaged_choice_in_run_json_is_named(tmp_path: Path, choice: str) -> None:
    with pytest.raises(Usage, match="expected the choice of a run in its options"):
        item_of(salvaged(tmp_path, choice), (), tasks=None, data=None)


def test_a_reward_that_takes_no_vector_is_refused_before_anything_is_judged() -> None:
    with pytest.raises(Usage, match="cannot be called with a vector"):
        _scalar("os:getpid")
    assert callable(_scalar("solved_only"))


def test_a_damaged_run_json_is_one_problem(tmp_path: Path) -> None:
    salvaged(tmp_path, "{}")
    (tmp_path / "run" / "run.json").write_text("{")
    assert len(salvage(tmp_path / "run").problems) == 1
    (tmp_path / "run" / "run.json").unlink()
    assert len(salvage(tmp_path / "run").problems) == 1
