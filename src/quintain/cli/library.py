"""`quintain library`: take runs into Parquet, and look after what is there."""

from __future__ import annotations

from pathlib import Path

import click

from quintain.cli.exits import Failed
from quintain.cli.output import say_json
from quintain.store import Aside, Keeping, Library, Pin

_RUNS = click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
                     help="The folder that holds the runs.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("library")
def command() -> None:
    """Take what runs have journalled into one library of Parquet files, and look after it."""


@command.command("compact", short_help="Take finished attempts into the library.")
@_RUNS
@_JSON
def compact(runs: Path, as_json: bool) -> None:
    """Take every finished attempt that is not in the library yet into Parquet. May be run at any time, beside runs that
    go on and beside itself, and may be killed.

    \b
    Examples:
      quintain library compact
    """
    made = Library(runs).compact()
    if as_json:
        say_json(made)
        return
    click.echo(f"{made.attempts} attempts ({made.events} events) in {made.parts} new files of {made.bytes} bytes, "
               f"{made.seconds:.1f} s")
    _tell(made.aside)


@command.command("status", short_help="Say what is in the library, and what is damaged.")
@_RUNS
@_JSON
def status(runs: Path, as_json: bool) -> None:
    """Say what is in the library, what waits in the journals, and what was damaged and passed over.

    \b
    Examples:
      quintain library status
    """
    found = Library(runs).status()
    if as_json:
        say_json(found)
        return
    rows = ", ".join(f"{count} {table}" for table, count in found.rows.items()) or "nothing yet"
    click.echo(f"library {found.folder}: {rows}; {found.parts} files of {found.bytes} bytes; "
               f"{found.pending} attempts in the journals only; {found.trash_bytes} bytes can be undone")
    _tell(found.aside)


@command.command("verify", short_help="Read every file and compare it with its digest.")
@_RUNS
def verify(runs: Path) -> None:
    """Read every file of the library and compare it with its digest. Exit code 1 when one is not as it was written.

    \b
    Examples:
      quintain library verify
    """
    found = Library(runs).verify()
    _tell(found)
    if found:
        raise Failed(f"{len(found)} files are damaged: quintain library repair takes them from the journals again")
    click.echo("every file is as it was written")


@command.command("repair", short_help="Take damaged files from the journals again.")
@_RUNS
def repair(runs: Path) -> None:
    """Set damaged files aside and take their runs from the journals again. A run whose journals are gone keeps its
    whole files, and what is lost is named.

    \b
    Examples:
      quintain library repair
    """
    repaired, lost = Library(runs).repair()
    click.echo(f"{len(repaired)} runs were taken from their journals again")
    _tell(lost)


@command.command("pin", short_help="Keep what somebody refers to.")
@click.argument("holder")
@click.option("--run", "run", multiple=True, help="All episodes of a run (repeatable).")
@click.option("--suite", "suite", multiple=True, help="All that a suite judged, by its digest (repeatable).")
@click.option("--policy-version", "version", multiple=True, help="All that a checkpoint answered (repeatable).")
@click.option("--remove", is_flag=True, help="Hold it no more.")
@_RUNS
def pin(
    holder: str, run: tuple[str, ...], suite: tuple[str, ...], version: tuple[str, ...], remove: bool, runs: Path,
) -> None:
    """Keep what HOLDER (a checkpoint, a paper, a person) refers to: quintain gc takes none of it out.

    \b
    Examples:
      quintain library pin checkpoint:step-120 --policy-version 120
      quintain library pin checkpoint:step-120 --remove
    """
    keeping = Keeping(Library(runs))
    if remove:
        keeping.unpin(holder)
    else:
        keeping.pin(Pin(holder=holder, runs=run, suites=suite, policy_versions=version))


def _tell(aside: tuple[Aside, ...]) -> None:
    for one in aside:
        click.echo(f"passed over: {one.path} at byte {one.offset}: {one.reason}", err=True)
