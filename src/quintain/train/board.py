"""What a training told, where others look at it: TensorBoard's event files, and a picture as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quintain.train.curve import Line
from quintain.train.loop import Row


class Board:
    """Writes each row as scalars of TensorBoard into `folder` (`tensorboard --logdir …`; `wandb sync DIR` reads the
    same files). Needs tensorboardX: raises ModuleNotFoundError without. A training that is resumed goes on in a file of
    its own, and what a kill left told twice is shown once."""

    def __init__(self, folder: Path) -> None:
        from tensorboardX import SummaryWriter

        self._folder = folder
        self._writer = SummaryWriter
        self._open: Any = None

    def show(self, row: Row) -> None:
        """Write a row."""
        if self._open is None:
            self._open = self._writer(str(self._folder), purge_step=row.step, filename_suffix=f".{row.step}")
        for name, value in row.flat.items():
            if isinstance(value, int | float) and not name.startswith("_"):
                self._open.add_scalar(name, value, row.step, walltime=row.unix_seconds)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def write_png(path: Path, lines: Sequence[Line], *, title: str) -> None:
    """The learning curve as a picture. Needs matplotlib: raises ModuleNotFoundError without."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    for line in lines:
        axes.plot([step for step, _ in line.points], [value for _, value in line.points], label=line.name)
    axes.set(title=title, xlabel="update", ylim=(0, 1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
