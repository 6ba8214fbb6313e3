"""`quintain train`, run as a user runs it, in real sandboxes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from quintain.cli.training import SandboxJudge
from quintain.sandbox import NativeBackend
from quintain.tasks import open_taskset
from quintain.train import Attempted, Judged
from quintain.types import FaultKind, HouseError

torch = pytest.importorskip("torch", reason="needs torch: make torch")
needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)
SET = "repair-train?include=repair/sum_*&include=repair/count_*"
SMALL = (SET, "--sft-steps", "3", "--steps", "5", "--demos", "8", "--train-each", "1", "--held-out-tasks", "4",
         "--evaluate-every", "4")


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "quintain", "train", *arguments]


def trained(*arguments: str, cwd: Path) -> dict[str, Any]:
    done = subprocess.run(words(*arguments, "--json"), cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def refused(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(words(*arguments), cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr


def parameters(folder: Path) -> dict[str, Any]:
    newest = max((folder / "checkpoints").glob("step-*.pt"))
    net: dict[str, Any] = torch.load(newest, weights_only=True)["state"]["learner"]["net"]
    return net


def told_whole(told: dict[str, Any], folder: Path) -> None:
    """That a training with losses says what it came to, and leaves a log, a curve and checkpoints."""
    assert told["steps"] == 8 and told["ended"] == "finished"
    assert told["heldout_tasks"] == told["practised_tasks"] == 4
    assert 0.0 <= told["practised_after"] <= told["practised_within3"] <= 1.0
    assert 0 < told["executions"] <= told["requests"]
    assert told["execution_cpu_seconds"] > 0
    assert 0.0 < told["sandbox_wait_share"] < 1.0 and 0.0 < told["sandbox_cpu_share"] < 1.0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["_step"] for row in rows] == list(range(1, 9))
    assert any(row.get("train/unmeasured", 0) > 0 for row in rows)
    assert "<svg" in (folder / "curve.html").read_text()


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize("ahead", [
    pytest.param((), id="sync"), pytest.param(("--async",), id="async", marks=pytest.mark.whole),
])
def test_a_training_that_was_killed_goes_on_to_bit_equal_parameters(tmp_path: Path, ahead: tuple[str, ...]) -> None:
    losing = (*SMALL, *ahead, "--inject-house-failures", "0.2")
    whole = trained(*losing, "--out", "whole", cwd=tmp_path)
    told_whole(whole, tmp_path / "whole")
    assert refused(*losing, "--out", "whole", cwd=tmp_path).startswith("Error: --out whole is there already")
    child = subprocess.Popen(words(*losing, "--out", "killed"), cwd=tmp_path, stderr=subprocess.DEVNULL)
    checkpoints = tmp_path / "killed" / "checkpoints"
    while child.poll() is None and not list(checkpoints.glob("step-0000000[5-8].pt")):
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    at = max(int(path.stem.removeprefix("step-")) for path in checkpoints.glob("step-*.pt"))
    rows = [json.loads(line) for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["_step"] - at <= 1  # at most one step is made again
    again = trained("--resume", "killed", cwd=tmp_path)
    assert again["resumed_at"] == at and again["steps"] == whole["steps"] == 8
    one, other = parameters(tmp_path / "whole"), parameters(tmp_path / "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (again["after"], again["within3"]) == (whole["after"], whole["within3"])


def test_a_training_cannot_be_resumed_as_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert "cannot be given with seed" in refused("--resume", "run", "--seed", "3", cwd=tmp_path)
    assert "is no folder of a training" in refused("--resume", "run", cwd=tmp_path)


@needs_native
def test_tasks_that_cannot_be_trained_on_are_refused(tmp_path: Path) -> None:
    held = "repair-heldout?take=2"
    assert "found in both" in refused("repair-train?take=3", "--held-out", "repair-train?take=1", cwd=tmp_path)
    subprocess.run([sys.executable, "-m", "quintain", "tasks", "new", "mine"], cwd=tmp_path, check=True,
                   capture_output=True)
    assert "repairs programs with one wrong token" in refused("mine", "--held-out", held, cwd=tmp_path)
    assert "no taskset is called" in refused("nothing", cwd=tmp_path)


class _Dead:
    """An environment whose house is down."""

    kind = "code"

    async def grade(self, item: Any, work: Any, *, episode: str, seed: int) -> Any:
        raise HouseError(FaultKind.SANDBOX_LOST, "the host has no room")


def test_a_house_that_judges_nothing_again_and_again_ends_the_training() -> None:
    items = list(open_taskset("repair-heldout?take=2"))
    judge = SandboxJudge(_Dead(), items, sandboxes=2)  # type: ignore[arg-type]
    attempts = [Attempted(task=item.task.id, exam="1", files=item.task.files) for item in items]

    async def ask() -> list[Judged]:
        return await judge(attempts)

    assert [one.reward for one in asyncio.run(ask())] == [None, None]
    asyncio.run(ask())
    with pytest.raises(HouseError, match="the host has no room"):
        asyncio.run(ask())
