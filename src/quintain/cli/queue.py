"""`quintain tasks review`: the queue of what admission left open, for a person, with one key for each decision."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.admit import REPORT, applied, open_site, versions, written
from quintain.cli.exits import Usage
from quintain.cli.health import opened_ledger
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import plain
from quintain.cli.wire import Choice, default_sandboxes, open_tasks
from quintain.curate import TWO_READINGS, Admission, HealthLedger, Ruling, lines_of_admission, propose
from quintain.types import TaskError

if TYPE_CHECKING:
    from quintain.curate import Site
    from quintain.tasks import Item, Taskset

DECISIONS = "decisions.jsonl"


class Word(StrEnum):
    """What a person says: of a repair ACCEPTED or REFUSED, of a task as it is ADMITTED or REJECTED."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    ADMITTED = "admitted"
    REJECTED = "rejected"


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One decision. `about` is a repair in its own words, empty for the task itself."""

    task: str
    version: str
    about: str
    word: Word
    by: str
    at_unix_seconds: float


@click.command("review", short_help="Decide, key by key, what admission left open.")
@click.argument("admission", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("tasks")
@choosing
@click.option("--health", type=click.Path(path_type=Path, exists=True),
              help="The ledger where a task that you admit as it is goes on probation.")
@basing
@click.option("--list", "only_list", is_flag=True, help="Say what is open, and ask nothing.")
@click.pass_context
def review_tasks(
    ctx: click.Context, admission: Path, tasks: str, choice: Choice, health: Path | None, bases: tuple[str, ...],
    only_list: bool,
) -> None:
    """Go through what `quintain admit TASKS --out ADMISSION` left open: what was not admitted, then what was, though
    its text has two readings. Of each repair: y takes it, n does not. Of each task without an accepted repair: a admits
    it as it is, r rejects it, l leaves it for later. q ends.

    What was decided stands in ADMISSION/decisions.jsonl and is not asked again; repaired tasks are written below
    ADMISSION/repaired.

    \b
    Examples:
      quintain tasks review admission mytasks
      quintain tasks review admission mytasks --list
      quintain tasks review admission mytasks --health health.jsonl
    """
    chosen = open_tasks(tasks, choice)
    queue = Queue(admission, chosen, ledger=opened_ledger(health) if health is not None else None)
    waiting = list(queue.waiting())
    if only_list:
        for one in waiting:
            why = plain("; ".join(problem.text for problem in one.problems), limit=200)
            click.echo(f"{one.ruling.value:9} {plain(one.task)}  {why}")
        click.echo(f"{len(waiting)} task(s) wait")
        return
    asyncio.run(queue.asked(waiting, bases=dict(map(pair_of, bases))))
    click.echo(f"{len(list(queue.waiting()))} task(s) still wait", err=True)


class _Quit(Exception):
    """Somebody pressed q; never leaves this module."""


class Queue:
    """The open decisions of one admission. Raises Usage for a folder without a report."""

    def __init__(self, place: Path, tasks: Taskset, *, ledger: HealthLedger | None = None) -> None:
        self._place = place
        self._tasks = tasks
        self._ledger = ledger
        try:
            self._admissions = msgspec.json.decode((place / REPORT).read_bytes(), type=list[Admission])
            kept = (place / DECISIONS).read_bytes().splitlines() if (place / DECISIONS).exists() else []
            self._decisions = [msgspec.json.decode(line, type=Decision) for line in kept]
        except OSError as error:
            raise Usage(f"expected an admission at {place}, found no {REPORT}: quintain admit TASKS --out {place}"
                        ) from error
        except msgspec.DecodeError as error:
            raise Usage(f"{place}: expected a report of `quintain admit` and decisions on it, found {error}") from error

    def waiting(self) -> Iterator[Admission]:
        """The tasks on which nobody has decided, in the order of the report: first those that were not admitted, then
        those whose text has two readings. Of another version than the report's there is nothing to say."""
        settled = {(d.task, d.version) for d in self._decisions if d.word is not Word.REFUSED}
        left = [one for one in self._admissions if (one.task, one.version) not in settled and one.task in self._tasks]
        yield from (one for one in left if one.ruling is not Ruling.ADMITTED)
        yield from (one for one in left if one.ruling is Ruling.ADMITTED and any(
            problem.code == TWO_READINGS for problem in one.problems))

    async def asked(self, waiting: Sequence[Admission], *, bases: dict[str, str]) -> None:
        """Ask about each; write what was repaired, also when somebody quits. Raises HouseError."""
        repaired: list[Item] = []
        try:
            async with open_site(sandboxes=default_sandboxes(), bases=bases) as site:
                for one in waiting:
                    item = await self._of(one, site)
                    if item is not None:
                        repaired.append(item)
        except _Quit:
            pass
        if repaired:
            place = self._place / "repaired"
            for line in written(repaired, place):
                click.echo(f"not said in its form: {plain(line)}", err=True)
            click.echo(f"wrote {len(repaired)} repaired task(s) to {place}; try: quintain admit {place}", err=True)

    async def _of(self, one: Admission, site: Site) -> Item | None:
        """The repaired task, if a repair was accepted."""
        for line in lines_of_admission(one):
            click.echo(plain(line, limit=1000), err=True)
        try:
            item = self._tasks[one.task]
        except TaskError as error:
            click.echo(f"  it cannot be read: {plain(str(error))}", err=True)
            return None
        before = item.task.version
        if before != one.version:
            click.echo("  it has changed since: quintain admit looks at it again", err=True)
            return None
        refused = {d.about for d in self._decisions if (d.task, d.version) == (one.task, one.version)}
        for repair in await propose(item, one, site, pins=versions()):
            if repair.text in refused:
                continue
            took = await self._key(f"  {plain(repair.text)}: accept? [y/n/q] ", "ynq") == "y"
            self._keep(one, repair.text, Word.ACCEPTED if took else Word.REFUSED)
            item = applied(repair, item) if took else item
        if item.task.version != before:
            return item
        key = await self._key("  as it is: [a]dmit, [r]eject, [l]ater, [q]uit ", "arlq")
        if key == "a":
            self._keep(one, "", Word.ADMITTED)
            if self._ledger is not None:
                self._ledger.admit([item.task], evidence="admitted as it is by a person", by=getpass.getuser())
        elif key == "r":
            self._keep(one, "", Word.REJECTED)
        return None

    async def _key(self, prompt: str, keys: str) -> str:
        while True:
            click.echo(prompt, nl=False, err=True)
            key = (await asyncio.to_thread(click.getchar)).lower()
            click.echo(key, err=True)
            if key == "q":
                raise _Quit
            if key and key in keys:
                return key

    def _keep(self, one: Admission, about: str, word: Word) -> None:
        decision = Decision(task=one.task, version=one.version, about=about, word=word, by=getpass.getuser(),
                            at_unix_seconds=time.time())
        self._decisions.append(decision)
        with (self._place / DECISIONS).open("ab") as file:
            file.write(msgspec.json.encode(decision) + b"\n")
