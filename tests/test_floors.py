"""The floors of the house are a contract that a tool checks, and the check bites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Walls that stand between rooms, whoever comes later: each pair of rooms that exists must be named by a contract.
DOORS = {
    "policy": {"grade", "guard", "tasks", "sandbox"},
    "train": {"sandbox", "env"},
    "sandbox": {"program", "policy", "tasks", "store", "watch"},
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        [program, "--no-cache", "--config", str(root / "pyproject.toml")],
        cwd=root / "src", env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "400"},
        capture_output=True, text=True, check=False, timeout=120,
    )


def rooms() -> set[str]:
    return {path.parent.name for path in (ROOT / "src" / "quintain").glob("*/__init__.py")}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    skipped = shutil.ignore_patterns("__pycache__", "native")
    shutil.copytree(ROOT / "src" / "quintain", tmp_path / "src" / "quintain", ignore=skipped)
    return tmp_path


def test_the_house_keeps_its_floors() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("types", "import asyncio", "words do nothing"),
        ("policy", "import quintain.tasks", "no door to the answers"),
        ("sandbox", "import quintain.tasks", "mechanism knows no meaning"),
        ("tasks", "import quintain.sandbox", "floors"),
        ("types", "import quintain.tasks", "floors"),
        ("tasks", "import quintain.cli", "floors"),
        ("tasks", "import torch", "heavy libraries stay at the edge"),
    ],
)
def test_an_import_through_a_wall_is_reported_by_the_name_of_the_wall(
    copy: Path, room: str, line: str, contract: str,
) -> None:
    (copy / "src" / "quintain" / room / "intruder.py").write_text(f'"""Where it should not be."""\n\n{line}\n')
    done = lint(copy)
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert done.returncode == 1, done.stdout
    assert any(text.startswith(contract) for text in broken), done.stdout
    assert f"quintain.{room}.intruder -> {line.split()[1]}" in done.stdout


def test_a_room_that_no_floor_names_is_reported(copy: Path) -> None:
    (copy / "src" / "quintain" / "cellar").mkdir()
    (copy / "src" / "quintain" / "cellar" / "__init__.py").write_text('"""A room without a floor."""\n')
    done = lint(copy)
    assert done.returncode == 1
    assert "cellar" in done.stdout


def test_every_forbidden_door_between_existing_rooms_has_a_contract() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    shut = {
        (source, target)
        for contract in contracts if contract["type"] == "forbidden"
        for source in contract["source_modules"] for target in contract["forbidden_modules"]
    }
    wanted = {
        (f"quintain.{source}", f"quintain.{target}")
        for source, targets in DOORS.items() for target in targets if {source, target} <= rooms()
    }
    assert wanted <= shut, f"add to a forbidden contract in pyproject.toml: {sorted(wanted - shut)}"
