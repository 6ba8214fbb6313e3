"""The curve of a training while it grows."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from quintain.cli.live import clock
from quintain.cli.output import console

if TYPE_CHECKING:
    from quintain.train import Row


class TrainingScreen:
    """The curve while it grows: on a terminal it redraws itself, elsewhere each evaluation is a line. On stderr."""

    def __init__(self, steps: int, rows: list[Row]) -> None:
        from rich.live import Live

        self._steps = steps
        self._rows = list(rows)
        self._began = time.monotonic()
        self._drawn = 0.0
        screen = console(to_stderr=True)
        self._live = Live(console=screen, auto_refresh=False) if sys.stderr.isatty() else None

    def __enter__(self) -> TrainingScreen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, row: Row) -> None:
        self._rows.append(row)
        now = time.monotonic()
        if self._live and (row.held_out or now - self._drawn > 0.5):
            self._drawn = now
            self._live.update(_picture(self._rows, self._steps, now - self._began), refresh=True)
        elif not self._live and row.held_out:
            click.echo(f"update {row.step}/{self._steps} ({row.stage}): held out {row.held_out['pass_at_1']:.1%} at "
                       f"the first attempt, {row.held_out['within_3']:.1%} within three", err=True)


def _picture(rows: list[Row], steps: int, seconds: float) -> Any:
    from rich.table import Table
    from rich.text import Text

    from quintain.train import lines_of, spark_line

    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text(f"update {rows[-1].step}/{steps}", style="bold"), Text(rows[-1].stage), Text(clock(seconds)))
    for line in lines_of(rows):
        values = [value for _, value in line.points]
        grid.add_row(Text(line.name), Text(spark_line(values), style="cyan"), Text(f"{values[-1]:.1%}"))
    return grid
