"""A training is watched as a run is: its numbers are meters, its alarms alerts, and it pauses when it is told to."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the training room needs torch: make torch")

from quintain.cli.seeing import WatchedAlarms
from quintain.cli.training_watch import Heeding, TrainingMeters, watched_training
from quintain.cli.watching import Watching
from quintain.train import Row
from quintain.watch import Gate, Meters, Scope, folder_of, last_snapshot


def row(step: int, stage: str = "rl", **train: float) -> Row:
    return Row(step=step, stage=stage, train=train, held_out={"pass_at_1": 0.5} if step == 1 else {})


def test_the_numbers_of_an_update_are_meters_under_their_names() -> None:
    meters, ticks = Meters(), iter((10.0, 12.0))
    numbers = TrainingMeters(meters, staleness=1, ticks=lambda: next(ticks))
    numbers.row(row(1, loss=0.7, entropy=2.0, kl=0.01, reward=0.1))
    numbers.row(row(5, loss=0.5, entropy=1.0, kl=0.02, reward=float("nan")))
    seen = meters.snapshot()
    shown = {name: seen.value("quintain_training", number=name)
             for name in ("loss", "entropy", "kl", "reward", "staleness", "updates_per_second")}
    assert shown == {"loss": 0.5, "entropy": 1.0, "kl": 0.02, "reward": 0.1, "staleness": 1.0,
                     "updates_per_second": 2.0}
    assert seen.value("quintain_updates_total") == 2
    assert seen.value("quintain_held_out", number="pass_at_1") == 0.5


def test_an_alarm_of_a_training_is_an_alert_and_on_the_dashboard(tmp_path: Path) -> None:
    with watched_training(tmp_path, Watching()) as eyes:
        assert eyes is not None
        for step in range(12):  # every group is rewarded alike: nothing can be learnt
            eyes.row(row(step, reward=0.5, entropy=1.0, useless=1.0))
    snapshot = last_snapshot(folder_of(tmp_path))
    assert snapshot.value("quintain_training_alarms", illness="no_signal") == 1.0
    seen = WatchedAlarms().of(tmp_path)
    assert [one.rule for one in seen.on] == ["training"]
    assert seen.numbers["reward"] == 0.5


class Learner:
    """Counts its updates."""

    step = 0
    stage = "rl"
    done = False

    def state(self) -> dict[str, Any]:
        return {}

    async def load(self, state: Any) -> None:
        self.step = state["step"]

    async def update(self) -> dict[str, float]:
        self.step += 1
        return {}

    async def evaluate(self, count: int | None = None) -> dict[str, float]:
        return {}


def test_a_training_pauses_while_its_run_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "learning"
    folder.mkdir()
    gate = Gate(folder_of(folder) / "gate.json")
    gate.stop(Scope.RUN, "learning", reason="the reward collapsed", by="alert:reward-collapse")
    with watched_training(folder, Watching()) as eyes:
        assert eyes is not None
        learner = Learner()
        going = threading.Thread(target=lambda: asyncio.run(Heeding(learner, eyes).update()))
        going.start()
        time.sleep(0.3)
        assert (learner.step, going.is_alive()) == (0, True)
        gate.release(Scope.RUN, "learning")
        going.join(20)
        assert learner.step == 1
    assert "paused: run learning: the reward collapsed" in capsys.readouterr().err


def test_without_a_watch_nothing_is_written(tmp_path: Path) -> None:
    with watched_training(tmp_path, Watching(is_on=False)) as eyes:
        assert eyes is None
    assert list(tmp_path.iterdir()) == []
