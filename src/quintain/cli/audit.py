"""`quintain audit`: people look at attempts, and what they find is counted."""

from __future__ import annotations

import functools
import getpass
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from quintain.cli.exits import Failed, Usage
from quintain.cli.options import choosing
from quintain.cli.output import console, say_json
from quintain.cli.reviewing import print_case, print_stats
from quintain.cli.wire import Choice, open_tasks
from quintain.guard import Case, Decision, Desk, Refused, Stats, feed, tried_of
from quintain.store import Run, find_run
from quintain.types import TaskError

if TYPE_CHECKING:
    from quintain.tasks import Item, Taskset


QUEUE = Path("audit")


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case as a script reads it. `content` is null where the queue has no case for this reviewer."""

    case: str | None
    content: Case | None
    until_unix_seconds: float | None = None
    said: dict[str, str] = {}
    notes: dict[str, str] = {}


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases came in. Which of them are seeds is not told."""

    queue: str
    added: int
    open: int
    attempts: int
    tasks_at_hand: bool


def with_queue(function: Callable[..., Any], *, may_be_new: bool = False) -> Callable[..., Any]:
    """Adds --queue; the command gets a Desk, and what the queue refuses ends it with exit code 1."""

    @functools.wraps(function)
    def opened(*, queue: Path, **rest: Any) -> Any:
        if not may_be_new and not queue.is_dir():
            raise Failed(f"expected the folder of a queue, found nothing at {queue}; "
                         f"this makes one: quintain audit add latest{_where(queue)}")
        try:
            return function(desk=Desk(queue), **rest)
        except Refused as error:
            raise Failed(str(error)) from error

    return click.option("--queue", type=click.Path(path_type=Path, file_okay=False), default=QUEUE,
                        show_default=True, help="The folder of the queue.")(opened)


with_queue_to_fill = functools.partial(with_queue, may_be_new=True)


def _where(queue: Path) -> str:
    """What a suggested command must say to mean this queue."""
    return "" if queue == QUEUE else f" --queue {shlex.quote(str(queue))}"


by_reviewer = click.option("--reviewer", default=getpass.getuser, show_default="you", help="Whose word it is.")
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("audit")
def command() -> None:
    """Look at attempts, decide whether they were honest, and see what that proves.

    \b
    Examples:
      quintain audit add latest --sample 300
      quintain audit next
      quintain audit decide 3fa2 hack --note "returns what the test compares with"
      quintain audit undo
      quintain audit stats
    """


@command.command("add", short_help="Put a run's flagged attempts, and a sample of its rewarded ones, into the queue.")
@click.argument("run")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--sample", type=click.IntRange(min=0), default=300, show_default=True,
              help="About how many rewarded attempts: half the best paid, a quarter of new behaviour, a quarter any.")
@click.option("--seeds", type=click.IntRange(min=0), help="Hacks and as many honest answers whose truth is known "
              "(default: one of each for 15 drawn).")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the same again.")
@choosing
@with_queue_to_fill
@as_json_option
def add(
    desk: Desk, run: str, runs: Path, sample: int, seeds: int | None, seed: int, choice: Choice, as_json: bool,
) -> None:
    """Put attempts of RUN into the queue: those with soft flags, a sample of the rewarded ones, and blind seeds.

    What is in the queue already is not added again. Every rewarded attempt at a task with a confirmed hack is added.

    \b
    Examples:
      quintain audit add latest
      quintain audit add runs/first --sample 60 --queue reviews
    """
    with Run.open(find_run(runs, run)) as opened:
        tasks = _tasks_of(opened, choice)
        tried = tuple(tried_of(opened))
        found = feed(tried, _finder(tasks), sample=sample, seed=seed, seeds=seeds, hot=frozenset(desk.stats().hot))
        made = desk.add(found, now=time.time())
    told = Added(queue=str(desk.folder), added=len(made), open=desk.stats().open, attempts=len(tried),
                 tasks_at_hand=tasks is not None)
    if as_json:
        say_json(told)
    else:
        console().print(f"{told.added} cases added to {told.queue}, {told.open} open; "
                        f"next: quintain audit next{_where(desk.folder)}", markup=False)


@command.command("next", short_help="Show the next case, and hold it for half an hour.")
@by_reviewer
@with_queue
@as_json_option
def give_next(desk: Desk, reviewer: str, as_json: bool) -> None:
    """Show the next case that nobody else looks at; it is yours for half an hour. Asked again, it shows the same one.

    \b
    Examples:
      quintain audit next
      quintain audit next --reviewer ada --json
    """
    found = desk.next(reviewer, now=time.time())
    if as_json:
        lease, case = found if found else (None, None)
        say_json(Shown(case=lease.case if lease else None, content=case,
                       until_unix_seconds=lease.until_unix_seconds if lease else None))
    elif found is None:
        console().print(f"nothing to review for {reviewer} in {desk.folder}", markup=False)
    else:
        print_case(found[0].case, found[1], console(), where=_where(desk.folder))


@command.command("show", short_help="Show a case again.")
@click.argument("case")
@with_queue
@as_json_option
def show(desk: Desk, case: str, as_json: bool) -> None:
    """Show CASE (its id, or the beginning of it), and what was said of it.

    \b
    Examples:
      quintain audit show 3fa2
      quintain audit show 3fa2 --json
    """
    standing = desk.standing(case)
    id, content = standing.added.case, desk.case(standing.added.case)
    said = {who: one.decision.value for who, one in standing.said.items()}
    notes = {who: one.note for who, one in standing.said.items() if one.note}
    if as_json:
        say_json(Shown(case=id, content=content, said=said, notes=notes))
    else:
        print_case(id, content, console(), said=said, notes=notes, where=_where(desk.folder))


@command.command("decide", short_help="Say what a case is: honest, hack or unclear.")
@click.argument("case")
@click.argument("decision", type=click.Choice([one.value for one in Decision]))
@click.option("--note", default="", help="What settled it, for whoever reads it later.")
@by_reviewer
@with_queue
@as_json_option
def say(desk: Desk, case: str, decision: str, note: str, reviewer: str, as_json: bool) -> None:
    """Write down what CASE is. An unclear one goes to somebody else; two who cannot tell settle it as unclear.

    \b
    Examples:
      quintain audit decide 3fa2 honest
      quintain audit decide 3fa2 hack --note "exits before the tests"
    """
    made = desk.decide(case, reviewer, Decision(decision), now=time.time(), note=note)
    if as_json:
        say_json(made)
    else:
        told = f"{made.case}: {made.decision.value} ({made.reviewer}); next: quintain audit next{_where(desk.folder)}"
        console().print(told, markup=False)


@command.command("undo", short_help="Take back a decision.")
@click.argument("case", required=False)
@by_reviewer
@with_queue
@as_json_option
def take_back(desk: Desk, case: str | None, reviewer: str, as_json: bool) -> None:
    """Take back your decision on CASE, or your latest one; the case is open again.

    \b
    Examples:
      quintain audit undo
      quintain audit undo 3fa2
    """
    made = desk.undo(reviewer, now=time.time(), case=case)
    if as_json:
        say_json(made)
    else:
        console().print(f"{made.case}: open again", markup=False)


@command.command("stats", short_help="Say what the reviews have proved.")
@with_queue
@as_json_option
def tell(desk: Desk, as_json: bool) -> None:
    """Say how often rewarded attempts are hacks, at most (95 %), and how good the reviewers are, by seeds.

    \b
    Examples:
      quintain audit stats
      quintain audit stats --queue reviews --json
    """
    found: Stats = desk.stats()
    if as_json:
        say_json(found)
    else:
        print_stats(found, console())


def _tasks_of(run: Run, choice: Choice) -> Taskset | None:
    """The run's tasks, for the author's answers and for seeds; without them attempts are shown alone."""
    asked = msgspec.json.decode(run.definition.options.get("choice", "{}"), type=Choice)
    chosen = msgspec.structs.replace(asked, data=choice.data) if choice.data else asked
    try:
        return open_tasks(run.definition.taskset, chosen)
    except Usage as error:
        click.echo(f"without the author's answers, and without seeds: {error.message}", err=True)
        return None


def _finder(tasks: Taskset | None) -> Callable[[str], Item | None]:
    @functools.cache
    def find(id: str) -> Item | None:
        if tasks is None:
            return None
        try:
            return tasks[id]
        except (KeyError, TaskError):
            return None

    return find
