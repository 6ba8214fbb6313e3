"""The worker's image: what it copies is there, and what it installs are extras that the package has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "images" / "Containerfile").read_text()


def test_what_the_image_copies_is_in_the_tree() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE) for word in line.split()[:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_extras_that_it_installs_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [found] = re.findall(r"'\.\[([a-z,-]+)\]'", TEXT)
    assert set(found.split(",")) <= set(extras)
    assert {"nats", "postgres", "kubernetes"} <= set(found.split(","))


def test_it_runs_as_nobody_of_note_and_without_a_shell_between() -> None:
    assert re.search(r"^USER 10001:10001$", TEXT, re.MULTILINE)
    assert 'ENTRYPOINT ["quintain"]' in TEXT
