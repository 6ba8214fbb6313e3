"""The learning curve of a training, read from its log as that grows."""

from __future__ import annotations

from pathlib import Path

import msgspec

from quintain.serve.dashboard.views import Curve

#: What a folder of a training has that no run has.
TRAINING_FILES = ("training.json", "trl.json")
LOG = "metrics.jsonl"
_SHOWN = {
    "held_out/pass_at_1": "held out, first attempt", "held_out/within_3": "held out, within three",
    "held_out/practised_pass_at_1": "practised, first attempt",
    "held_out/practised_within_3": "practised, within three",
    "train/reward": "reward in training", "train/loss": "loss", "train/kl": "KL", "train/entropy": "entropy",
}
_POINTS = 240


class Curves:
    """`lines()` reads what was appended since, and gives every curve with at most 240 points (means of stretches)."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
        self._end = 0
        self._points: dict[str, dict[float, float]] = {}

    def lines(self) -> tuple[Curve, ...]:
        self._read()
        return tuple(
            Curve(name=shown, points=_thinned(self._points[name])) for name, shown in _SHOWN.items()
            if self._points.get(name)
        )

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._end:  # begun anew
                    self._end, self._points = 0, {}
                file.seek(self._end)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._end += len(line)
                    self._take(line)
        except FileNotFoundError:
            return

    def _take(self, line: bytes) -> None:
        try:
            row = msgspec.json.decode(line, type=dict[str, object])
        except msgspec.MsgspecError:
            return  # a line that a kill left half
        step = row.get("_step", row.get("step"))
        if not isinstance(step, int | float):
            return
        for name in _SHOWN:
            value = row.get(name)
            if isinstance(value, int | float):
                self._points.setdefault(name, {})[float(step)] = float(value)


def _thinned(points: dict[float, float]) -> tuple[tuple[float, float], ...]:
    known = sorted(points.items())
    width = -(-len(known) // _POINTS)
    parts = [known[at:at + width] for at in range(0, len(known), width)]
    return tuple((part[-1][0], round(sum(value for _, value in part) / len(part), 5)) for part in parts)
