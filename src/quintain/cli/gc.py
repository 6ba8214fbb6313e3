"""`quintain gc`: what the rules of the library's lifecycle take out, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from quintain.cli.exits import Usage
from quintain.cli.output import say_json
from quintain.guard import Desk
from quintain.store import STANDARD, Keeping, Library, Lifecycle, Swept, read_lifecycle, render_s3
from quintain.types import content_digest


@click.command("gc")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--rules", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A TOML file of rules. Without: every solved, anomalous or reviewed episode stays, and a tenth of "
                   "the others that are a month old.")
@click.option("--reviews", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="The folder of an audit's queue: what was reviewed there stays (repeatable).")
@click.option("--apply", is_flag=True, help="Do it. Without: say what would be done.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; as without --apply.")
@click.option("--undo", "undo", is_flag=True, help="Put back what the last gc took out.")
@click.option("--batch", help="With --undo: what the gc of that name took out.")
@click.option("--s3", "as_s3", is_flag=True, help="Print the rules as the lifecycle configuration of an S3 bucket.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    runs: Path, rules: Path | None, reviews: tuple[Path, ...], apply: bool, dry_run: bool, undo: bool,
    batch: str | None, as_s3: bool, as_json: bool,
) -> None:
    """Thin the library by rules of kind, outcome, age and bytes. It says what would go; --apply does it.

    What a checkpoint, a suite or a review refers to (quintain library pin, --reviews) never goes. What went can be put
    back with --undo until the window of the rules (undo_days, 7) is over; only then are its bytes free.

    \b
    Examples:
      quintain gc
      quintain gc --rules lifecycle.toml --apply
      quintain gc --undo
      quintain gc --rules lifecycle.toml --s3 > lifecycle.json
    """
    if apply and dry_run:
        raise Usage("--apply does it and --dry-run does not: expected one of them")
    asked = read_lifecycle(rules.read_text("utf-8"), file=str(rules)) if rules else STANDARD
    if as_s3:
        _print_s3(asked)
        return
    keeping = Keeping(Library(runs))
    if undo or batch:
        count = keeping.undo(batch)
        say_json({"undone": count}) if as_json else click.echo(f"{count} episodes are back")
        return
    swept = keeping.sweep(asked, dry_run=not apply, reviewed=frozenset(_reviewed(Library(runs), reviews)))
    say_json(swept) if as_json else _tell(swept, asked)


def _reviewed(library: Library, folders: Sequence[Path]) -> Iterable[tuple[str, str]]:
    """The episodes in the queues of audits: whatever was put there is to be looked at, or was. A queue names them by a
    digest, so that a reviewer cannot tell a seed."""
    marks = {standing.added.source for folder in folders for standing in Desk(folder).cases().values()}
    for row in library.query("SELECT DISTINCT run, episode FROM episodes").to_pylist() if marks else ():
        if content_digest(f"{row['run']}/{row['episode']}")[:32] in marks:
            yield row["run"], row["episode"]


def _print_s3(rules: Lifecycle) -> None:
    made, left = render_s3(rules)
    click.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
    for line in left:
        click.echo(f"not in it: {line}", err=True)


def _tell(swept: Swept, rules: Lifecycle) -> None:
    verb = "would go" if swept.dry_run else "went"
    click.echo(f"{swept.episodes} episodes of about {swept.bytes} bytes {verb}, {swept.episodes_kept} stay")
    for why, count in swept.reasons.items():
        click.echo(f"  {count}: {why}")
    for name in swept.sample:
        click.echo(f"  {name}")
    if swept.over_budget_bytes:
        click.echo(f"still {swept.over_budget_bytes} bytes beyond the budget: the rules keep all the rest", err=True)
    if swept.dry_run:
        click.echo("next: quintain gc --apply")
    else:
        click.echo(f"freed {swept.freed_bytes} bytes and {swept.blobs} blobs of earlier removals")
        if swept.batch:
            click.echo(f"next: quintain gc --undo --batch {swept.batch}   (for {rules.undo_days:g} days)")
