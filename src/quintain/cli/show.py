"""`quintain show`: the story of a run, or of one episode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.exits import Failed, Usage
from quintain.cli.output import console, one_line, plain, say_json
from quintain.cli.story import Step, steps
from quintain.cli.tally import Counts, Tally
from quintain.grade import headline
from quintain.store import Run, Standing, find_run, list_runs, standing
from quintain.types import Episode, Event, HouseError, Opened, Trainable, fold

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 40
TEXT_LIMIT = 6_000
MOODS = {"good": "green", "bad": "red", "plain": "cyan"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One episode in a table. `standing` says whether it is finished; `fault` is what it failed by in the end."""

    episode: str
    task: str
    standing: Standing
    stop: str | None
    turns: int
    attempt: int
    solved: bool
    reward: float | None
    trainable: Trainable | None
    seconds: float
    fault: str | None


class RunStory(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    taskset: str
    policy: str
    counts: Counts
    episodes: tuple[Row, ...]


class EpisodeStory(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    episode: Episode
    events: tuple[Event, ...]


@click.command("show")
@click.argument("what", metavar="[RUN|EPISODE]", default="latest")
@click.argument("episode", required=False)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--step", type=click.IntRange(min=0), help="Tell one step only: 0 is what was asked, 1 the first reply.")
@click.option("--origin", "as_origin", is_flag=True, help="Say what made the episode's reward: suite, checkpoint, run.")
@click.option("--all", "everything", is_flag=True, help=f"Every row, and texts at full length (else {ROWS} rows).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a story.")
def command(
    what: str, episode: str | None, runs: Path, step: int | None, as_origin: bool, everything: bool, as_json: bool,
) -> None:
    """Tell the story of a run, or of one episode step by step.

    RUN is a run folder, the name of one in --runs, or 'latest'. EPISODE is an episode's id, the beginning of one, or
    the id of its task; alone, it is looked for in the newest run that has it.

    \b
    Examples:
      quintain show
      quintain show runs/first
      quintain show runs/first HumanEval/0
      quintain show runs/first HumanEval/0 --step 1
      quintain show HumanEval/0 --origin
    """
    if as_origin:
        print_origin(what, episode, runs, as_json=as_json)
        return
    path, wanted = _find(what, episode, runs)
    with Run.open(path) as run:
        if wanted is None:
            if step is not None:
                raise Usage("--step needs an episode: quintain show RUN EPISODE --step K")
            story = tell_run(run)
            if as_json:
                say_json(story)
            else:
                print_run(story, console(), rows=None if everything else ROWS)
            return
        events = tuple(run.journal.read(_episode_id(run, wanted)))
        told = [s for s in steps(events) if step is None or s.number == step]
        if not told:
            last = steps(events)[-1].number
            raise Usage(f"episode {events[0].episode} has no step {step}: its steps are 0 to {last}")
        if as_json:
            shown = tuple(event for one in told for event in one.events)
            say_json(EpisodeStory(run=str(path), episode=fold(events), events=shown))
        else:
            out = console()
            print_episode(fold(events), told, out, limit=None if everything else TEXT_LIMIT)
            others = [id for id in _matches(run, wanted) if id != events[0].episode]
            if others:
                out.print(f"\nalso of this task: {', '.join(others[:ROWS])}", markup=False, soft_wrap=True)


def print_origin(what: str, episode: str | None, runs: Path, *, as_json: bool) -> None:
    """From a reward to all that made it. `what` is an episode, or with `episode` a run."""
    from quintain.store import Library, origin

    run = find_run(runs, what) if episode is not None else None
    library = Library(run.parent if run is not None else runs)
    found = origin(library, what if episode is None else episode, run=run.name if run is not None else None)
    if as_json:
        say_json(found)
        return
    for name, value in msgspec.to_builtins(found).items():
        for key, part in value.items() if isinstance(value, dict) else [("", value)]:
            shown = "not recorded" if part in (None, "", []) else part if isinstance(part, str) else str(part)
            click.echo(f"{f'{name} {key}'.strip():24} {one_line(str(shown), 200)}")


def _find(what: str, episode: str | None, runs: Path) -> tuple[Path, str | None]:
    """The run folder, and the episode that is asked for in it, if one is."""
    try:
        return find_run(runs, what), episode
    except HouseError as error:
        if episode is not None:
            raise Usage(str(error.message)) from error
    newest = reversed(list_runs(runs))
    for path in newest:
        with Run.open(path) as run:
            if _matches(run, what):
                return path, what
    raise Usage(f"expected a run folder, a run's name in {runs}/, 'latest' or an episode's id, found {what!r}")


def _matches(run: Run, wanted: str) -> tuple[str, ...]:
    """The episodes that a word means: that id exactly, else those of that task, else those that begin so."""
    known = run.journal.episodes()
    if wanted in known:
        return (wanted,)
    of_task = tuple(id for id in known if _task(run, id) == wanted)
    return of_task or tuple(id for id in known if id.startswith(wanted))


def _task(run: Run, episode: str) -> str | None:
    first = next(iter(run.journal.read(episode)), None)
    return first.task if isinstance(first, Opened) else None


def _episode_id(run: Run, wanted: str) -> str:
    found = _matches(run, wanted)
    if not found:
        raise Usage(f"run {run.name} has no episode {wanted!r}; `quintain show {run.path}` lists them")
    if len(found) > 1 and _task(run, found[0]) != wanted:
        raise Usage(f"{wanted!r} means several episodes of run {run.name}: {', '.join(found[:5])} …")
    return found[0]


def tell_run(run: Run) -> RunStory:
    """The run's episodes in the order in which they began, and their sum. Raises Failed for an empty run."""
    tally = Tally()
    rows = []
    for episode, state in _episodes(run):
        if state is Standing.FINISHED or episode.stop is not None:
            tally.add(episode)
        rows.append(Row(
            episode=episode.id, task=episode.task, standing=state, turns=len(episode.turns), attempt=episode.attempt,
            stop=episode.stop.value if episode.stop else None, solved=episode.solved, seconds=episode.seconds,
            reward=episode.reward.total if episode.reward else None,
            trainable=episode.reward.trainable if episode.reward else None, fault=_fault(episode),
        ))
    if not rows:
        raise Failed(f"run {run.path} has no episode yet")
    asked = run.definition
    return RunStory(
        run=str(run.path), taskset=asked.taskset, policy=asked.policy, counts=tally.counts(), episodes=tuple(rows),
    )


def _fault(episode: Episode) -> str | None:
    """What an unsolved attempt failed by in the end; of one that was solved, what had to be mended last."""
    judged = episode.verdict is not None and not episode.solved and episode.broken is None
    fault = headline(episode.verdict) if judged and episode.verdict else None
    fault = fault or (episode.faults[-1] if episode.faults else None)
    return str(fault) if fault else None


def _episodes(run: Run) -> Iterator[tuple[Episode, Standing]]:
    for id in run.journal.episodes():
        log = tuple(run.journal.read(id))
        yield fold(log), standing(log)


def print_run(story: RunStory, out: Console, *, rows: int | None) -> None:
    """A table of the episodes, unsolved ones first when not all are shown, and where to look next."""
    from rich.table import Table

    shown = story.episodes
    if rows is not None and len(shown) > rows:
        shown = tuple(sorted(shown, key=lambda row: row.solved))[:rows]
    table = Table("episode", "stop", "turns", "solved", "reward", "seconds", "last fault", box=None, pad_edge=False)
    for row in shown:
        reward = "—" if row.reward is None else f"{row.reward:+.2f}"
        reward += " masked" if row.trainable is Trainable.MASK else ""
        table.add_row(
            plain(row.episode), row.stop or row.standing.value, str(row.turns), "yes" if row.solved else "no", reward,
            f"{row.seconds:.2f}", _cell(row.fault),
        )
    counts = story.counts
    out.print(f"run {story.run}: {story.policy} on {story.taskset}", markup=False)
    out.print(table, markup=False)
    if len(shown) < len(story.episodes):
        out.print(f"… {len(story.episodes) - len(shown)} more (--all shows them)", markup=False)
    out.print(f"\n{counts.sentence()}", markup=False)
    look = next((row.episode for row in story.episodes if not row.solved), story.episodes[0].episode)
    out.print(f"next: quintain show {story.run} {look}", markup=False)


def _cell(fault: str | None) -> str:
    return one_line(fault, 56).replace("[", r"\[") if fault else ""


def print_episode(episode: Episode, told: list[Step], out: Console, *, limit: int | None) -> None:
    """Step by step: what was asked, replied, made of it, measured, said back, and paid."""
    from rich.text import Text

    out.print(Text(f"episode {episode.id}: task {episode.task}, policy {episode.policy}", style="bold"))
    several = len({step.attempt for step in told}) > 1
    for step in told:
        name = "asked" if step.number == 0 else f"step {step.number}"
        out.rule(Text(f"{name}, attempt {step.attempt}" if several else name), align="left", style="dim")
        for passage in step.passages:
            out.print(Text(f"\n{passage.title}", style=f"bold {MOODS[passage.mood]}"))
            out.print(Text(_indent(plain(passage.body, limit=limit))), soft_wrap=True)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
