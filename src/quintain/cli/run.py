"""`quintain run`: let a policy attempt tasks, watch it, and keep what happened."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from quintain import __version__
from quintain.cli.curriculum import Collects, Lessons, Plan, place_of, played
from quintain.cli.engine import Fleet, by_workers
from quintain.cli.exits import DONE, FAILED, INTERRUPTED, Failed, Usage
from quintain.cli.live import Pulse, Screen, clock
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import console, plain, say_json
from quintain.cli.tally import Counts
from quintain.cli.tending import Tended, tended
from quintain.cli.watching import Eyes, Watching, by_watch, clears, guard_of, metering, queue_source, watched
from quintain.cli.wire import (
    POLICIES,
    Choice,
    Endpoint,
    Skipped,
    default_sandboxes,
    open_backend,
    open_house,
    open_policy,
    open_tasks,
    pinned,
)
from quintain.rollout import Collector, Patience
from quintain.store import Definition, Mode, Result, Run
from quintain.types import Event, HouseError, content_digest

if TYPE_CHECKING:
    from quintain.policy import Policy
    from quintain.sandbox import Backend
    from quintain.tasks import Taskset


#: Scripts that judge a task in its image may take ten minutes by their own word, and a command in a shell four.
PATIENCE = Patience(run_seconds=600.0, grade_seconds=2_400.0)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to, as scripts read it. `unreadable` lists tasks that are not fit to be asked, `trouble` is
    the latest failure that was not the policy's; `seconds` is the time of this invocation and `played` counts the
    episodes that it closed; `finished` is false when it was interrupted."""

    episodes: int
    solved: int
    faults: dict[str, int]
    reward: float | None
    masked: int
    played: int
    seconds: float
    run: str
    unreadable: tuple[str, ...] = ()
    trouble: str | None = None
    finished: bool = True

    @property
    def exit_code(self) -> int:
        if not self.finished:
            return INTERRUPTED
        return FAILED if self.unreadable or self.faults["task"] or self.faults["house"] else DONE


@click.command("run")
@click.argument("tasks", required=False)
@click.option("--policy", "-p", metavar="P", help=f"Who answers: {POLICIES}.")
@click.option("-n", "size", type=click.IntRange(min=1), default=1, show_default=True, help="Episodes for each task.")
@click.option("--sandboxes", type=click.IntRange(min=1), default=default_sandboxes(), show_default=True,
              help="How many episodes hold sandboxes at once; everything else follows.")
@by_workers
@click.option("--seed", type=int, default=0, show_default=True, help="Makes sampling repeatable where it can be.")
@choosing
@click.option("--out", type=click.Path(path_type=Path), help="The new run folder (else one below runs/).")
@click.option("--resume", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="RUN",
              help="Go on with a run that was interrupted; it knows its tasks and its policy.")
@click.option("--health", type=click.Path(path_type=Path, dir_okay=False), metavar="LEDGER",
              help="A health ledger: tasks that are not well leave the run (made where there is none).")
@click.option("--curriculum", type=click.IntRange(min=1), metavar="STEPS",
              help="Ask in so many steps, each of the tasks from which most can be learnt, not of all of them.")
@click.option("--places", type=click.IntRange(min=1), metavar="K",
              help="Tasks of one step [default: as many as fill the sandboxes].")
@basing
@click.option("--keep-files", is_flag=True, help="Keep what each step stood on (a shell's files after each command, "
              "what is installed), to go back to it with quintain replay.")
@click.option("--backend", default="native", show_default=True, help="What makes the sandboxes.")
@click.option("--base-url", metavar="URL", help="Of the OpenAI-compatible endpoint; the key comes from OPENAI_API_KEY.")
@click.option("--model", help="The model's name there, for --policy openai.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the model.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Of one reply of the model.")
@by_watch
@click.option("--json", "as_json", is_flag=True, help="Print the sum as one JSON object in the last line.")
@click.pass_context
def command(
    ctx: click.Context, tasks: str | None, policy: str | None, size: int, sandboxes: int, seed: int, choice: Choice,
    out: Path | None, resume: Path | None, health: Path | None, curriculum: int | None, fleet: Fleet | None,
    places: int | None, bases: tuple[str, ...], keep_files: bool, backend: str, base_url: str | None, model: str | None,
    temperature: float | None, max_tokens: int | None, as_json: bool, watching: Watching,
) -> None:
    """Let a policy attempt TASKS in sandboxes, and keep what happened in a run folder.

    TASKS is a set by name (humaneval, mbpp, quixbugs, …) or the path of a task, of a folder of tasks, or of a file;
    Harbor directories are played in a shell, turn by turn. Progress goes to stderr. Ctrl-C ends a run cleanly, and
    --resume goes on with it.

    Exit codes: 0 done (solved or not), 1 the house or a task failed somewhere, 2 wrong usage, 3 this host has no
    sandboxes, 130 interrupted.

    \b
    Examples:
      quintain run humaneval --policy oracle --take 10
      quintain run mytasks --policy openai:MODEL --base-url http://localhost:8000/v1 -n 8 --sandboxes 32
      quintain run humaneval --policy null --json --out runs/null
      quintain run harbor-tasks --policy openai:MODEL --base-url http://localhost:8000/v1 --base '*=host'
      quintain run humaneval --policy openai:MODEL --base-url http://localhost:8000/v1 -n 8 --curriculum 100
      quintain run --resume runs/null
    """
    if resume is not None:
        _refuse_with_resume(ctx)
        run = Run.open(resume, mode=Mode.WRITE)
        sandboxes = sandboxes if _given(ctx, "sandboxes") else run.definition.sandboxes
        parts = Parts.of(run.definition, sandboxes)
    else:
        if tasks is None or policy is None:
            raise Usage("expected TASKS and --policy (or --resume RUN): quintain run humaneval --policy oracle")
        if out is not None and out.exists():
            raise Usage(f"--out {out} is there already: choose another, or go on with that run: "
                        f"quintain run --resume {shlex.quote(str(out))}")
        chosen = open_tasks(tasks, choice)
        if not chosen.ids:
            raise Usage(f"no task of {tasks} was chosen: look at --include, --exclude and --take")
        if places is not None and curriculum is None:
            raise Usage("--places is the size of a step: expected --curriculum STEPS with it")
        endpoint = Endpoint(base_url=base_url, model=model, temperature=temperature, max_tokens=max_tokens)
        asked = Definition(
            taskset=pinned(tasks), policy=pinned(policy), size=size, seed=seed, sandboxes=sandboxes, backend=backend,
            taskset_digest=content_digest(chosen.ids), code_version=__version__,
            options={
                "choice": _text(choice), "endpoint": _text(endpoint),
                **({"health": str(health.resolve())} if health is not None else {}),
                **({"curriculum": _text(Plan.of(
                    curriculum, places, sandboxes=sandboxes, size=size, tasks=len(chosen)))} if curriculum else {}),
                **({"keep_files": "yes"} if keep_files else {}),
                **({"bases": msgspec.json.encode(dict(map(pair_of, bases))).decode()} if bases else {}),
            },
        )
        parts = Parts.of(asked, sandboxes)  # refuses what cannot be, before a folder is made
        runs, name = (out.parent, out.name) if out is not None else (Path("runs"), None)
        run = Run.create(runs, asked, name=name)
    with run:
        summary = play(run, parts, fleet, watching)
    _report(summary, run, as_json=as_json)
    ctx.exit(summary.exit_code)


class Parts(NamedTuple):
    """What a run is made of, opened."""

    tasks: Taskset
    policy: Policy
    backend: Backend
    sandboxes: int
    plan: Plan | None

    @classmethod
    def of(cls, asked: Definition, sandboxes: int) -> Parts:
        """Raises Usage and HostCannot as the parts do."""
        choice = msgspec.json.decode(asked.options.get("choice", "{}"), type=Choice)
        endpoint = msgspec.json.decode(asked.options.get("endpoint", "{}"), type=Endpoint)
        tasks = open_tasks(asked.taskset, choice)
        policy = open_policy(asked.policy, tasks, endpoint, connections=sandboxes)
        plan = msgspec.json.decode(asked.options["curriculum"], type=Plan) if "curriculum" in asked.options else None
        return cls(tasks, policy, open_backend(asked.backend), sandboxes, plan)

    def groups(self) -> int:
        """How many groups are to be played."""
        return self.plan.steps * self.plan.places if self.plan is not None else len(self.tasks)


def _given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _refuse_with_resume(ctx: click.Context) -> None:
    allowed = {"resume", "sandboxes", "workers", "engine", "queue", "register", "as_json", "watch", "metrics", "alerts"}
    extra = [name for name in ctx.params if name not in allowed and _given(ctx, name)]
    if extra:
        raise Usage(f"--resume goes on with what the run was asked: it cannot be given with {', '.join(extra)}")


def _text(value: Choice | Endpoint | Plan) -> str:
    return msgspec.json.encode(value).decode()


def play(run: Run, parts: Parts, fleet: Fleet | None, watching: Watching) -> Summary:
    """Play what is still to be played. Raises HouseError as the journal does, after saying how to go on."""
    asked = run.definition
    if content_digest(parts.tasks.ids) != asked.taskset_digest:
        raise Failed(f"{asked.taskset} no longer holds the tasks that run {run.path} began with: start a new run")
    began = time.monotonic()
    pulse = Pulse(parts.groups() * asked.size, now=began)
    for episode in run.journal.episodes():
        pulse.known(tuple(run.journal.read(episode)))
    skipped = Skipped()
    before = pulse.counts().episodes
    finished = True
    try:
        asyncio.run(_collect(run, parts, pulse, skipped, fleet, watching))
    except (KeyboardInterrupt, asyncio.CancelledError):
        finished = False
    except (HouseError, ExceptionGroup) as error:
        cause = _cause(error)
        if isinstance(cause, HouseError):
            click.echo(f"to go on: {_resume_line(run)}", err=True)
        if cause is error:
            raise
        raise cause from error
    counts = pulse.counts()
    seconds = time.monotonic() - began
    played = counts.episodes - before
    if finished and (played or run.result is None):
        run.finish(Result(
            episodes=counts.episodes, solved=counts.solved, faults=counts.faults, reward=counts.reward, seconds=seconds,
        ))
    return Summary(
        episodes=counts.episodes, solved=counts.solved, faults=counts.faults, reward=counts.reward,
        masked=counts.masked, played=played, seconds=round(seconds, 3), run=str(run.path),
        unreadable=tuple(skipped.found), finished=finished,
        trouble=pulse.trouble,
    )


def _cause(error: Exception) -> Exception:
    """What of a group is the house's own word; the error itself where nothing in it is."""
    while isinstance(error, ExceptionGroup) and (known := error.subgroup(HouseError)) is not None:
        error = known.exceptions[0]
    return error


async def _collect(
    run: Run, parts: Parts, pulse: Pulse, skipped: Skipped, fleet: Fleet | None, watching: Watching,
) -> None:
    """Every episode that is not finished yet, under a live view. SIGTERM ends it as Ctrl-C does."""
    asked = run.definition
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with Screen(pulse, title=f"{asked.policy} on {asked.taskset}") as screen:

        def watch(event: Event) -> None:
            pulse.event(event, now=time.monotonic())
            screen.beat()

        try:
            health = asked.options.get("health")
            bases = msgspec.json.decode(asked.options.get("bases", "{}"), type=dict[str, str])
            ledger = Path(health) if health else None
            async with watched(run, parts.tasks, watching, health=ledger) as eyes, open_house(
                parts.backend, bases=bases, meter=metering(eyes),
                keep_in=run.path if "keep_files" in asked.options else None,
            ) as environment, tended(
                environment, parts.backend, parts.tasks, ledger, run=run.name, bases=bases,
            ) as tending:

                def see(event: Event) -> None:
                    watch(event)
                    tending.watch(event)
                    if eyes is not None:
                        eyes.watch.event(event, counts=fleet is None)

                async with _collecting(run, parts, tending, see, fleet, eyes) as collector:
                    if parts.plan is not None:
                        await _by_curriculum(run, parts, parts.plan, collector, tending, skipped, screen.beat)
                        return
                    items = skipped.readable(parts.tasks)
                    async with collector.collecting(items, parts.policy, size=asked.size) as groups:
                        async for _ in groups:
                            screen.beat()
        finally:
            await parts.policy.aclose()


@asynccontextmanager
async def _collecting(
    run: Run, parts: Parts, tending: Tended, see: Callable[[Event], None], fleet: Fleet | None, eyes: Eyes | None,
) -> AsyncIterator[Collects]:
    """Who plays: this process, or workers that it keeps."""
    if fleet is None:
        yield Collector(
            tending.environment, run.journal.append if eyes is None else eyes.watch.timed(run.journal.append),
            seed=run.definition.seed, concurrency=parts.sandboxes, past=run.journal.read, watch=see,
            admits=tending.admits, clears=clears(eyes), patience=PATIENCE,
        )
        return
    from quintain.cli.crew import crewed

    keep = fleet.keep(run, sandboxes=parts.sandboxes, kinds=lambda: (
        item.task.kind for item in Skipped().readable(parts.tasks)))
    async with crewed(
        run, keep, watch=see, admits=tending.admits, queue=fleet.queue, register=fleet.register,
        guard=None if eyes is None else guard_of(eyes.watch.gate, eyes.watch.run),
    ) as gathering:
        with nullcontext() if eyes is None else eyes.watch.seeing(queue_source(gathering.queue)):
            yield gathering


async def _by_curriculum(
    run: Run, parts: Parts, plan: Plan, collector: Collects, tending: Tended, skipped: Skipped,
    beat: Callable[[], None],
) -> None:
    asked, lessons = run.definition, Lessons()
    places = [place_of(item.task.id, item.task.kind) for item in skipped.readable(parts.tasks)]
    groups = played(
        collector, parts.tasks, parts.policy, plan, folder=run.path, size=asked.size, seed=asked.seed, places=places,
        weight=tending.weight, beat=beat,
    )
    async with aclosing(groups):
        async for group in groups:
            lessons.take(group)
    click.echo(str(lessons), err=True)


def _resume_line(run: Run) -> str:
    return f"quintain run --resume {shlex.quote(str(run.path))}"


def _report(summary: Summary, run: Run, *, as_json: bool) -> None:
    """The sum: a table for people, a JSON line for scripts, and what to do next."""
    for problem in summary.unreadable:
        click.echo(f"not asked: {problem}", err=True)
    if not summary.finished:
        click.echo(f"interrupted after {summary.episodes} episodes; to go on: {_resume_line(run)}", err=True)
    if summary.trouble:
        click.echo(f"not the policy's failure, the latest of such: {plain(summary.trouble, limit=2000)}", err=True)
    if as_json:
        say_json(summary)
        return
    from rich.table import Table

    counts = Counts(
        episodes=summary.episodes, solved=summary.solved, faults=summary.faults, reward=summary.reward,
        masked=summary.masked,
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, fact in _facts(summary, counts, run):
        table.add_row(name, fact)
    console().print(table, markup=False)
    sys.stdout.flush()


def _facts(summary: Summary, counts: Counts, run: Run) -> list[tuple[str, str]]:
    speed = f"{summary.played / summary.seconds:.1f} episodes/s" if summary.played and summary.seconds else ""
    share = f" ({100 * counts.solved / counts.episodes:.1f} %)" if counts.episodes else ""
    return [
        ("policy", f"{run.definition.policy} on {run.definition.taskset}"),
        ("episodes", str(counts.episodes)),
        ("solved", f"{counts.solved}{share}"),
        ("mean reward", "none" if counts.reward is None else f"{counts.reward:+.3f}"),
        ("faults by owner", ", ".join(f"{owner} {count}" for owner, count in counts.faults.items())),
        *([("masked", f"{counts.masked} by soft flags; to look at them: quintain audit add {shlex.quote(summary.run)}")]
          if counts.masked else []),
        ("time", f"{clock(summary.seconds)}  {speed or 'nothing was left to play'}"),
        ("run folder", summary.run),
        ("next", f"quintain show {shlex.quote(summary.run)}" if summary.finished else _resume_line(run)),
        *([("to try again", f"{_resume_line(run)}  (what the house broke)")]
          if summary.finished and counts.faults["house"] else []),
    ]
