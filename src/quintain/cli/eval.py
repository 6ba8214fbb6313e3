"""`quintain eval`: how good a policy is at tasks that it never learns from, and against another."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from quintain import __version__
from quintain.cli.apart import hold_out, refuse_evaluation
from quintain.cli.exits import DONE, FAILED, Failed, Usage
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import console, plain, say_json
from quintain.cli.run import Parts, play
from quintain.cli.watching import Watching
from quintain.cli.wire import POLICIES, Choice, Endpoint, Skipped, default_sandboxes, open_tasks, pinned
from quintain.evaluate import (
    Attempted,
    Comparison,
    Measures,
    attempted,
    compare,
    markdown_of,
    measures_of,
    page_of,
)
from quintain.store import Definition, Mode, Run, last_attempt
from quintain.types import TaskError, content_digest

REPORT = "report.md"
PAGE = "report.html"
FIGURES = "eval.json"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation came to, as scripts read it: each policy's figures, in the order given, the second against the
    first where there are two, and where the reports and the list of held-out tasks are."""

    tasks: str
    policies: tuple[Measures, ...]
    comparison: Comparison | None
    runs: tuple[str, ...]
    report: str
    page: str
    held_out: str | None


@click.command("eval")
@click.argument("tasks", required=False)
@click.option("--policy", "-p", "policies", multiple=True, metavar="P",
              help=f"Who answers: {POLICIES}. Give it twice to compare two.")
@click.option("--run", "runs", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              metavar="RUN", help="Measure a run that was played before, instead of TASKS and --policy (repeatable).")
@click.option("-n", "size", type=click.IntRange(min=1), default=4, show_default=True,
              help="Episodes of each task: pass@k and pass^k are told up to this k.")
@click.option("--sandboxes", type=click.IntRange(min=1), default=default_sandboxes(), show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of sampling, and of what is redrawn.")
@choosing
@click.option("--trained-on", "trained_on", multiple=True, type=click.Path(path_type=Path, exists=True), metavar="LIST",
              help="What a policy learnt from: a training's folder, or its list. Of trained:RUN it is known.")
@click.option("--out", type=click.Path(path_type=Path), help="The new folder (else one below runs/).")
@basing
@click.option("--backend", default="native", show_default=True, help="What makes the sandboxes.")
@click.option("--base-url", metavar="URL", help="Of the OpenAI-compatible endpoint; the key comes from OPENAI_API_KEY.")
@click.option("--model", help="The model's name there, for --policy openai.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the model.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Of one reply of the model.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object in the last line.")
@click.pass_context
def command(
    ctx: click.Context, tasks: str | None, policies: tuple[str, ...], runs: tuple[Path, ...], size: int, sandboxes: int,
    seed: int, choice: Choice, trained_on: tuple[Path, ...], out: Path | None, bases: tuple[str, ...], backend: str,
    base_url: str | None, model: str | None, temperature: float | None, max_tokens: int | None, as_json: bool,
) -> None:
    """Measure a policy at TASKS, or compare two: completion with intervals, pass@k and pass^k, what it takes to solve,
    recovery after failure, hacks. Writes report.md and report.html.

    The tasks go on a list beside the runs, by their content, and quintain train refuses them from then on; tasks that a
    policy was trained on are refused here.

    Exit codes: 0 done (solved or not), 1 the house or a task failed somewhere, 2 wrong usage, 3 this host has no
    sandboxes.

    \b
    Examples:
      quintain eval humaneval --policy oracle -n 2 --take 20
      quintain eval mytasks -p openai:OLD -p openai:NEW --base-url http://localhost:8000/v1 -n 8
      quintain eval repair-heldout --policy trained:runs/first -n 4
      quintain eval --run runs/monday --run runs/tuesday --json
    """
    _refuse(tasks, policies, runs, out)
    folder = out or Path("runs") / time.strftime("eval-%Y%m%d-%H%M%S")
    held_out: Path | None = None
    if tasks is not None:
        chosen = open_tasks(tasks, choice)
        readable = [item.task for item in Skipped().readable(chosen)]
        if not readable:
            raise Usage(f"no task of {tasks} was chosen, or none can be read")
        for policy in policies:
            own = [Path(policy.partition(":")[2])] if policy.startswith("trained:") else []
            refuse_evaluation([*own, *trained_on], readable, policy=policy)
        endpoint = Endpoint(base_url=base_url, model=model, temperature=temperature, max_tokens=max_tokens)
        asked = [Definition(
            taskset=pinned(tasks), policy=pinned(policy), size=size, seed=seed, sandboxes=sandboxes, backend=backend,
            taskset_digest=content_digest(chosen.ids), code_version=__version__,
            options={"choice": msgspec.json.encode(choice).decode(), "endpoint": msgspec.json.encode(endpoint).decode(),
                     **({"bases": msgspec.json.encode(dict(map(pair_of, bases))).decode()} if bases else {})},
        ) for policy in policies]
        parts = [Parts.of(one, sandboxes) for one in asked]  # refuses what cannot be, before a folder is made
        held_out = hold_out(folder.parent, folder.name, readable)
        runs = tuple(_played(one, two, folder, nth) for nth, (one, two) in enumerate(zip(asked, parts, strict=True), 1))
    told = _told(tasks, runs, folder, held_out, seed)
    if as_json:
        say_json(told)
    else:
        _report(told)
    ctx.exit(FAILED if any(sum(one.lost.values()) for one in told.policies) else DONE)


def _refuse(tasks: str | None, policies: Sequence[str], runs: Sequence[Path], out: Path | None) -> None:
    """Raises Usage for what does not go together."""
    if out is not None and out.exists():
        raise Usage(f"--out {out} is there already: choose another")
    if runs and (tasks is not None or policies):
        raise Usage("expected TASKS and --policy, or --run, found both")
    count = len(runs) or len(policies)
    if not runs and (tasks is None or not policies):
        raise Usage("expected TASKS and --policy, or --run: quintain eval humaneval --policy oracle")
    if count > 2:
        raise Usage(f"expected one policy, or two to compare, found {count}")


def _played(asked: Definition, parts: Parts, folder: Path, nth: int) -> Path:
    """Play one policy in a run folder of its own. Raises Failed where that was interrupted."""
    with Run.create(folder, asked, name=f"policy-{nth}") as run:
        summary = play(run, parts, None, Watching(is_on=False))
    if not summary.finished:
        raise Failed(f"interrupted; to go on: quintain run --resume {shlex.quote(summary.run)}, then quintain eval "
                     f"--run {shlex.quote(summary.run)}")
    return run.path


def _told(
    tasks: str | None, runs: Sequence[Path], folder: Path, held_out: Path | None, seed: int,
) -> Evaluation:
    """Measure runs and write the reports. Raises Failed for runs that cannot be measured or compared."""
    sets, names = list[list[Attempted]](), list[str]()
    for path in runs:
        with Run.open(path, mode=Mode.READ) as run:
            tasks = tasks or run.definition.taskset
            names.append(run.definition.policy)
            logs = (last_attempt(tuple(run.journal.read(episode))) for episode in run.journal.episodes())
            sets.append([one for log in logs if (one := attempted(log)) is not None])
    if len(names) == 2 and names[0] == names[1]:
        names = [f"{name} ({path.name})" for name, path in zip(names, runs, strict=True)]
    try:
        found = tuple(measures_of(one, policy=name, seed=seed) for one, name in zip(sets, names, strict=True))
        comparison = compare(sets[0], sets[1], names=(names[0], names[1]), seed=seed) if len(sets) == 2 else None
    except (ValueError, TaskError) as error:
        raise Failed(str(error)) from None
    title = f"Evaluation on {tasks}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REPORT).write_text(markdown_of(found, title=title, comparison=comparison), "utf-8")
    (folder / PAGE).write_text(page_of(found, title=title, comparison=comparison), "utf-8")
    told = Evaluation(
        tasks=tasks or "", policies=found, comparison=comparison, runs=tuple(map(str, runs)),
        report=str(folder / REPORT), page=str(folder / PAGE), held_out=None if held_out is None else str(held_out))
    (folder / FIGURES).write_bytes(msgspec.json.format(msgspec.json.encode(told)))
    return told


def _report(told: Evaluation) -> None:
    from rich.markdown import Markdown

    console().print(Markdown(plain(Path(told.report).read_text("utf-8"))))
    click.echo(f"\nreports: {told.report}, {told.page}")
    if told.held_out is not None:
        click.echo(f"held out from training by {told.held_out}")
