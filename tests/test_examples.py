"""What the examples and the pages of the rooms show runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)


def run(source: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", source], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def block(room: str) -> str:
    (source,) = BLOCK.findall((ROOT / "docs" / "rooms" / f"{room}.md").read_text())
    return str(source)


@pytest.mark.parametrize(("room", "said"), [
    ("policy", "wrong"), ("store", "('a#0',) ['Closed']"), ("env", "policy/syntax_error at solution.py:1: "),
    ("rollout", "add (1.0, 1.0)"), ("fleet", "task#2 accepted"),
    ("fleet-plan", "['solo#4', 'solo#5'] no room"), ("serve", "[(1, 2, 3, 4, 5), (1, 9, 6)]"),
])
def test_the_example_of_a_rooms_page_runs(room: str, said: str, tmp_path: Path) -> None:
    assert said in run(block(room), tmp_path)


@needs_native
def test_the_example_of_the_page_about_work_in_a_shell_runs(tmp_path: Path) -> None:
    said = run(block("env-shell"), tmp_path)
    assert "[ok] exit code 0" in said
    assert "solved True L2" in said


@needs_native
def test_the_example_of_the_page_about_quality_runs(tmp_path: Path) -> None:
    assert "killed 3 of 7" in run(block("grade-quality"), tmp_path)


def test_a_policy_of_ones_own_plays(tmp_path: Path) -> None:
    assert "add (1.0, 1.0) [2, 2]" in run((ROOT / "examples" / "custom_policy.py").read_text(), tmp_path)


@needs_native
def test_one_episode_by_hand_tells_every_event(tmp_path: Path) -> None:
    said = run((ROOT / "examples" / "one_episode.py").read_text(), tmp_path)
    assert "0 of 1 visible tests passed." in said
    assert "add#0 solved 2 turns" in said


@needs_native
def test_a_grader_and_a_detector_of_ones_own_reach_the_reward(tmp_path: Path) -> None:
    own, long, chatty = run((ROOT / "examples" / "custom_grader.py").read_text(), tmp_path).splitlines()
    assert own.startswith("solved True: 0.800 ")
    assert "'short': -0.02}, trainable: yes" in long
    assert "trainable: mask ['solution.py prints']" in chatty


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
