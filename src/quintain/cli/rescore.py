"""`quintain rescore`: judge a whole run again, by another suite or another reward, without asking a model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec

from quintain import __version__
from quintain.cli.again import Found, open_again
from quintain.cli.exits import FAILED, Usage
from quintain.cli.options import basing, pair_of
from quintain.cli.output import console, say_json
from quintain.cli.wire import Choice, default_sandboxes, open_tasks
from quintain.replay import Rescored, Salvaged, Summary, rejudged, repaid, rescore_run, salvage, summary_of
from quintain.store import Definition, Run, find_run
from quintain.types import Event, HouseError, Opened, TaskError

if TYPE_CHECKING:
    from quintain.grade import Scalar

REWARDS = "lexicographic, solved_only, partial_credit, or MODULE:ATTRIBUTE"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What it came to. `out` is the run folder with the new judgements, where one was asked for."""

    run: str
    summary: Summary
    out: str | None = None


@click.command("rescore")
@click.argument("run", default="latest")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--suite", metavar="TASKS", help="Judge every last answer again by the exams of these tasks.")
@click.option("--data", type=click.Path(exists=True, resolve_path=True), help="The file of a named set.")
@click.option("--reward", metavar="NAME", help=f"Pay by another reward: {REWARDS}.")
@click.option("--sandboxes", type=click.IntRange(min=1), default=default_sandboxes(), show_default=True,
              help="How many are judged at once.")
@basing
@click.option("--out", type=click.Path(path_type=Path), help="Write the run with its new judgements to this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context, run: str, runs: Path, suite: str | None, data: str | None, reward: str | None, sandboxes: int,
    bases: tuple[str, ...], out: Path | None, as_json: bool,
) -> None:
    """Judge the finished attempts of RUN again. With --reward alone the recorded verdicts are paid anew, and nothing is
    run; with --suite each last answer is run against other tests. No model is asked.

    Exit codes: 0 done, 1 so many solved attempts are lost that they were hacks or the suite is wrong (more than 3 %),
    2 wrong usage, 3 this host has no sandboxes.

    \b
    Examples:
      quintain rescore runs/first --reward solved_only
      quintain rescore runs/first --suite mytasks-v2 --out runs/first-v2
    """
    if suite is None and reward is None:
        raise Usage("expected --suite TASKS or --reward NAME: by what should it be judged?")
    if out is not None and out.exists():
        raise Usage(f"--out {out} is there already: choose another")
    try:
        path = find_run(runs, run)
    except HouseError as error:
        raise Usage(error.message) from error
    read = salvage(path)
    scalar = _scalar(reward)
    if suite is None:
        rescored = tuple(one for log in read.logs.values() if (one := repaid(log, scalar=scalar)) is not None)
    else:
        rescored = asyncio.run(_judged(path, read, suite, data, scalar, dict(map(pair_of, bases)), sandboxes))
    summary = summary_of(rescored, suite=suite or "")
    if out is not None:
        _write(out, read, rescored, path, suite=suite, reward=reward)
    told = Told(run=str(path), summary=summary, out=str(out) if out else None)
    if as_json:
        say_json(told)
    else:
        _print(told, rescored)
    ctx.exit(FAILED if summary.alarm and suite is not None else 0)


async def _judged(
    path: Path, read: Salvaged, suite: str, data: str | None, scalar: Scalar, bases: dict[str, str], at_once: int,
) -> tuple[Rescored, ...]:
    tasks = open_tasks(suite, Choice(data=data))
    logs = {episode: log for episode, log in read.logs.items() if _task(log) in tasks.ids}
    if not logs:
        raise Usage(f"{suite} has none of the tasks of {path}")
    first = next(iter(logs.values()))
    found = Found(path, read, first[0].episode, first)
    async with open_again(found, tasks[_task(first)], bases=bases, scalar=scalar) as (environment, _):

        async def judge(log: Sequence[Event]) -> AsyncIterator[Rescored]:
            try:
                one = await rejudged(environment, tasks[_task(log)], log)
            except (TaskError, ValueError) as error:
                click.echo(f"not judged: {log[0].episode}: {error}", err=True)
                return
            if one is not None:
                yield one

        return await rescore_run(logs, judge, at_once=at_once)


def _task(log: Sequence[Event]) -> str:
    return log[0].task if isinstance(log[0], Opened) else ""


def _scalar(name: str | None) -> Scalar:
    from importlib import import_module

    from quintain.grade import lexicographic, partial_credit, solved_only

    known: dict[str, Scalar] = {
        "lexicographic": lexicographic, "solved_only": solved_only, "partial_credit": partial_credit}
    if name is None:
        return lexicographic
    if name in known:
        return known[name]
    module, colon, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute) if colon else None
    except (ImportError, AttributeError) as error:
        raise Usage(f"reward {name} cannot be imported: {error}; known are {REWARDS}") from error
    if not callable(found):
        raise Usage(f"no reward is called {name!r}; known are {REWARDS}")
    try:
        inspect.signature(found).bind(object())
    except (TypeError, ValueError) as error:
        raise Usage(f"reward {name} cannot be called with a vector of scores alone: {error}") from error
    return cast("Scalar", found)


def _write(
    out: Path, read: Salvaged, rescored: Sequence[Rescored], path: Path, *, suite: str | None, reward: str | None,
) -> None:
    """A run folder like any other: what was said and run as it was, judged and paid anew."""
    was = read.definition or Definition(taskset=suite or "unknown", policy="unknown")
    options = {**was.options, "rescored_from": str(path.resolve()), **({"suite": suite} if suite else {}),
               **({"reward": reward} if reward else {})}
    asked = msgspec.structs.replace(was, options=options, code_version=__version__, created_unix_seconds=0.0,
                                    taskset=suite or was.taskset)
    with Run.create(out.parent, asked, name=out.name) as made:
        for one in rescored:
            for event in one.log:
                made.journal.append(event)


def _print(told: Told, rescored: Sequence[Rescored]) -> None:
    out = console()
    summary = told.summary
    for one in [one for one in rescored if one.changed][:40]:
        paid = one.after.total if one.after else 0.0
        solved = "" if one.after is None or one.after.solved is one.before.solved else (
            "  not solved any more" if one.before.solved else "  solved now")
        out.print(f"{one.episode}: {one.before.total:+.3f} -> {paid:+.3f}{solved}", markup=False)
    before = "none" if summary.mean_before is None else f"{summary.mean_before:+.3f}"
    after = "none" if summary.mean_after is None else f"{summary.mean_after:+.3f}"
    out.print(f"{summary.attempts} attempts, {summary.unjudged} of them not judged; {summary.changed} changed, "
              f"{len(summary.lost)} lost, {len(summary.won)} won; mean reward {before} -> {after}", markup=False)
    if summary.alarm:
        out.print("more than 3 % of the solved attempts are lost: either they were hacks or the new suite is wrong",
                  markup=False)
    if told.out:
        out.print(f"next: quintain show {told.out}", markup=False)
