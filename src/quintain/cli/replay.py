"""`quintain replay`: run an episode again from any step, compare it with its record, and say why it differs."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quintain.cli.again import Found, find_episode, item_of, open_again
from quintain.cli.exits import FAILED, Usage
from quintain.cli.options import basing, pair_of
from quintain.cli.output import console, plain, say_json
from quintain.replay import (
    Divergence,
    EpisodeReplay,
    Measure,
    Named,
    StepReplay,
    entered,
    first_divergence,
    interact,
    page,
    steps_of,
)

if TYPE_CHECKING:
    from rich.console import Console

#: It came out differently, and nothing failed.
DIFFERS = 4
CHANGES_SHOWN = 12


@click.command("replay")
@click.argument("episode")
@click.option("--run", metavar="RUN", help="The run that it is of [default: the newest that has it].")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--step", type=click.IntRange(min=0), help="From this step on: 0 is what was asked, 1 the first reply.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of an episode that was begun anew [default: the last].")
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True,
              help="Run it so often at least; a step that differs is run three times in any case.")
@click.option("--ask", is_flag=True, help="Ask the policy again too, and compare its replies.")
@click.option("--against", metavar="EPISODE", help="Run nothing: where does it part from this other episode?")
@click.option("--shell", is_flag=True, help="Open a shell in the sandbox as it was after the step.")
@click.option("--snapshot", is_flag=True, help="With --shell: put the files as they were kept at that step.")
@click.option("--tasks", metavar="SET", help="Take its task from this set [default: the run's own].")
@click.option("--data", type=click.Path(exists=True, resolve_path=True), help="The file of a named set.")
@click.option("--backend", help="Other sandboxes than the run's.")
@basing
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the comparison as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context, episode: str, run: str | None, runs: Path, step: int | None, attempt: int | None, times: int,
    ask: bool, against: str | None, shell: bool, snapshot: bool, tasks: str | None, data: str | None,
    backend: str | None, bases: tuple[str, ...], html: Path | None, as_json: bool,
) -> None:
    """Run EPISODE again from a step on, and compare outputs, files, verdict and reward with the record.

    EPISODE is an episode's id, the beginning of one, or the id of its task. No model is asked unless --ask says so: the
    recorded replies are given. What differs is named: policy, jitter (clock, seeds, addresses …), task, environment or
    house. --shell opens a shell at the end of the step; with no terminal it runs what comes by stdin.

    Exit codes: 0 as recorded, 4 it differs, 1 the house or the task failed, 2 wrong usage, 3 this host has no
    sandboxes. With --shell: that of the shell.

    \b
    Examples:
      quintain replay HumanEval/0 --run runs/first
      quintain replay 'HumanEval/0#0' --step 2 --times 5 --html step.html
      quintain replay HumanEval/0 --step 1 --shell
      quintain replay 'HumanEval/0#0' --against 'HumanEval/0#1'
    """
    found = find_episode(runs, run, episode)
    if against is not None:
        _part(ctx, found, find_episode(runs, str(found.run), against), as_json=as_json)
        return
    item = item_of(found.salvaged, found.log, tasks=tasks, data=data)
    pairs = dict(map(pair_of, bases))

    async def play() -> EpisodeReplay | int:
        async with open_again(found, item, bases=pairs, backend=backend, ask=ask, shell=shell) as (house, replayer):
            if not shell:
                return await replayer.replay(item, found.log, step=step or 0, attempt=attempt, times=times)
            last = steps_of(found.log, attempt=attempt).last if step is None else step
            async with entered(house, item, found.log, step=last, attempt=attempt, files=replayer.files,
                               from_snapshot=snapshot) as inside:
                return await interact(inside)

    try:
        came = asyncio.run(play())
    except ValueError as error:
        raise Usage(str(error)) from error
    if isinstance(came, int):
        ctx.exit(came)
    if html is not None:
        html.write_text(page(came), encoding="utf-8", errors="backslashreplace")
    if as_json:
        say_json(came)
    else:
        print_replay(came, found, console(), html=html)
    ctx.exit(FAILED if came.house is not None else 0 if came.identical else DIFFERS)


def _part(ctx: click.Context, one: Found, other: Found, *, as_json: bool) -> None:
    try:
        parted = first_divergence(one.log, other.log)
    except ValueError as error:
        raise Usage(str(error)) from error
    if as_json:
        say_json(parted)
    elif parted is None:
        console().print(f"{one.episode} and {other.episode} say the same from beginning to end", markup=False)
    else:
        print_parting(one, other, parted, console())
    ctx.exit(0 if parted is None else DIFFERS)


def print_parting(one: Found, other: Found, parted: Divergence, out: Console) -> None:
    """Where two episodes part, and what to look at next."""
    out.print(f"{one.episode} and {other.episode} part at step {parted.step}: {parted.event}", markup=False)
    for named in parted.named:
        _print_named(named, out)
    if parted.difference is not None:
        out.print(plain(parted.difference.diff), markup=False)
    out.print(f"next: quintain replay {shlex.quote(one.episode)} --run {shlex.quote(str(one.run))} "
              f"--step {parted.step}", markup=False)


def print_replay(replay: EpisodeReplay, found: Found, out: Console, *, html: Path | None) -> None:
    """What came out: the steps, the differences with their causes, and what to do next."""
    again = f", attempt {replay.attempt} of {replay.attempts}" if replay.attempts > 1 else ""
    out.print(f"episode {replay.episode} of {found.run}{again}: steps {replay.first} to {replay.last}, "
              f"run {replay.times} {'time' if replay.times == 1 else 'times'}", markup=False)
    out.print(f"state before step {replay.first}: {replay.rebuilt.value} ({'; '.join(replay.told)})", markup=False)
    for problem in found.salvaged.problems:
        out.print(f"in the record: {plain(problem)}", markup=False)
    for skipped in replay.skipped:
        out.print(f"not compared: {plain(skipped)}", markup=False)
    for change in replay.changed[:CHANGES_SHOWN]:
        out.print(f"changed since: {plain(change)}", markup=False)
    if len(replay.changed) > CHANGES_SHOWN:
        out.print(f"changed since: {len(replay.changed) - CHANGES_SHOWN} more facts", markup=False)
    for step in replay.steps:
        _print_step(step, out)
    if replay.house is not None:
        out.print(f"the house failed, so nothing is proved: {replay.house}", markup=False)
    elif replay.identical:
        out.print("everything came out as recorded, byte for byte", markup=False)
    else:
        where = f"--run {shlex.quote(str(found.run))} --step {replay.diverged}"
        out.print(f"first difference at step {replay.diverged}; to look around there: "
                  f"quintain replay {shlex.quote(replay.episode)} {where} --shell", markup=False)
    if html is not None:
        out.print(f"as a page: {html}", markup=False)


def _print_step(step: StepReplay, out: Console) -> None:
    word = "identical" if step.identical else "DIFFERS"
    out.print(f"step {step.step}: {word}  ({', '.join(_parts(step))}; {_took(step.recorded)} then, "
              f"{_took(step.again)} now)", markup=False)
    for named in step.named:
        _print_named(named, out)
    for one in step.differing:
        kind = "every repetition alike" if one.steady else "changes from repetition to repetition"
        out.print(f"  {one.part}: {one.sizes[0]} bytes then, {one.sizes[1]} now; {kind}; "
                  f"{one.as_recorded} of {one.repeats} as recorded", markup=False)
        out.print("\n".join(f"    {line}" for line in plain(one.diff).splitlines()), markup=False, soft_wrap=True)


def _print_named(named: Named, out: Console) -> None:
    out.print(f"  {named.cause.value} ({named.blame.value}): {plain('; '.join(named.evidence))}", markup=False,
              soft_wrap=True)


def _parts(step: StepReplay) -> list[str]:
    return [part for part in step.compared if not part.startswith("file ")]


def _took(measure: Measure) -> str:
    return "untimed" if measure.wall_seconds is None else f"{measure.wall_seconds:.3f} s"
