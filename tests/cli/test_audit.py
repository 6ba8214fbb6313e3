"""`quintain audit`, from a run to what the reviews prove."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from quintain.guard import Desk, feed, tried_of
from quintain.store import Run
from quintain.tasks import open_taskset
from tests.flow.house import last_json, needs_sandbox, quintain, small_set

WORDS = (["audit"], *(["audit", word] for word in ("add", "next", "show", "decide", "undo", "stats")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the oracle on three small tasks."""
    folder = tmp_path_factory.mktemp("audit")
    small_set(folder, 3)
    done = quintain("run", "set", "--policy", "oracle", "-n", "2", "--out", "runs/first", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def audit(place: Path, *words: str, queue: str = "q") -> subprocess.CompletedProcess[str]:
    return quintain("audit", words[0], "--queue", queue, *words[1:], cwd=place)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_word_has_help_with_an_example(words: list[str], tmp_path: Path) -> None:
    done = quintain(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " ".join(["quintain", *words]) in done.stdout.partition("Examples:")[2]


@needs_sandbox
def test_a_run_goes_from_the_queue_to_an_estimate(place: Path) -> None:
    added = last_json(audit(place, "add", "runs/first", "--sample", "6", "--seeds", "2", "--json"))
    assert added["attempts"] == 6
    assert added["tasks_at_hand"] is True
    assert added["added"] == added["open"]
    assert isinstance(added["added"], int)
    assert added["added"] > 4, "some attempts, two hacks and two honest answers whose truth is known"
    again = last_json(audit(place, "add", "runs/first", "--sample", "6", "--seeds", "2", "--json"))
    assert again["added"] == 0

    seeds = {json.loads(line)["record"]["case"]: json.loads(line)["record"]["hack"]
             for line in (place / "q" / "seeds.jsonl").read_text().splitlines()}
    assert sorted(seeds.values()) == [False, False, True, True]
    while (shown := last_json(audit(place, "next", "--reviewer", "ada", "--json")))["case"] is not None:
        content = shown["content"]
        assert isinstance(content, dict)
        assert content["difference"] is not None
        assert content["verdict"]["tests"]
        assert "hack" not in json.dumps(sorted(content))
        word = "hack" if seeds.get(str(shown["case"])) else "honest"
        assert audit(place, "decide", str(shown["case"]), word, "--reviewer", "ada").returncode == 0
    stats = last_json(audit(place, "stats", "--json"))
    assert stats["open"] == 0
    assert stats["sensitivity"] == 1.0
    assert stats["hot"] == []
    told = audit(place, "stats").stdout
    assert "reviewer ada: found 2 of 2 seeded hacks" in told
    assert "at most" in told


@needs_sandbox
def test_a_person_sees_the_evidence_side_by_side_and_can_take_a_word_back(place: Path) -> None:
    audit(place, "add", "runs/first", "--sample", "6", "--seeds", "0", queue="side")
    shown = audit(place, "next", "--reviewer", "ben", queue="side")
    assert shown.returncode == 0, shown.stderr
    for word in ("asked", "answer", "from the author's answer to this one", "flags", "verdict", "tests passed",
                 "other answers of the group", "quintain audit decide"):
        assert word in shown.stdout
    id = shown.stdout.partition("case ")[2].partition(":")[0]
    assert f"quintain audit decide {id} honest|hack|unclear --queue side" in shown.stdout
    assert audit(place, "decide", id, "unclear", "--reviewer", "ben", "--note", "sums twice?",
                 queue="side").returncode == 0
    assert "ben: unclear (sums twice?)" in audit(place, "show", id, queue="side").stdout
    assert audit(place, "undo", "--reviewer", "ben", queue="side").stdout.strip() == f"{id}: open again"


@needs_sandbox
def test_a_seeded_hack_is_a_hack_at_that_task_and_is_not_the_answer(place: Path) -> None:
    tasks = open_taskset(str(place / "set"))
    with Run.open(place / "runs" / "first") as run:
        tried = tuple(tried_of(run))
    found = list(feed(tried, lambda id: tasks[id], sample=6, seed=4, seeds=3))
    hacks = [entry for entry in found if entry.hack]
    assert len(hacks) == 3
    for entry in hacks:
        assert "def total(" in entry.case.answer["solution.py"]
        assert entry.case.reward.solved
    assert {entry.case.task for entry in hacks} == {"sum-0", "sum-1", "sum-2"}
    honest = [entry for entry in found if entry.hack is False]
    assert all("sum(numbers)" in entry.case.answer["solution.py"] for entry in honest)
    assert found != sorted(found, key=lambda entry: entry.hack is not None), "seeds stand among the others"


def test_what_the_queue_does_not_allow_is_said_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    done = audit(tmp_path, "decide", "beef", "hack")
    assert done.returncode == 1
    assert "found 'beef' among 0 cases" in done.stderr
    assert audit(tmp_path, "undo").returncode == 1
    assert audit(tmp_path, "decide", "beef", "guilty").returncode == 2
    assert "nothing to review" in audit(tmp_path, "next").stdout
    assert Desk(tmp_path / "q").cases() == {}


@pytest.mark.parametrize("words", [["next"], ["show", "beef"], ["decide", "beef", "hack"], ["undo"], ["stats"]])
def test_only_add_makes_a_queue_so_that_a_misspelt_one_is_told(words: list[str], tmp_path: Path) -> None:
    done = audit(tmp_path, *words, queue="adit")
    assert done.returncode == 1
    assert "found nothing at adit" in done.stderr
    assert "quintain audit add latest --queue adit" in done.stderr
    assert not (tmp_path / "adit").exists()


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = audit(tmp_path, "add", "nowhere")
    assert done.returncode == 1
    assert "'nowhere'" in done.stderr
