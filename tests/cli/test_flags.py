"""What a run tells of answers that detectors flagged."""

from __future__ import annotations

from pathlib import Path

from tests.flow.house import last_json, needs_sandbox, quintain, small_set

ODD = r'''
from quintain.types import Flag, Severity, Turn

LOOK = "import sys\nsys._getframe(0)\n"
CODE = "def total(numbers):\n    return sum(numbers)\n"


class Odd:
    name = "odd"

    async def act(self, conversation, *, task, seed):
        return Turn(text=f"```python\n{LOOK * (task == 'sum-1')}{CODE}```")

    async def aclose(self):
        pass


class Sums:
    name = "sums"

    def inspect(self, attempt, item):
        found = [path for path, text in attempt.changed.items() if b"sum(" in text]
        return [Flag(detector="sums", severity=Severity.SOFT, evidence=f"{path}: calls sum") for path in found]
'''


def odd_policy(folder: Path) -> None:
    small_set(folder, 2)
    (folder / "odd.py").write_text(ODD)


@needs_sandbox
def test_a_run_tells_how_many_rewards_wait_for_people(tmp_path: Path) -> None:
    odd_policy(tmp_path)
    done = quintain("run", "set", "--policy", "odd:Odd", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 by soft flags; to look at them: quintain audit add r" in " ".join(done.stdout.split())
    shown = quintain("show", "r", cwd=tmp_path)
    assert "+0.80 masked" in next(line for line in shown.stdout.splitlines() if line.startswith("sum-1"))
    assert "masked" not in next(line for line in shown.stdout.splitlines() if line.startswith("sum-0"))
    assert "1 masked by soft flags" in shown.stdout


@needs_sandbox
def test_a_run_asks_the_detectors_of_installed_packages_too(tmp_path: Path) -> None:
    odd_policy(tmp_path)
    installed = tmp_path / "odd-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[quintain.guard]\nsums = odd:Sums\n")
    done = quintain("run", "set", "--policy", "odd:Odd", "--out", "r", "--json", cwd=tmp_path)
    assert last_json(done)["masked"] == 2
    assert "flag sums (soft): solution.py: calls sum" in quintain("show", "r", "sum-0", cwd=tmp_path).stdout
