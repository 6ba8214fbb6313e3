"""`quintain export`: episodes as other people's trainers and viewers read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from quintain.cli.exits import HostCannot, Usage
from quintain.cli.output import console, plain, say_json
from quintain.replay import salvage
from quintain.store import find_run, list_runs
from quintain.types import Event, HouseError

FORMATS = ("messages", "sft", "dpo", "kto", "atif")


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """How much was written, and where to. `problems` are what could not be read."""

    out: str
    format: str
    rows: int
    problems: tuple[str, ...] = ()


@click.command("export")
@click.argument("run", metavar="[RUN|LIBRARY]", default="latest")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--format", "form", type=click.Choice([*FORMATS, "parquet"]), required=True,
              help="What is written; parquet is messages as Parquet.")
@click.option("--where", metavar="SQL", help="Only episodes for which this condition on the library's table "
              "`episodes` holds, as in \"solved AND task LIKE 'HumanEval/%'\".")
@click.option("--out", type=click.Path(path_type=Path), required=True,
              help="The file (its ending .parquet makes it Parquet, else JSON lines), or the folder for atif.")
@click.option("--masked", is_flag=True, help="Also attempts with soft flags, their loss mask all zeros.")
@click.option("--least-reward", type=float, help="Only attempts that were paid so much [sft: solved ones].")
@click.option("--margin", type=click.FloatRange(min=0), default=0.05, show_default=True,
              help="Of a dpo pair: the least difference of rewards.")
@click.option("--pairs", type=click.IntRange(min=1), default=4, show_default=True, help="Of one task at most (dpo).")
@click.option("--atif-version", type=click.Choice(["1.7", "1.8"]), default="1.8", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str, runs: Path, form: str, where: str | None, out: Path, masked: bool, least_reward: float | None,
    margin: float, pairs: int, atif_version: str, as_json: bool,
) -> None:
    """Write the episodes of RUN, or of all runs of a folder, for others: messages (OpenAI), demonstrations (sft),
    preference pairs within one task (dpo), labelled attempts (kto), ATIF documents (all attempts, broken ones too).

    Token ids and log-probabilities are exact, loss masks are kept, duplicates are removed; what the house or the task
    broke is never in an extract for training.

    \b
    Examples:
      quintain export runs/first --format sft --out sft.jsonl
      quintain export runs --format dpo --where "reward IS NOT NULL AND turns < 4" --out pairs.parquet
      quintain export latest --format atif --out trajectories/
    """
    from quintain.bridges import Choosing, rows, write_documents, write_jsonl, write_parquet

    problems: list[str] = []
    logs = _logs(run, runs, where, problems)
    choosing = Choosing(masked=masked, least_reward=least_reward, margin=margin, pairs=pairs)
    if form == "atif":
        count = write_documents(out, logs, version="ATIF-v1.7" if atif_version == "1.7" else "ATIF-v1.8")
    else:
        kind = "messages" if form == "parquet" else form
        out.parent.mkdir(parents=True, exist_ok=True)
        made = rows(kind, logs, choosing)
        if form == "parquet" or out.suffix == ".parquet":
            try:
                count = write_parquet(out, kind, made)
            except ImportError as error:
                raise HostCannot("Parquet needs pyarrow: pip install 'quintain[library]'") from error
        else:
            count = write_jsonl(out, made)
    told = Exported(out=str(out), format=form, rows=count, problems=tuple(problems))
    if as_json:
        say_json(told)
        return
    for problem in problems:
        click.echo(f"not read: {plain(problem)}", err=True)
    console().print(f"{count} {'documents' if form == 'atif' else 'rows'} in {out}", markup=False)


def _logs(run: str, runs: Path, where: str | None, problems: list[str]) -> Iterator[tuple[str, Sequence[Event]]]:
    """The logs that are meant; what cannot be read is noted in `problems`."""
    folder = Path(run)
    whole = folder.is_dir() and not (folder / "run.json").is_file()
    try:
        paths = list(list_runs(folder)) if whole else [find_run(runs, run)]
    except HouseError as error:
        raise Usage(error.message) from error
    if where is not None:
        yield from _chosen(paths, where)
        return
    for path in paths:
        read = salvage(path)
        problems += [f"{path}: {problem}" for problem in read.problems]
        for log in read.logs.values():
            yield str(path), log


def _chosen(paths: Sequence[Path], where: str) -> Iterator[tuple[str, Sequence[Event]]]:
    """Those that a condition in SQL holds for, asked of the library over the folder of the runs."""
    try:
        from quintain.store import Library
    except ImportError as error:
        raise HostCannot("--where needs duckdb and pyarrow: pip install 'quintain[library]'") from error
    names = {path.name for path in paths}
    for parent in dict.fromkeys(path.parent for path in paths):
        for log in Library(parent).logs(where):
            if Path(log.run).name in names:
                yield str(parent / log.run), log.events
