"""`quintain tasks health`, `suspend` and `readmit`: how tasks fare in training, and a person's word on it."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from quintain.cli.exits import DONE, FAILED, Usage
from quintain.cli.output import console, plain, say_json
from quintain.curate import (
    HEALTH_FILE,
    Bounds,
    Chart,
    Ending,
    HealthLedger,
    House,
    Sighting,
    Standing,
    State,
    Why,
    added,
    log_evidence,
    sightings,
    suspicion,
    trouble,
)
from quintain.store import Run

_LN10 = 2.302585092994046


class TestView(msgspec.Struct, frozen=True, kw_only=True):
    """A test that failed on answers that were right otherwise: P(f > 1 %), and the logarithm (base 10) of the e-value
    against f <= 0.1 %."""

    id: str
    failures: int
    trials: int
    suspicion: float
    evidence_log10: float


class HealthView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The health of one task, as a script reads it. `state` is `None` for a run without a ledger; then `would` is the
    reason for which its attempts alone would suspend it."""

    task: str
    version: str
    state: State | None = None
    why: Why | None = None
    evidence: str = ""
    since_unix_seconds: float | None = None
    suspensions: int = 0
    verdicts: int = 0
    solved_rate: float | None = None
    doubtful: tuple[TestView, ...] = ()
    would: str = ""


@click.command("health", short_help="Say how tasks fare in training, and why some are suspended.")
@click.argument("place", metavar="RUN|LEDGER", type=click.Path(path_type=Path, exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each line.")
@click.pass_context
def health_of_tasks(ctx: click.Context, place: Path, as_json: bool) -> None:
    """Say how each task fares: its state, since when and why, its verdicts, and tests that look flaky.

    LEDGER is the file that a run was given with --health (or the folder with it). Of a RUN that had none, its attempts
    are read, and what they would have led to is said.
    Exit codes: 0 every task is drawn, 1 one is not or would not be.

    \b
    Examples:
      quintain tasks health health.jsonl
      quintain tasks health runs/first --json
    """
    views = list(_views(place))
    if as_json:
        for view in views:
            say_json(view)
    else:
        _tell(views)
    well = all(view.would == "" and (view.state is None or view.state.is_drawn) for view in views)
    ctx.exit(DONE if well else FAILED)


@click.command("suspend", short_help="Take a task out of the schedule by hand.")
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.argument("task")
@click.option("--why", "evidence", required=True, help="The reason, for whoever reads the ledger later.")
@click.option("--for-good", is_flag=True, help="Retire this version: it never comes back.")
def suspend_task(ledger: Path, task: str, evidence: str, for_good: bool) -> None:
    """Suspend TASK: runs that use LEDGER draw it no more within a second, and mask what is pending.

    \b
    Examples:
      quintain tasks suspend health.jsonl HumanEval/3 --why "the text contradicts test 4"
      quintain tasks suspend health.jsonl HumanEval/3 --why "a copy of HumanEval/2" --for-good
    """
    to = State.RETIRED if for_good else State.SUSPENDED
    _say(opened_ledger(ledger).move(task, to, Why.BY_HAND, evidence=evidence, by=getpass.getuser()))


@click.command("readmit", short_help="Let a suspended task back on probation by hand.")
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.argument("task")
@click.option("--why", "evidence", required=True, help="The reason, for whoever reads the ledger later.")
def readmit_task(ledger: Path, task: str, evidence: str) -> None:
    """Readmit TASK: it goes on probation, and what was counted against it before is not counted any more.

    \b
    Examples:
      quintain tasks readmit health.jsonl HumanEval/3 --why "the sandbox host was at fault"
    """
    _say(opened_ledger(ledger).move(task, State.PROBATION, Why.BY_HAND, evidence=evidence, by=getpass.getuser()))


def _views(place: Path) -> Iterable[HealthView]:
    file = place / HEALTH_FILE if place.is_dir() else place
    if file.exists():
        for standing in sorted(opened_ledger(file).standings.values(), key=lambda one: one.task):
            yield _view_of(standing)
        return
    with Run.open(place) as run:
        charts: dict[tuple[str, str], Chart] = {}
        seen: list[Sighting] = list(sightings(run.journal.read()))
    for one in seen:
        charts[one.task, one.version] = added(charts.get((one.task, one.version), Chart()), one)
    broken = {task: chart.endings.count(Ending.INFRASTRUCTURE.value) for (task, _), chart in charts.items()}
    for (task, version), chart in sorted(charts.items()):
        elsewhere = House(
            attempts=sum(one.task != task for one in seen), broken=sum(n for t, n in broken.items() if t != task),
        )
        found = trouble(chart, Bounds(), house=elsewhere, has_oracle=True)
        yield _view(task, version, chart, would=f"{found.why.value}: {found.evidence}" if found else "")


def _view_of(standing: Standing) -> HealthView:
    last = standing.moves[-1] if standing.moves else None
    return msgspec.structs.replace(
        _view(standing.task, standing.version, standing.chart), state=standing.state,
        why=last.why if last else None, evidence=last.evidence if last else "",
        since_unix_seconds=standing.since_unix_seconds, suspensions=standing.suspensions,
    )


def _view(task: str, version: str, chart: Chart, *, would: str = "") -> HealthView:
    solved, unsolved = (chart.endings.count(one.value) for one in (Ending.SOLVED, Ending.UNSOLVED))
    doubtful = tuple(
        TestView(
            id=test, failures=failures, trials=chart.trials_of(test),
            suspicion=round(suspicion(failures, chart.trials_of(test)), 4),
            evidence_log10=round(log_evidence(failures, chart.trials_of(test)) / _LN10, 2),
        )
        for test, failures in sorted(chart.failures.items())
    )
    return HealthView(
        task=task, version=version, verdicts=chart.verdicts, doubtful=doubtful, would=would,
        solved_rate=round(solved / (solved + unsolved), 4) if solved + unsolved else None,
    )


def _tell(views: Iterable[HealthView]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("task", "state", "since", "verdicts", "solved", "why"):
        table.add_column(title, overflow="fold")
    count = 0
    for view in views:
        count += 1
        since = "" if view.since_unix_seconds is None else time.strftime(
            "%Y-%m-%d %H:%M:%S", time.gmtime(view.since_unix_seconds))
        state = view.state.value if view.state else "would be suspended" if view.would else "no ledger"
        why = view.would or (f"{view.why.value}: {view.evidence}" if view.why else "")
        doubts = "".join(
            f"\n{one.id}: {one.failures} of {one.trials}, P(f > 1 %) = {one.suspicion:.3f}" for one in view.doubtful)
        rate = "" if view.solved_rate is None else f"{100 * view.solved_rate:.0f} %"
        table.add_row(*(
            Text(plain(cell, limit=600)) for cell in (view.task, state, since, str(view.verdicts), rate, why + doubts)
        ))
    console().print(table)
    click.echo(f"{count} task(s)")


def opened_ledger(place: Path) -> HealthLedger:
    """The ledger in a file or a folder. Raises Usage where there is none."""
    file = place / HEALTH_FILE if place.is_dir() else place
    if not file.is_file():
        raise Usage(f"expected a health ledger, found none at {file}: quintain run TASKS --policy P --health {file}")
    return HealthLedger(file)


def _say(standing: Standing) -> None:
    click.echo(f"{plain(standing.task)} is {standing.state.value}")
