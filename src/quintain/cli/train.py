"""`quintain train`: let a small policy learn to repair programs, from executed work, and watch it learn."""

from __future__ import annotations

import asyncio
import importlib.util
import resource
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from quintain.cli import train_trl
from quintain.cli.exits import DONE, INTERRUPTED, Failed, HostCannot, Usage
from quintain.cli.live import clock
from quintain.cli.output import console, say_json
from quintain.cli.training import Asked, hold_training, need_torch, opened, refuse_held_out
from quintain.cli.training_screen import TrainingScreen
from quintain.cli.training_watch import Heeding, TrainingEyes, watched_training
from quintain.cli.watching import WATCH_OPTIONS, Watching, by_watch
from quintain.cli.wire import default_sandboxes

if TYPE_CHECKING:
    from quintain.train import Ended, Plan, Row

#: So many held-out tasks are evaluated while it learns; between the stages and at the end it is all of them.
EVALUATED_ON_THE_WAY = 60
#: What a training by TRL was asked, in its folder.
_TRL = "trl.json"
CONTROLS = ("none", "random", "constant", "shuffled")


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """What a training came to, as scripts read it. `before` and `after` are the held-out shares solved at the first
    attempt, before the rewards and at the end, `within3` within three attempts; `practised_…` are the same of faults
    that were not trained on in functions that were (training.md calls them M, and the others F). `executions` ran in
    sandboxes, of `requests` rewards asked for, in `execution_seconds` of `seconds`, in `visits` of several and `alone`;
    for `waiting_seconds` nothing else was done (with --async they run beside the updates). `sandbox_wait_share` is that
    of all seconds. `cpu_seconds` is the CPU time of this process. `execution_cpu_seconds` is that of all that executing
    took: the sandboxes with what ran in them, their engines, and this process's part in it; `sandbox_cpu_share` its
    share of all CPU time."""

    before: float | None
    after: float | None
    within3: float | None
    within3_before: float | None
    practised_before: float | None
    practised_after: float | None
    practised_within3: float | None
    best: float | None
    steps: int
    ended: str
    parameters: int
    train_tasks: int
    heldout_tasks: int
    practised_tasks: int
    requests: int
    executions: int
    executed_share: float | None
    visits: int
    alone: int
    seconds: float
    cpu_seconds: float
    execution_seconds: float
    waiting_seconds: float
    sandbox_wait_share: float
    execution_cpu_seconds: float
    sandbox_cpu_share: float
    seed: int
    control: str
    alarms: tuple[str, ...]
    trouble: str | None
    resumed_at: int | None
    run: str


@click.command("train")
@click.argument("tasks", default="repair-train")
@click.option("--held-out", default="repair-heldout", show_default=True, help="Tasks to be evaluated on only.")
@click.option("--out", type=click.Path(path_type=Path), help="The new folder (else one below runs/).")
@click.option("--resume", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="RUN",
              help="Go on with a training that was interrupted or killed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Everything that is drawn follows from it.")
@click.option("--sft", "only_sft", is_flag=True, help="Learn from the demonstrations only.")
@click.option("--sft-steps", type=click.IntRange(min=1), help="Updates from demonstrations.")
@click.option("--steps", type=click.IntRange(min=0), help="Updates from rewards.")
@click.option("--demos", type=click.IntRange(min=1), help="How many repairs are demonstrated.")
@click.option("--train-each", type=click.IntRange(min=1), help="Tasks of each function.")
@click.option("--held-out-tasks", type=click.IntRange(min=1), help="How many of the held-out tasks, and at most as "
              "many other faults of what is practised.")
@click.option("--async", "ahead", is_flag=True, help="Execute the next batch while this one is learnt from "
              "(it was drawn one update ago).")
@click.option("--control", type=click.Choice(CONTROLS), default="none", show_default=True,
              help="Replace the rewards by ones that say nothing: what improves now was not learnt from them.")
@click.option("--inject-house-failures", "lost", type=click.FloatRange(min=0, max=1, max_open=True), default=0.0,
              metavar="SHARE", help="Lose this share of the rewards, as if sandboxes had died.")
@click.option("--naive", is_flag=True, help="Pay 0 for a lost reward, as is often done, instead of leaving it out.")
@click.option("--evaluate-every", type=click.IntRange(min=1), default=200, show_default=True, metavar="STEPS")
@click.option("--patience", type=click.IntRange(min=1), metavar="N",
              help="End early after N evaluations without a new best.")
@click.option("--cpu-seconds", type=click.FloatRange(min=1), help="End when this process has used so much.")
@click.option("--keep", type=click.IntRange(min=1), default=2, show_default=True, help="Checkpoints, besides the best.")
@click.option("--confirm", is_flag=True, help="Run every solved answer a second time from a cold start.")
@click.option("--memory", type=click.Path(path_type=Path, dir_okay=False),
              help="What was executed is kept here for several trainings; what lies there is not executed again.")
@click.option("--trainer", type=click.Choice(["quintain", "trl"]), default="quintain", show_default=True,
              help="Who trains: the learner of repairs that comes along, or TRL with a language model of yours.")
@click.option("--model", help="trl: a folder of a model, or a name that transformers can load.")
@click.option("--group", type=click.IntRange(min=2), help="trl: episodes of each task. [8]")
@click.option("--batch", type=click.IntRange(min=2), help="trl: episodes of an update, a multiple of --group. [16]")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="trl: the learning rate. [1e-6]")
@click.option("--max-tokens", type=click.IntRange(min=1), help="trl: the longest episode, behind its prompt. [512]")
@click.option("--temperature", type=click.FloatRange(min=0, min_open=True), help="trl: of sampling. [1.0]")
@click.option("--lora", type=click.IntRange(min=1), metavar="RANK", help="trl: train adapters of this rank (peft).")
@click.option("--server", metavar="URL", help="trl: a vLLM server that samples, http://host:8000/v1, and gets the "
              "weights after each update.")
@click.option("--served-model", help="trl: the model's name there, where it is not that of --model.")
@click.option("--report-to", multiple=True, help="tensorboard: event files in the folder; trl: wandb … as well.")
@click.option("--set", "more", multiple=True, metavar="NAME=VALUE", help="trl: any argument of its GRPOConfig.")
@click.option("--sandboxes", type=click.IntRange(min=1), default=default_sandboxes(), show_default=True)
@click.option("--backend", default="native", show_default=True, help="What makes the sandboxes.")
@click.option("--json", "as_json", is_flag=True, help="Print the sum as one JSON object in the last line.")
@by_watch
@click.pass_context
def command(ctx: click.Context, /, watching: Watching, **given: Any) -> None:
    """Train a small policy to repair the programs of TASKS: from demonstrations, then from rewards of executed repairs.

    TASKS is a set whose programs have one wrong token (repair-train). A curve is drawn while it learns; the folder
    holds metrics.jsonl, curve.html and the checkpoints. Progress goes to stderr. What was killed goes on with --resume
    at the step after its last.

    Exit codes: 0 done (better or not), 1 it failed, 2 wrong usage, 3 this host has no sandboxes or no torch, 130
    interrupted. Tasks that an evaluation beside the folder holds out (quintain eval) are refused.

    \b
    Examples:
      quintain train --out runs/first
      quintain train --control random --steps 200 --json
      quintain train --resume runs/first
      quintain train humaneval --trainer trl --model Qwen/Qwen3-0.6B --server http://localhost:8000/v1
    """
    resume: Path | None = given["resume"]
    need_torch()
    if given["trainer"] == "trl" or (resume is not None and (resume / _TRL).exists()):
        _by_trl(ctx, given, watching)
        return
    _refuse_options(ctx, train_trl.OPTIONS, "--trainer trl")
    if resume is not None:
        folder = resume
        _refuse_with_resume(ctx)
        try:
            asked, plan = _read(folder)
        except (OSError, msgspec.MsgspecError) as error:
            raise Usage(f"{folder} is no folder of a training: {error}") from None
    else:
        folder = _new_folder(given)
        asked, plan = _asked(given)
        refuse_held_out(asked, folder.parent)  # before a folder is made
        folder.mkdir(parents=True)
        (folder / "training.json").write_bytes(msgspec.json.encode({"asked": asked, "plan": plan}))
        hold_training(folder)
    trained = _run(asked, plan, folder, watching)
    if given["as_json"]:
        say_json(trained)
    else:
        _report(trained)
    ctx.exit(DONE)


def _by_trl(ctx: click.Context, given: dict[str, Any], watching: Watching) -> None:
    resume: Path | None = given["resume"]
    if resume is not None:
        _refuse_with_resume(ctx)
        folder = resume
        try:
            asked = msgspec.json.decode((folder / _TRL).read_bytes(), type=train_trl.TrlAsked)
        except (OSError, msgspec.MsgspecError) as error:
            raise Usage(f"{folder} is no folder of a training by TRL: {error}") from None
    else:
        others = [name for name in ctx.params if name not in (*train_trl.SHARED, *train_trl.OPTIONS, *WATCH_OPTIONS)]
        _refuse_options(ctx, others, "--trainer quintain")
        folder = _new_folder(given)
        asked = train_trl.asked_of(given)
        folder.mkdir(parents=True)
        (folder / _TRL).write_bytes(msgspec.json.encode(asked))
    try:
        told = train_trl.run_trl(asked, folder, resume=resume is not None, watching=watching)
    except KeyboardInterrupt:
        click.echo(f"interrupted; to go on: quintain train --resume {shlex.quote(str(folder))}", err=True)
        sys.exit(INTERRUPTED)
    if given["as_json"]:
        say_json(told)
    else:
        solved = told.last.get("solved")
        click.echo(f"{told.steps} updates of {told.trained_parameters} of {told.parameters} weights in "
                   f"{clock(told.seconds)}" + ("" if solved is None else f"; {solved:.1%} of the last batch solved"))
        click.echo(f"model: {told.model}\nlog: {told.run}/metrics.jsonl")
    ctx.exit(DONE)


def _new_folder(given: dict[str, Any]) -> Path:
    begun = Path("runs") / time.strftime("train-%Y%m%d-%H%M%S")
    folder: Path = given["out"] or next(  # another one may have begun in the same second
        place for place in (begun, *(begun.with_name(f"{begun.name}-{n}") for n in range(2, 1000)))
        if not place.exists())
    if folder.exists():
        raise Usage(f"--out {folder} is there already: choose another, or go on with that training: "
                    f"quintain train --resume {shlex.quote(str(folder))}")
    return folder


def _refuse_options(ctx: click.Context, names: Iterable[str], where: str) -> None:
    """Raises Usage for options that were given and mean something to the other trainer only."""
    given = [name for name in names if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if given:
        raise Usage(f"these belong to {where}: {', '.join(given)}")


def _refuse_with_resume(ctx: click.Context) -> None:
    extra = [name for name in ctx.params if name not in ("resume", "as_json", *WATCH_OPTIONS)
             and ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if extra:
        raise Usage(f"--resume goes on with what the training was asked: it cannot be given with {', '.join(extra)}")


def _asked(given: dict[str, Any]) -> tuple[Asked, Plan]:
    from quintain.train import Control, Plan, RepairSettings

    dials = {
        "sft_steps": given["sft_steps"], "rl_steps": 0 if given["only_sft"] else given["steps"],
        "demos": given["demos"],
    }
    settings = RepairSettings(
        seed=given["seed"], control=Control(given["control"]), house_failures=given["lost"], naive=given["naive"],
        staleness=int(given["ahead"]), **{name: value for name, value in dials.items() if value is not None},
    )
    sizes = {name: given[name] for name in ("train_each", "held_out_tasks") if given[name] is not None}
    if "held_out_tasks" in sizes:
        sizes["practised_tasks"] = sizes["held_out_tasks"]
    asked = Asked(
        tasks=given["tasks"], held_out=given["held_out"], settings=msgspec.json.encode(settings).decode(),
        sandboxes=given["sandboxes"], backend=given["backend"], confirm=given["confirm"],
        memory=str(given["memory"].resolve()) if given["memory"] else None, report_to=_boards(given["report_to"]),
        **sizes,
    )
    plan = Plan(evaluate_every=given["evaluate_every"], evaluate_tasks=EVALUATED_ON_THE_WAY, keep=given["keep"],
                patience=given["patience"], cpu_seconds=given["cpu_seconds"])
    return asked, plan


def _boards(names: Sequence[str]) -> tuple[str, ...]:
    """Raises Usage for what this trainer does not report to, HostCannot without what writes it."""
    if set(names) - {"tensorboard"}:
        raise Usage(f"expected --report-to tensorboard, found {', '.join(names)} (wandb sync reads the same files)")
    if names and importlib.util.find_spec("tensorboardX") is None:
        raise HostCannot("--report-to tensorboard needs tensorboardX: pip install 'quintain[curves]'")
    return tuple(names)


def _read(folder: Path) -> tuple[Asked, Plan]:
    from quintain.train import Plan

    kept = msgspec.json.decode((folder / "training.json").read_bytes(), type=dict[str, msgspec.Raw])
    if set(kept) != {"asked", "plan"}:
        raise msgspec.ValidationError(f"expected `asked` and `plan`, found {sorted(kept)}")
    return msgspec.json.decode(kept["asked"], type=Asked), msgspec.json.decode(kept["plan"], type=Plan)


def _run(asked: Asked, plan: Plan, folder: Path, watching: Watching) -> Trained:
    from quintain.train import RepairSettings

    began = time.monotonic()
    staleness = msgspec.json.decode(asked.settings, type=RepairSettings).staleness
    try:
        with watched_training(folder, watching, staleness=staleness) as eyes:
            ended, facts = asyncio.run(_train(asked, plan, folder, eyes))
    except KeyboardInterrupt:
        click.echo(f"interrupted; to go on: quintain train --resume {shlex.quote(str(folder))}", err=True)
        sys.exit(INTERRUPTED)
    except ValueError as error:
        raise Failed(str(error)) from None
    seconds = time.monotonic() - began
    return Trained(
        before=ended.first.get("pass_at_1"), after=ended.last.get("pass_at_1"), within3=ended.last.get("within_3"),
        within3_before=ended.first.get("within_3"), practised_before=ended.first.get("practised_pass_at_1"),
        practised_after=ended.last.get("practised_pass_at_1"), practised_within3=ended.last.get("practised_within_3"),
        best=ended.best if ended.best >= 0 else None, steps=ended.step, ended=ended.why, seconds=round(seconds, 2),
        sandbox_wait_share=round(facts["waiting_seconds"] / seconds, 3),
        alarms=tuple(f"{alarm.illness}: {alarm.says}" for alarm in ended.alarms), resumed_at=ended.resumed_at,
        run=str(folder), **facts,
    )


async def _train(
    asked: Asked, plan: Plan, folder: Path, eyes: TrainingEyes | None,
) -> tuple[Ended, dict[str, Any]]:
    from quintain.train import Board, Log, lines_of, train, write_page, write_png

    used, of_others = time.process_time(), _of_children()
    meter = (lambda backend: backend) if eyes is None else eyes.metered
    async with opened(asked, folder, meter=meter) as (learner, judge):
        log = Log(folder / "metrics.jsonl")
        if eyes is not None:
            eyes.known(log.readings())
        board = Board(folder / "tensorboard") if asked.report_to else None

        def watch(row: Row) -> None:
            curve.show(row)
            if board is not None:
                board.show(row)
            if eyes is not None:
                eyes.row(row)

        with TrainingScreen(learner.settings.sft_steps + learner.settings.rl_steps, log.rows()) as curve:
            ended = await train(
                learner if eyes is None else Heeding(learner, eyes), folder, plan, watch=watch)
        if board is not None:
            board.close()
        memory, settings = learner.memory, learner.settings
        facts: dict[str, Any] = {
            "parameters": learner.parameters, "train_tasks": len(learner.problems),
            "heldout_tasks": len(learner.held_out), "practised_tasks": len(learner.practised),
            "requests": memory.requested, "executions": memory.executed,
            "executed_share": memory.executed_share, "execution_seconds": round(memory.seconds, 2),
            "waiting_seconds": round(memory.seconds - learner.overlapped_seconds, 2),
            "visits": judge.visits, "alone": judge.alone, "seed": settings.seed, "control": settings.control.value,
            "trouble": judge.trouble,
        }
    own, others = time.process_time() - used, _of_children() - of_others  # the engines have ended
    executing = others + memory.cpu_seconds
    facts |= {"cpu_seconds": round(own, 2), "execution_cpu_seconds": round(executing, 2),
              "sandbox_cpu_share": round(executing / (own + others), 3)}
    lines, title = lines_of(log.rows()), f"quintain train {asked.tasks}"
    write_page(folder / "curve.html", lines, title=title, facts={name: str(value) for name, value in facts.items()})
    if importlib.util.find_spec("matplotlib") is not None:
        write_png(folder / "curve.png", lines, title=title)
    return ended, facts


def _of_children() -> float:
    """CPU seconds of the processes that this one started and that have ended, with all that they started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _report(trained: Trained) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, fact in _facts(trained):
        table.add_row(name, fact)
    console().print(table, markup=False)


def _facts(trained: Trained) -> list[tuple[str, str]]:
    def told(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.1%}"

    return [
        ("held out, first attempt", f"{told(trained.before)} before rewards, {told(trained.after)} after"),
        ("held out, within three", f"{told(trained.within3_before)} before rewards, {told(trained.within3)} after"),
        ("other faults of what it practised", f"{told(trained.practised_before)} before rewards, "
         f"{told(trained.practised_after)} after; {told(trained.practised_within3)} within three"),
        ("policy", f"{trained.parameters} parameters, seed {trained.seed}"),
        ("updates", f"{trained.steps} ({trained.ended})"),
        ("rewards", f"{trained.requests} asked for, {trained.executions} executed"
                    + (f" ({trained.executed_share:.1%}); the others were executed before"
                       if trained.executed_share is not None else "")),
        ("time", f"{clock(trained.seconds)}, {trained.sandbox_wait_share:.0%} of it waiting for sandboxes; executing "
                 f"took {trained.sandbox_cpu_share:.0%} of all CPU time"),
        *([("alarms", "; ".join(trained.alarms))] if trained.alarms else []),
        *([("not judged", trained.trouble)] if trained.trouble else []),
        ("curve", f"{trained.run}/curve.html"),
        ("log", f"{trained.run}/metrics.jsonl"),
    ]
