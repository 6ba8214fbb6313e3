"""A corpus of hacks that somebody else keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.testing import read_corpus
from quintain.types import TaskError

FAMILIES = Path(__file__).parents[1] / "adversary" / "families"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    hack = tmp_path / "corpus" / "leave"
    (hack / "files").mkdir(parents=True)
    (hack / "hack.toml").write_text('name = "leave"\nmechanism = "leaves while it is loaded"\n')
    (hack / "files" / "solution.py.txt").write_text("@@stub@@\nimport os\nos._exit(0)\n")
    return hack.parent


def test_a_corpus_without_tasks_is_tried_at_those_that_it_is_given(elsewhere: Path) -> None:
    trials = list(read_corpus(elsewhere, families=FAMILIES).trials())
    assert len(trials) > 1
    assert all(b"os._exit(0)" in trial.program.files["solution.py"] for trial in trials)


def test_a_corpus_without_tasks_is_refused_where_none_are_given(elsewhere: Path) -> None:
    with pytest.raises(TaskError, match="families: expected one in python"):
        read_corpus(elsewhere)


def test_the_tasks_of_a_corpus_come_before_those_that_it_is_given(elsewhere: Path) -> None:
    (elsewhere / "families").mkdir()
    with pytest.raises(TaskError, match="families: expected one in python"):
        read_corpus(elsewhere, families=FAMILIES)
