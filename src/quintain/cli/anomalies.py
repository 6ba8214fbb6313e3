"""`quintain anomalies`: what in a run, or in all of them, does not look right, with the command that runs it again."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from quintain.cli.exits import Usage
from quintain.cli.flips import replayed
from quintain.cli.options import pair_of
from quintain.cli.output import console, plain, say_json
from quintain.replay import Anomaly, Kind, anomalies, salvage
from quintain.store import find_run, list_runs
from quintain.types import HouseError

ROWS = 40
FOUND = 4


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found, worst first; of how many episodes the verdict was asked for again, and
    which could not be judged again."""

    runs: tuple[str, ...]
    episodes: int
    by_kind: dict[str, int]
    anomalies: tuple[Anomaly, ...]
    replayed: int = 0
    not_replayed: tuple[str, ...] = ()


@click.command("anomalies")
@click.argument("run", metavar="RUN|LIBRARY", default="latest")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--kind", "kinds", type=click.Choice([kind.value for kind in Kind]), multiple=True,
              help="Only of this kind (repeatable).")
@click.option("--replay", "again", type=click.IntRange(min=0), default=0, metavar="N",
              help="Run N episodes again, the suspicious ones first: whose verdict does not come out again?")
@click.option("--base", "bases", multiple=True, metavar="IMAGE=BASE", help="With --replay: as in quintain run.")
@click.option("--all", "everything", is_flag=True, help=f"Every one of them (else the worst {ROWS}).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context, run: str, runs: Path, kinds: tuple[str, ...], again: int, bases: tuple[str, ...],
    everything: bool, as_json: bool,
) -> None:
    """Look for what does not look right in RUN, or in all runs of a folder: rewards that are extreme or do not agree
    with their verdict, one program with two verdicts, costs far from those of the same task, solved though cut off.
    --replay also judges episodes again, in sandboxes, from what was recorded of them.

    A damaged journal is read as far as it can be, and what cannot be read is listed too.

    Exit codes: 0 nothing was found, 4 something was, 2 wrong usage.

    \b
    Examples:
      quintain anomalies runs/first
      quintain anomalies runs --kind verdict_flip --json
      quintain anomalies runs/first --replay 20
    """
    paths = _paths(run, runs)
    read = {str(path): salvage(path) for path in paths}
    found = anomalies({path: one.logs for path, one in read.items()},
                      problems={path: one.problems for path, one in read.items()})
    judged = replayed(read, found, again, bases=dict(map(pair_of, bases))) if again else None
    found = (*(judged.flips if judged else ()), *found)
    shown = tuple(one for one in found if not kinds or one.kind.value in kinds)
    told = Told(runs=tuple(read), episodes=sum(len(one.logs) for one in read.values()), anomalies=shown,
                replayed=judged.episodes if judged else 0, not_replayed=judged.failed if judged else (),
                by_kind={kind.value: count for kind in Kind if (count := sum(one.kind is kind for one in shown))})
    if as_json:
        say_json(told)
    else:
        _print(told, limit=None if everything else ROWS)
    ctx.exit(FOUND if shown else 0)


def _paths(run: str, runs: Path) -> tuple[Path, ...]:
    folder = Path(run)
    if folder.is_dir() and not (folder / "run.json").is_file():
        inside = list_runs(folder)
        if inside:
            return inside
        if (folder / "journal.jsonl").is_file():
            return (folder,)  # a run whose run.json is gone
    try:
        return (find_run(runs, run),)
    except HouseError as error:
        raise Usage(error.message) from error


def _print(told: Told, *, limit: int | None) -> None:
    out = console()
    if told.replayed or told.not_replayed:
        out.print(f"{told.replayed} episodes were judged again", markup=False)
    for line in told.not_replayed:
        out.print(f"not judged again: {plain(line)}", markup=False, soft_wrap=True)
    if not told.anomalies:
        out.print(f"nothing looks wrong in {told.episodes} episodes of {len(told.runs)} runs", markup=False)
        return
    for one in told.anomalies[:limit]:
        where = f"{one.episode} step {one.step}" if one.episode else one.run
        out.print(f"{one.kind.value} ({one.severity:.2f}) {where}", markup=False, soft_wrap=True)
        for line in one.evidence:
            out.print(f"  {plain(line)}", markup=False, soft_wrap=True)
        if one.replay:
            out.print(f"  {one.replay}", markup=False, soft_wrap=True)
    counts = ", ".join(f"{kind} {count}" for kind, count in told.by_kind.items())
    more = len(told.anomalies) - (limit or len(told.anomalies))
    out.print(f"{len(told.anomalies)} in {told.episodes} episodes: {counts}"
              + (f" ({more} not shown: --all)" if more > 0 else ""), markup=False)
