"""`quintain tasks convert` and `quintain tasks diff`: sets of tasks in another format, and in another version."""

from __future__ import annotations

from pathlib import Path

import click

from quintain.cli.exits import DONE, FAILED
from quintain.cli.options import choosing
from quintain.cli.output import plain, say_json
from quintain.cli.wire import Choice, open_tasks
from quintain.tasks import Change, convert, differences

FORMATS = ("harbor", "directory", "jsonl")
_SIGNS = {Change.ADDED: "+", Change.REMOVED: "-", Change.CHANGED: "~", Change.UNREADABLE: "!"}


@click.command("convert", short_help="Write tasks in another format, and say what it cannot say.")
@click.argument("tasks")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", "format", type=click.Choice(FORMATS), required=True, help="The format to write.")
@choosing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.pass_context
def convert_tasks(ctx: click.Context, tasks: str, out: Path, format: str, choice: Choice, as_json: bool) -> None:
    """Write the tasks of TASKS to OUT: a folder of Harbor directories, of our own directories, or one JSONL file.

    What the other format cannot say, and every key that means nothing here, is listed; nothing is dropped in silence.
    Exit codes: 0 all were written, 1 one was refused (the others were written).

    \b
    Examples:
      quintain tasks convert humaneval --to harbor out/humaneval --take 10
      quintain tasks convert harbor-tasks/ --to jsonl tasks.jsonl
    """
    done = convert(open_tasks(tasks, choice), out, format=format)
    if as_json:
        say_json(done)
    else:
        for line in done.notes:
            click.echo(f"note     {plain(line, limit=2000)}")
        for line in done.refused:
            click.echo(f"refused  {plain(line, limit=2000)}")
        click.echo(f"{len(done.written)} task(s) written to {out}, {len(done.notes)} note(s), "
                   f"{len(done.refused)} refused")
    ctx.exit(FAILED if done.refused else DONE)


@click.command("diff", short_help="Say what changed between two versions of a set.")
@click.argument("before")
@click.argument("after")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each line.")
@click.pass_context
def diff_tasks(ctx: click.Context, before: str, after: str, as_json: bool) -> None:
    """Compare two sets of tasks, task by task: what was added, removed, and what changed in the others; a task that
    cannot be read is marked with !.

    Exit codes: 0 they are the same, 1 they differ.

    \b
    Examples:
      quintain tasks diff mytasks-v1 mytasks-v2
      quintain tasks diff tasks.jsonl mytasks
    """
    count = 0
    for found in differences(open_tasks(before, Choice()), open_tasks(after, Choice())):
        count += 1
        if as_json:
            say_json(found)
            continue
        versions = " → ".join(version[:12] for version in (found.before, found.after) if version)
        click.echo(f"{_SIGNS[found.change]} {plain(found.task)}  {versions}")
        for place in found.places:
            click.echo(f"    {plain(place, limit=400)}")
    if not as_json:
        click.echo(f"{count} task(s) differ")
    ctx.exit(FAILED if count else DONE)
