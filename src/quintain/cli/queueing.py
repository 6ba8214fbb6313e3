"""`quintain queue`: look into a queue of jobs, stop and resume kinds of them, and deal with the dead."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from quintain.cli.exits import Failed, Usage
from quintain.cli.output import console, one_line, plain, say_json
from quintain.fleet import Full, Job, Kept, Place, Queue, Stats, open_queue

_T = TypeVar("_T")
_PAGE = 1000


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the jobs that a command changed."""

    jobs: tuple[str, ...]


class Halted(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    stopped: bool


@click.group("queue")
def command() -> None:
    """Look into a queue of jobs, stop and resume kinds of them, and deal with the dead.

    A queue is a file, or a name on a NATS server: nats://[TOKEN@]HOST[:PORT][/NAME]. QUINTAIN_QUEUE says which where
    --queue is not given.

    \b
    Examples:
      quintain queue stats --queue fleet.db
      quintain queue dead --queue nats://localhost:4222
      quintain queue retry --all
      quintain queue stop code
      quintain queue drain --kind code > code.jsonl
    """


def with_queue(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --queue and --json; the command gets `use`, which runs work on the opened queue."""

    @functools.wraps(function)
    def opened(*, queue: str, **rest: Any) -> Any:
        if "://" not in queue and not Path(queue).is_file():
            raise Failed(f"expected the file of a queue, found nothing at {queue}")
        return function(use=functools.partial(_use, queue), **rest)

    with_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(opened)
    return click.option("--queue", metavar="WHERE", envvar="QUINTAIN_QUEUE", default="queue.db", show_default=True,
                        help="A file, or nats://[TOKEN@]HOST[:PORT][/NAME].")(with_json)


Use = Callable[[Callable[[Queue], Awaitable[_T]]], _T]
of_kind = click.option("--kind", help="Only jobs of this kind.")
at_most = click.option("--most", type=click.IntRange(min=1), default=20, show_default=True, help="How many at most.")


def _use(where: str, work: Callable[[Queue], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        try:
            queue = await open_queue(where)
        except ValueError as error:
            raise Usage(str(error)) from error
        try:
            return await work(queue)
        finally:
            await queue.aclose()

    return asyncio.run(run())


@command.command("stats", short_help="How many jobs of each kind wait, are leased, are dead.")
@with_queue
def stats(use: Use[Stats], as_json: bool) -> None:
    """How many jobs of each kind wait, are leased, are dead; and for how long the first of those that wait has.

    \b
    Examples:
      quintain queue stats
      quintain queue stats --queue nats://localhost:4222 --json
    """
    found = use(lambda queue: queue.stats())
    if as_json:
        say_json(found)
        return
    from rich.table import Table

    table = Table("kind", box=None, pad_edge=False)
    for name in ("ready", "delayed", "leased", "dead", "waits since"):
        table.add_column(name, justify="right")
    table.add_column("")
    for kind, line in found.kinds.items():
        count = line.count
        waits = "" if line.oldest_seconds is None else f"{line.oldest_seconds:.0f} s"
        table.add_row(plain(kind), str(count.ready), str(count.delayed), str(count.leased), str(count.dead), waits,
                      "stopped" if line.stopped else "")
    console().print(table if found.kinds else "nothing was ever put here", markup=False)


@command.command("peek", short_help="Look at jobs without touching them.")
@click.option("--place", type=click.Choice([place.value for place in Place]), default=Place.READY.value,
              show_default=True, help="Where they are.")
@of_kind
@at_most
@with_queue
def peek(use: Use[tuple[Kept, ...]], place: str, kind: str | None, most: int, as_json: bool) -> None:
    """Look at the first jobs of a place, in the order in which they are handed out.

    \b
    Examples:
      quintain queue peek --kind code --most 5
      quintain queue peek --place leased --json
    """
    _tell(use(lambda queue: queue.peek(place=Place(place), kind=kind, most=most)), as_json=as_json)


@command.command("dead", short_help="List the jobs that will not be handed out any more, and why.")
@of_kind
@at_most
@with_queue
def dead(use: Use[tuple[Kept, ...]], kind: str | None, most: int, as_json: bool) -> None:
    """List the jobs that were handed out too often, or that a worker gave up, with the reason.

    \b
    Examples:
      quintain queue dead
      quintain queue dead --kind code --json
    """
    _tell(use(lambda queue: queue.peek(place=Place.DEAD, kind=kind, most=most)), as_json=as_json)


@command.command("retry", short_help="Put dead jobs back.")
@click.argument("ids", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="All that are dead (of --kind).")
@of_kind
@with_queue
def retry(use: Use[tuple[str, ...]], ids: Sequence[str], everyone: bool, kind: str | None, as_json: bool) -> None:
    """Put dead jobs back, with all their deliveries before them: those of these IDS, or all.

    \b
    Examples:
      quintain queue retry HumanEval/0#3
      quintain queue retry --all --kind code
    """
    if bool(ids) == everyone or (ids and kind):
        raise Usage("expected ids, or --all (with --kind, if you like)")

    async def work(queue: Queue) -> tuple[str, ...]:
        wanted = list(ids)
        found: tuple[str, ...] = ()
        while not ids and (kept := await queue.peek(place=Place.DEAD, kind=kind, most=_PAGE)):
            found += await queue.revive([one.job.id for one in kept])
        return found + await queue.revive(wanted)

    found = _refused(lambda: use(work))
    _tell_moved(found, "put back", as_json=as_json)
    missing = [id for id in ids if id not in found]
    if missing:
        raise Failed(f"not dead, so not put back: {', '.join(missing)}")


@command.command("drain", short_help="Take out what waits, as JSON lines.")
@of_kind
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False), help="Append to this file (default: stdout).")
@with_queue
def drain(use: Use[int], kind: str | None, into: Path | None, as_json: bool) -> None:
    """Take out the jobs that wait, and write them as JSON lines, which `quintain queue put` puts back. What is leased
    or dead stays; stop the kind first if workers are not to take some meanwhile.

    \b
    Examples:
      quintain queue drain --kind code --into code.jsonl
      quintain queue drain > everything.jsonl
    """
    async def work(queue: Queue) -> int:
        count = 0
        with into.open("ab") if into else nullcontext(sys.stdout.buffer) as file:
            while jobs := await queue.drain(kind=kind, most=_PAGE):
                file.write(b"".join(msgspec.json.encode(job) + b"\n" for job in jobs))
                file.flush()
                count += len(jobs)
        return count

    if as_json and into is None:
        raise Usage("--json tells how many were drained: give --into too, as the jobs themselves go to stdout")
    count = use(work)
    if as_json:
        say_json({"drained": count})
    else:
        click.echo(f"{count} jobs drained", err=True)


@command.command("put", short_help="Put jobs of a file of JSON lines.")
@click.argument("file", type=click.File("rb"))
@click.option("--wait", "wait_seconds", type=click.FloatRange(min=0), default=0.0, show_default=True,
              help="Seconds to wait for room at a kind's bound.")
@with_queue
def put(use: Use[tuple[str, ...]], file: Any, wait_seconds: float, as_json: bool) -> None:
    """Put the jobs of FILE ("-": stdin), as `drain` writes them; those that are kept already are passed over.

    \b
    Examples:
      quintain queue put code.jsonl
      quintain queue put - < everything.jsonl
    """
    jobs: list[Job] = []
    for number, line in enumerate(file, 1):
        try:
            jobs.append(msgspec.json.decode(line, type=Job))
        except (msgspec.MsgspecError, ValueError) as error:
            raise Failed(f"{file.name}:{number}: expected a job as JSON: {error}") from error

    async def work(queue: Queue) -> tuple[str, ...]:
        added: tuple[str, ...] = ()
        for first in range(0, len(jobs), _PAGE):
            added += await queue.put(jobs[first:first + _PAGE], wait_seconds=wait_seconds)
        return added

    _tell_moved(_refused(lambda: use(work)), "put", as_json=as_json)


@command.command("stop", short_help="Hand out no more jobs of a kind.")
@click.argument("kind")
@with_queue
def stop(use: Use[None], kind: str, as_json: bool) -> None:
    """Hand out no more jobs of KIND, within a second and in every process. None is lost, and leases stand.

    \b
    Examples:
      quintain queue stop code
    """
    use(lambda queue: queue.stop(kind))
    _tell_halted(kind, stopped=True, as_json=as_json)


@command.command("resume", short_help="Hand out jobs of a kind again.")
@click.argument("kind")
@with_queue
def resume(use: Use[None], kind: str, as_json: bool) -> None:
    """Hand out jobs of KIND again.

    \b
    Examples:
      quintain queue resume code
    """
    use(lambda queue: queue.resume(kind))
    _tell_halted(kind, stopped=False, as_json=as_json)


def _refused(work: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return work()
    except Full as error:
        raise Failed(str(error)) from error


def _tell(found: Sequence[Kept], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("job", "kind", box=None, pad_edge=False)
    for name in ("priority", "attempt"):
        table.add_column(name, justify="right")
    for name in ("worker", "reason"):
        table.add_column(name)
    for one in found:
        table.add_row(*(Text(plain(cell)) for cell in (
            one.job.id, one.job.kind, str(one.job.priority), str(one.attempt), one.worker, one_line(one.reason))))
    console().print(table if found else "none", markup=False)


def _tell_moved(found: tuple[str, ...], what: str, *, as_json: bool) -> None:
    if as_json:
        say_json(Moved(jobs=found))
    else:
        console().print(f"{len(found)} {'job' if len(found) == 1 else 'jobs'} {what}", markup=False)


def _tell_halted(kind: str, *, stopped: bool, as_json: bool) -> None:
    if as_json:
        say_json(Halted(kind=kind, stopped=stopped))
    else:
        console().print(f"{kind}: {'stopped' if stopped else 'handed out again'}", markup=False)
