"""Every command of the README runs, in the order in which it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: What a clone holds, for the commands to run beside; what they write stays in a folder of the test.
PARTS = ("Makefile", "pyproject.toml", "setup.py", "src", "examples", "docs", "README.md", "LICENSE")


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def other_fences(page: Path) -> set[str]:
    return set(re.findall(r"^```(\S+)$", page.read_text(), flags=re.MULTILINE)) - {"console"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for part in PARTS:
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def test_the_readme_shows_commands_in_console_blocks_only() -> None:
    assert other_fences(ROOT / "README.md") == set()
    assert len(commands(ROOT / "README.md")) >= 5


def can_isolate() -> bool:
    from quintain.sandbox import NativeBackend

    return NativeBackend().probe().available


@pytest.mark.skipif(not can_isolate(), reason="this host offers no sandbox: `quintain doctor` says what is missing")
def test_every_command_of_the_readme_works(clone: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    for command in commands(ROOT / "README.md"):
        # the environment that runs this test is the one that `make` has set up: it is not set up once more, and of the
        # demo's 164 tasks the first two tell whether it works
        line = re.sub(r"^make ", "make -o .venv/.ready TAKE=2 ", command)
        done = subprocess.run(
            ["bash", "-c", line], cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=600,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
