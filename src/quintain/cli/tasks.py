"""`quintain tasks`: look at tasks, check them, write new ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.convert import convert_tasks, diff_tasks
from quintain.cli.exits import DONE, FAILED, Usage
from quintain.cli.health import health_of_tasks, readmit_task, suspend_task
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import console, one_line, plain, say_json
from quintain.cli.queue import review_tasks
from quintain.cli.upkeep import recheck_tasks, refresh_tasks
from quintain.cli.wire import Choice, cache_folder, open_tasks
from quintain.tasks import AnswerSuite, Exam, Item, StdioSuite, Suite, kind_of, known_sets, names_of, new_task
from quintain.types import Task, TaskError

if TYPE_CHECKING:
    from rich.console import Console

KINDS = ("function", "program")


class SuiteView(msgspec.Struct, frozen=True, kw_only=True):
    """A suite without its contents: its kind, how many tests it names, its files."""

    kind: str
    tests: int | None
    files: tuple[str, ...]


class TaskView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task as a script reads it. The exam is there only when it was asked for."""

    task: Task
    hidden: SuiteView
    visible: SuiteView | None = None
    reserve: SuiteView | None = None
    has_oracle: bool
    nulls: int
    exam: Exam | None = None


@click.group("tasks")
def command() -> None:
    """List, look into, check, write, convert and compare tasks.

    TASKS is a set by name (humaneval, mbpp, quixbugs, …) or the path of a task, of a folder of tasks, or of a file.

    \b
    Examples:
      quintain tasks list
      quintain tasks list humaneval --take 5
      quintain tasks show humaneval HumanEval/0
      quintain tasks new mytasks/total
      quintain tasks check mytasks
    """


command.add_command(convert_tasks)
command.add_command(diff_tasks)
command.add_command(health_of_tasks)
command.add_command(suspend_task)
command.add_command(readmit_task)
command.add_command(recheck_tasks)
command.add_command(refresh_tasks)
command.add_command(review_tasks)


@command.command("list", short_help="List tasks, or the sets that have a name.")
@click.argument("tasks", required=False)
@choosing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each line.")
def list_tasks(tasks: str | None, choice: Choice, as_json: bool) -> None:
    """List the tasks of TASKS, or without it the sets that have a name.

    \b
    Examples:
      quintain tasks list
      quintain tasks list humaneval --take 5 --json
    """
    out = console()
    if tasks is None:
        for public in known_sets().values():
            if as_json:
                say_json(public)
            else:
                out.print(f"{public.name}: {public.source}", markup=False, soft_wrap=True)
        return
    count = 0
    for item in open_tasks(tasks, choice):
        count += 1
        if as_json:
            say_json(view(item))
        else:
            line = f"{plain(item.task.id)}  [{item.task.kind}, {item.task.entry.language}]  "
            out.print(line + one_line(item.task.instructions, 90), markup=False, soft_wrap=True)
    if not as_json:
        out.print(f"{count} task(s)")


@command.command("show", short_help="Show one task and how it is judged.")
@click.argument("tasks")
@click.argument("id", required=False)
@click.option("--data", type=click.Path(exists=True), help="The file of a named set, or its folder.")
@click.option("--exam", "with_exam", is_flag=True, help="Show the hidden tests and the answers too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a story.")
def show_task(tasks: str, id: str | None, data: str | None, with_exam: bool, as_json: bool) -> None:
    """Show one task: what is asked, its files and limits, and how it is judged.

    \b
    Examples:
      quintain tasks show humaneval HumanEval/0
      quintain tasks show mytasks/total --exam
    """
    chosen = open_tasks(tasks, Choice(data=data))
    if id is None and len(chosen) != 1:
        raise Usage(f"{tasks} holds {len(chosen)} tasks: name one, as in quintain tasks show {tasks} {chosen.ids[0]}"
                    if chosen.ids else f"{tasks} holds no task")
    wanted = id if id is not None else chosen.ids[0]
    if wanted not in chosen:
        raise Usage(f"{tasks} has no task {wanted!r}: quintain tasks list {tasks}")
    item = chosen[wanted]
    if as_json:
        say_json(view(item, with_exam=with_exam))
    else:
        tell(item, console(), with_exam=with_exam)


@command.command("check", short_help="Check that the tests tell right from wrong.")
@click.argument("tasks")
@choosing
@click.option("--sandboxes", type=click.IntRange(min=1), default=2, show_default=True, help="How many at once.")
@basing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each line, the sum last.")
@click.pass_context
def check_tasks(
    ctx: click.Context, tasks: str, choice: Choice, sandboxes: int, bases: tuple[str, ...], as_json: bool,
) -> None:
    """Check tasks: each can be read, its oracle solves it, and no null answer does.

    Exit codes: 0 all are fit, 1 one is not, 3 this host cannot run sandboxes.

    \b
    Examples:
      quintain tasks check mytasks
      quintain tasks check humaneval --take 20 --sandboxes 4
      quintain tasks check harbor-tasks --base '*=host'
    """
    from quintain.cli.fitness import Fit, Fitness, examine

    counts = dict.fromkeys(Fit, 0)

    def report(found: Fitness) -> None:
        counts[found.fit] += 1
        if as_json:
            say_json(found)
        else:
            click.echo(f"{found.fit.value:8}  {plain(found.task)}{''.join(_reasons(found.reasons))}")

    chosen = open_tasks(tasks, choice)
    if not chosen.ids:
        raise Usage(f"no task of {tasks} was chosen: look at --include, --exclude and --take")
    replaced = dict(pair_of(base) for base in bases)
    asyncio.run(examine(chosen, sandboxes=sandboxes, report=report, cache=cache_folder(), bases=replaced))
    if as_json:
        say_json({"tasks": sum(counts.values()), **{fit.value: count for fit, count in counts.items()}})
    else:
        click.echo(f"{sum(counts.values())} task(s): " + ", ".join(f"{n} {fit.value}" for fit, n in counts.items()))
    ctx.exit(FAILED if counts[Fit.UNFIT] else DONE)


def _reasons(reasons: tuple[str, ...]) -> list[str]:
    return [f"\n       {line}" for reason in reasons for line in plain(reason, limit=2000).splitlines()]


@command.command("new", short_help="Write a small complete task, to be changed.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(KINDS), default="function", show_default=True,
              help="A function that tests call, or a program that reads and writes.")
@click.option("--language", default="python", show_default=True, help="The language of the answer.")
def new(path: Path, kind: str, language: str) -> None:
    """Write a small complete task to PATH, to be changed into what you mean.

    \b
    Examples:
      quintain tasks new mytasks/total
      quintain tasks new mytasks/sort --kind program --language shell
    """
    try:
        item = new_task(path, language=language, kind=kind)
    except TaskError as error:
        raise Usage(str(error)) from error
    click.echo(f"wrote task {item.task.id} to {path}; try: quintain tasks check {path}")


def view(item: Item, *, with_exam: bool = False) -> TaskView:
    """A task as a record for scripts."""
    exam = item.exam
    return TaskView(
        task=item.task, hidden=_suite(exam.hidden), visible=_suite(exam.visible) if exam.visible else None,
        reserve=_suite(exam.reserve) if exam.reserve else None, has_oracle=exam.oracle is not None,
        nulls=len(exam.null), exam=exam if with_exam else None,
    )


def _suite(suite: Suite) -> SuiteView:
    files: dict[str, bytes] = getattr(suite, "files", {})
    names = names_of(suite)
    return SuiteView(kind=kind_of(suite), tests=len(names) or None, files=tuple(sorted(files) or names))


def tell(item: Item, out: Console, *, with_exam: bool) -> None:
    """One task as a story for people."""
    from rich.text import Text

    task, shown = item.task, view(item)
    command_limits = task.limits.command
    facts = {
        "version": task.version[:16], "kind": f"{task.kind}, graded {task.grading.value}",
        "answer": f"{task.entry.path} ({task.entry.language}), defines {task.entry.name or 'whatever it likes'}",
        "limits": f"{command_limits.wall_seconds:g} s, {command_limits.memory_bytes / 2**20:g} MiB a command; "
                  f"{task.limits.episode.turns} turns",
        "walls": f"network {task.network.value}, at least {task.isolation.value}",
        "hidden tests": _count(shown.hidden), "visible tests": _count(shown.visible) if shown.visible else "none",
        "oracle": "yes" if shown.has_oracle else "no", "null answers": str(shown.nulls),
        "files": ", ".join(sorted(task.files)) or "none", "tags": ", ".join(task.tags) or "none",
    }
    out.print(Text(task.id, style="bold"))
    for name, fact in facts.items():
        out.print(Text(f"  {name}: {plain(fact)}"), soft_wrap=True)
    out.print(Text("\ninstructions", style="bold cyan"))
    out.print(Text(plain(task.instructions)), soft_wrap=True)
    if with_exam:
        parts = {"hidden": _contents(item.exam.hidden), "oracle": item.exam.oracle or {}}
        for title, files in parts.items():
            for path, content in sorted(files.items()):
                out.print(Text(f"\n{title}: {path}", style="bold cyan"))
                out.print(Text(plain(content.decode("utf-8", "replace"), limit=6000)), soft_wrap=True)


def _contents(suite: Suite) -> dict[str, bytes]:
    if isinstance(suite, StdioSuite):
        ends = (("in", "stdin"), ("out", "stdout"))
        return {f"{case.name}.{end}": getattr(case, field) for case in suite.cases for end, field in ends}
    if isinstance(suite, AnswerSuite):
        return {"answer": suite.expected.encode()}
    return suite.files


def _count(suite: SuiteView) -> str:
    return f"{suite.tests if suite.tests is not None else 'some'} ({suite.kind}: {', '.join(suite.files[:4])}" + (
        ", …)" if len(suite.files) > 4 else ")")
