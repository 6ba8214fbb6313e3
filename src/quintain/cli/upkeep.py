"""`quintain tasks recheck` and `refresh`: whether tasks are still fit, and their next version, by hand or by cron."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.exits import DONE, FAILED, Usage
from quintain.cli.health import opened_ledger
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import plain, say_json
from quintain.cli.wire import Choice, Skipped, default_sandboxes, open_tasks
from quintain.curate import HealthLedger, Looked, Refreshed, adopt, refresh, review, solved_attempts
from quintain.guard import Deal
from quintain.store import Run
from quintain.tasks import Item, open_taskset, write_taskset
from quintain.types import Event, Opened, TaskError

if TYPE_CHECKING:
    from quintain.curate import Site
    from quintain.tasks import Taskset

#: The files of one round of refreshing.
ASKED, WHOLE, DEALS = "tasks.jsonl", "whole.jsonl", "deals.json"


@click.command("recheck", short_help="Look again at tasks that are due: after a week, or by another verifier.")
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.argument("tasks")
@choosing
@click.option("--all", "everything", is_flag=True, help="Also those that are not due yet.")
@basing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each task.")
@click.pass_context
def recheck_tasks(
    ctx: click.Context, ledger: Path, tasks: str, choice: Choice, everything: bool, bases: tuple[str, ...],
    as_json: bool,
) -> None:
    """Try the author's answer and the null answers of TASKS that are due in LEDGER: what is not fit any more is
    suspended, what was suspended for a reason that this lifts goes on probation. A run with --health does it by itself.

    Exit codes: 0 all that were looked at are fit, 1 one is not or could not be judged.

    \b
    Examples:
      quintain tasks recheck health.jsonl mytasks
      quintain tasks recheck health.jsonl mytasks --all --json
    """
    from quintain.cli.admit import open_site

    kept, chosen = opened_ledger(ledger), open_tasks(tasks, choice)

    async def looked() -> Sequence[Looked]:
        async with open_site(sandboxes=default_sandboxes(), bases=dict(map(pair_of, bases))) as site:
            return await review(kept, site, Skipped().readable(chosen), by=getpass.getuser(),
                                now_unix_seconds=float("inf") if everything else time.time())

    found = asyncio.run(looked())
    for one in found:
        moved = f" -> {one.moved.value}" if one.moved is not None else ""
        if as_json:
            say_json(one)
        else:
            click.echo(f"{plain(one.task)}: {plain(one.trouble, limit=500) or 'fit'}{moved}")
    if not as_json:
        click.echo(f"{len(found)} task(s) were due")
    ctx.exit(FAILED if any(one.trouble for one in found) else DONE)


class Renewal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one task, as a script reads it. `lost` are solved attempts that the new version does not call
    solved, `doubtful` counts new inputs on which most of them contradict the author; with `alarm` the old version
    stays."""

    task: str
    version: str
    added: int = 0
    judged: int = 0
    lost: tuple[str, ...] = ()
    doubtful: int = 0
    alarm: bool = False
    left: str = ""


@click.command("refresh", short_help="Make the next version of tasks, and judge solved attempts by it.")
@click.argument("tasks")
@choosing
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True,
              help="A folder of rounds; each has its tasks and how their cases were dealt, and begins where the last "
                   "one ended.")
@click.option("--run", "runs", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="A run whose solved attempts are judged again (repeatable).")
@click.option("--health", type=click.Path(path_type=Path, exists=True), help="The ledger that takes the new versions.")
@click.option("--grow/--no-grow", default=True, show_default=True, help="Make new cases, where that can be.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each task.")
@click.pass_context
def refresh_tasks(
    ctx: click.Context, tasks: str, choice: Choice, out: Path, runs: tuple[Path, ...], health: Path | None, grow: bool,
    seed: int, as_json: bool,
) -> None:
    """Make the next version of each of TASKS: new cases, and the cases dealt anew into what is shown, what is judged
    and what is held back. The last solved attempts of the runs are judged by it. Where more than 3 % of them are lost
    there is an alarm, and the old version stays until somebody has looked.

    Exit codes: 0 no alarm, 1 an alarm.

    \b
    Examples:
      quintain tasks refresh mytasks --out rounds --run runs/first --health health.jsonl
      quintain run rounds/0001/tasks.jsonl --policy … --health health.jsonl
    """
    chosen = open_tasks(tasks, choice)
    kept = opened_ledger(health) if health is not None else None
    last = last_round(out)
    work = _Refreshing(chosen, last=last, events=_events_by_task(runs), seed=seed, grow=grow, ledger=kept)
    told = asyncio.run(work.done())
    place = out / f"{int(last.name) + 1 if last else 1:04}"
    work.write(place)
    for one in told:
        if as_json:
            say_json(one)
        else:
            click.echo(_line(one))
    if not as_json:
        click.echo(f"wrote {place / ASKED}; next: quintain run {place / ASKED} --policy …")
    ctx.exit(FAILED if any(one.alarm for one in told) else DONE)


def last_round(out: Path) -> Path | None:
    """The folder of the latest round that was written whole."""
    found = sorted(path for path in out.glob("[0-9]" * 4) if (path / ASKED).is_file()) if out.is_dir() else []
    return found[-1] if found else None


class _Refreshing:
    """One round, task after task."""

    def __init__(
        self, tasks: Taskset, *, last: Path | None, events: Mapping[str, Sequence[Event]], seed: int, grow: bool,
        ledger: HealthLedger | None,
    ) -> None:
        self._tasks = tasks
        self._events = events
        self._seed = seed
        self._grow = grow
        self._ledger = ledger
        self._was = dict(_read(last / ASKED)) if last else {}
        self._whole = dict(_read(last / WHOLE)) if last else {}
        self._deals: dict[str, Deal] = _deals(last / DEALS) if last else {}

    async def done(self) -> list[Renewal]:
        from quintain.cli.admit import open_site

        found = []
        async with open_site(sandboxes=default_sandboxes(), bases={}) as site:
            for item in Skipped().readable(self._tasks):
                try:
                    found.append(await self._one(item, site))
                except TaskError as error:
                    self._was.setdefault(item.task.id, item)
                    found.append(Renewal(task=item.task.id, version=item.task.version, left=str(error)))
        return found

    async def _one(self, item: Item, site: Site) -> Renewal:
        id = item.task.id
        renewed = await refresh(
            site.backend, site.oracle, self._whole.get(id, item), self._deals.get(id), seed=self._seed,
            grown=self._grow, solved=solved_attempts(self._events.get(id, ()), id),
        )
        judged = renewed.rescored
        lost = judged.lost if judged is not None else ()
        told = Renewal(task=id, version=renewed.item.task.version, added=len(renewed.added), alarm=renewed.alarm,
                       doubtful=renewed.doubtful, judged=judged.judged if judged is not None else 0,
                       lost=tuple(lost[:20]))
        if renewed.alarm:
            self._was.setdefault(id, item)
            return told
        self._take(renewed)
        return told

    def _take(self, renewed: Refreshed) -> None:
        id = renewed.item.task.id
        if self._ledger is not None:
            adopt(self._ledger, renewed, by=getpass.getuser())
        self._was[id], self._whole[id], self._deals[id] = renewed.item, renewed.whole, renewed.deal

    def write(self, place: Path) -> None:
        """The round as it stands; the file of tasks comes last, so that half a round is none."""
        place.mkdir(parents=True, exist_ok=True)
        (place / DEALS).write_bytes(msgspec.json.encode(self._deals))
        for file, items in ((WHOLE, self._whole), (ASKED, self._was)):
            (place / file).unlink(missing_ok=True)
            write_taskset(items.values(), place / file, format="jsonl")


def _read(file: Path) -> Iterable[tuple[str, Item]]:
    try:
        if not file.stat().st_size:  # nothing was adopted in that round
            return []
        return [(item.task.id, item) for item in open_taskset(f"jsonl:{file}")]
    except (OSError, TaskError) as error:
        raise Usage(str(error)) from error


def _deals(file: Path) -> dict[str, Deal]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Deal])
    except (OSError, msgspec.DecodeError) as error:
        raise Usage(f"{file}: expected how cases were dealt, by task, found {error}") from error


def _events_by_task(runs: Sequence[Path]) -> dict[str, list[Event]]:
    """Each task's events, run after run."""
    found: dict[str, list[Event]] = {}
    for path in runs:
        of: dict[str, str] = {}
        with Run.open(path) as run:
            for event in run.journal.read():
                if isinstance(event, Opened):
                    of[event.episode] = event.task
                if event.episode in of:
                    found.setdefault(of[event.episode], []).append(event)
    return found


def _line(one: Renewal) -> str:
    if one.left:
        return f"{plain(one.task)}: left as it is: {plain(one.left, limit=300)}"
    judged = f", {len(one.lost)} of {one.judged} solved attempts lost" if one.judged else ""
    against = f"; most contradict the author on {one.doubtful} new inputs" if one.doubtful else ""
    shown = ", ".join(map(plain, one.lost[:3])) or "them"
    alarm = f"  ALARM: the old version stays; look at {shown}" if one.alarm else ""
    return f"{plain(one.task)}: version {one.version[:12]}, {one.added} new cases{judged}{against}{alarm}"
