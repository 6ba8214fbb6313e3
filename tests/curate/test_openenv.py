"""The checks work as graders of another project, on a directory that knows nothing of ours."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from quintain.curate import openenv
from quintain.curate.checks import Leaks, NullAnswers
from tests.curate.ground import needs_native
from tests.tasks.harbors import SMALL

ROOT = Path(__file__).parents[2]


def harbor(folder: Path) -> Path:
    for path, text in SMALL.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_every_entry_point_makes_a_grader_with_a_name_of_theirs() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["openenv.validation.graders"]
    ids = []
    for target in points.values():
        module, _, name = target.partition(":")
        assert module == "quintain.curate.openenv"
        grader = getattr(openenv, name)()
        assert grader.level == 3 and grader.applies_to(None) and grader.depends_on == ()
        ids.append(grader.check_id)
    assert len(set(ids)) == 7 and all(id.startswith("semantic.") for id in ids)


@needs_native
def test_a_harbor_directory_is_measured_and_another_one_is_skipped(tmp_path: Path) -> None:
    told = openenv.outcome_of(harbor(tmp_path / "task"), [NullAnswers()])
    assert told["status"] == "pass" and told["measured"]["best_share"] == 0.0, told
    (tmp_path / "task" / "environment").mkdir()
    (tmp_path / "task" / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "task" / "environment" / "notes.sh").write_text(SMALL["solution/solve.sh"] * 3)
    leak = openenv.outcome_of(tmp_path / "task", [Leaks()])
    assert leak["status"] == "fail" and "environment/notes.sh" in "".join(leak["evidence"]), leak
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "openenv.yaml").write_text("name: served\n")
    assert openenv.outcome_of(tmp_path / "served", [Leaks()])["status"] == "skip"


@needs_native
@pytest.mark.bridge("openenv", "theirs drives ours", "its registry of validation graders runs one of ours")
def test_their_own_registry_takes_and_runs_them(tmp_path: Path) -> None:
    graders = pytest.importorskip("openenv.validation.graders", reason="openenv is not installed")
    registry = graders.GraderRegistry()
    grader = openenv.floor_gap()
    registry.register(grader)
    assert isinstance(grader, graders.Grader)
    subject = graders.Subject(root=harbor(tmp_path), manifest=None, image_ref=None, running=None, outputs_dir=tmp_path)
    result = grader.run(subject)
    assert result.check_id == "semantic.floor_gap" and result.status.value == "pass"
