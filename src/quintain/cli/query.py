"""`quintain query`: SQL over all runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.output import console, one_line
from quintain.store import Library

if TYPE_CHECKING:
    import pyarrow

ROWS = 100
CELL = 60


@click.command("query")
@click.argument("sql")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a row, on a line each.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a line of names.")
@click.option("--all", "everything", is_flag=True, help=f"Every row of a table (else {ROWS}).")
def command(sql: str, runs: Path, as_json: bool, as_csv: bool, everything: bool) -> None:
    """Ask all runs one SELECT: the tables are runs, episodes, steps, scores, flags and events.

    What was not compacted yet (quintain library compact) is in the answer too, also of runs that still go on. The
    question can read the library and nothing else. docs/rooms/library.md lists the columns.

    \b
    Examples:
      quintain query "SELECT outcome, count(*), avg(reward) FROM episodes GROUP BY outcome"
      quintain query --csv "SELECT run, episode, step, text FROM steps WHERE status = 'timed_out'"
      quintain query "DESCRIBE SELECT * FROM steps"
    """
    found = Library(runs).query(sql)
    if as_json:
        for row in found.to_pylist():
            click.echo(msgspec.json.encode(row, enc_hook=str).decode())
    elif as_csv:
        _csv(found)
    else:
        _table(found, rows=None if everything else ROWS)


def _csv(found: pyarrow.Table) -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout)
    writer.writerow(found.column_names)
    for row in found.to_pylist():
        writer.writerow(["" if value is None else value for value in row.values()])


def _table(found: pyarrow.Table, *, rows: int | None) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(*found.column_names, box=None, pad_edge=False)
    shown = found.slice(0, rows) if rows is not None else found
    for row in shown.to_pylist():
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    out = console()
    out.print(table)
    if shown.num_rows < found.num_rows:
        out.print(f"… {found.num_rows - shown.num_rows} more rows (--all shows them)", markup=False)


def _cell(value: object) -> str:
    if value is None:
        return "—"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return one_line(text, CELL) if text else ""
