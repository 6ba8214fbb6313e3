from __future__ import annotations

from pathlib import Path

import pytest

from quintain.store import Definition, Mode, Result, Run, Standing, find_run, list_runs, progress, standing
from quintain.types import Event, HouseError, Stop

from .events import TASK, broke, closed, opened, sampled, story

DEFINITION = Definition(taskset="humaneval?take=5", policy="oracle", size=2, seed=7, options={"take": "5"})

UNFINISHED: list[Event] = [opened("u"), sampled("u", 1)]
BROKEN: list[Event] = [opened("b"), broke("b", 1), closed("b", 2, Stop.BROKEN)]
BAD_TASK: list[Event] = [opened("t"), broke("t", 1, TASK), closed("t", 2, Stop.BROKEN)]
SECOND_TRY: list[Event] = [*BROKEN, opened("b", 3, attempt=2), sampled("b", 4)]


@pytest.mark.parametrize(("log", "expected"), [
    ([], Standing.NEW), (story("a"), Standing.FINISHED), (UNFINISHED, Standing.UNFINISHED),
    (BROKEN[:2], Standing.UNFINISHED), (BROKEN, Standing.BROKEN), (BAD_TASK, Standing.FINISHED),
    (SECOND_TRY, Standing.UNFINISHED), ([*SECOND_TRY, closed("b", 5)], Standing.FINISHED),
])
def test_where_an_episode_stands_is_a_fold_over_its_log(log: list[Event], expected: Standing) -> None:
    assert standing(log) is expected
    if log:
        folded = progress(log)
        assert getattr(folded, expected.value) == (log[0].episode,)
        assert len(folded.finished + folded.broken + folded.unfinished) == 1


def test_a_run_folder_tells_what_was_asked_what_happened_and_what_came_of_it(tmp_path: Path) -> None:
    with Run.create(tmp_path / "runs", DEFINITION) as run:
        path = run.path
        for event in [*story("a"), *UNFINISHED, *BROKEN]:
            run.journal.append(event)
        assert run.result is None
    assert path.name.endswith(tuple("0123456789abcdef"))
    assert "humaneval-take-5-oracle" in path.name
    with Run.open(path, mode=Mode.WRITE) as run:
        assert run.definition.options == {"take": "5"}
        assert run.definition.created_unix_seconds > 1e9
        assert (run.progress().finished, run.progress().unfinished, run.progress().broken) == (("a",), ("u",), ("b",))
        run.finish(Result(episodes=3, solved=1, faults={"house": 1}, reward=1.0, seconds=2.5))
    with Run.open(path) as run:
        assert run.result == Result(episodes=3, solved=1, faults={"house": 1}, reward=1.0, seconds=2.5)


def test_runs_are_listed_and_found_by_part_of_their_name(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == ()
    (tmp_path / "no run").mkdir()
    for name in ("2026-a-oracle", "2026-b-null"):
        Run.create(tmp_path, DEFINITION, name=name).close()
    assert {path.name for path in list_runs(tmp_path)} == {"2026-a-oracle", "2026-b-null"}
    assert find_run(tmp_path, "b-null").name == "2026-b-null"
    assert find_run(tmp_path, str(tmp_path / "2026-a-oracle")).name == "2026-a-oracle"
    assert find_run(tmp_path, "latest").name == "2026-b-null"
    with pytest.raises(HouseError, match="expected one run that '2026' means, found 2026-a-oracle, 2026-b-null"):
        find_run(tmp_path, "2026")
    with pytest.raises(HouseError, match="found none among 2 runs"):
        find_run(tmp_path, "c")


def test_a_run_is_not_created_over_another(tmp_path: Path) -> None:
    Run.create(tmp_path, DEFINITION, name="one").close()
    with pytest.raises(HouseError, match="cannot create the run folder: File exists"):
        Run.create(tmp_path, DEFINITION, name="one")


def test_a_folder_that_is_no_run_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(HouseError, match=r"run\.json: expected the file of a run, found nothing"):
        Run.open(tmp_path)
    (tmp_path / "run.json").write_text('{"taskset": "x", "policy": "p", "sizes": 3}')
    with pytest.raises(HouseError, match="unknown field `sizes`"):
        Run.open(tmp_path)
    (tmp_path / "run.json").write_text('{"taskset": "x", "policy": "p", "size": 0}')
    with pytest.raises(HouseError, match="size must be at least 1, found 0"):
        Run.open(tmp_path)
