"""The watch of a run, joined to what it watches: the queue, the sandboxes, the collector, the workers, the health."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from quintain.cli.exits import Usage
from quintain.cli.metered import MeteredBackend, Sandboxes
from quintain.curate import HealthLedger
from quintain.fleet import Guard, Job, Lease, Line, Order, Queue
from quintain.rollout import Clearance
from quintain.sandbox import Backend
from quintain.store import Run
from quintain.tasks import Item, Taskset
from quintain.types import Event, HouseError, TaskError
from quintain.watch import (
    CONTENT_TYPE,
    BreakerState,
    EpisodeMeters,
    Gate,
    Heart,
    Hold,
    HostMeters,
    Meters,
    Notifier,
    Rules,
    Scope,
    Watch,
    default_rules,
    exposition,
    folder_of,
    logging_to,
    read_rules,
)

#: What `by_watch` adds.
WATCH_OPTIONS = ("watch", "metrics", "alerts")
#: What is read before each look of a watch.
Source = Callable[[Meters], Awaitable[None]]
#: How often a worker lets others know how it is; after a crash at once.
BEAT_SECONDS = 1.0


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of the watch. `port` 0 takes a free one."""

    is_on: bool = True
    port: int | None = None
    rules: Path | None = None

    def read(self) -> Rules:
        """Raises Usage for a rule file that cannot be, before anything is begun."""
        return rules_of(self.rules)

    def check(self) -> None:
        if self.port is not None and importlib.util.find_spec("uvicorn") is None:
            raise Usage("--metrics needs the packages starlette and uvicorn: pip install 'quintain[serve]'")
        if not self.is_on and (self.port is not None or self.rules is not None):
            raise Usage("--no-watch sees nothing: it cannot be given with --metrics or --alerts")
        if self.is_on:
            self.read()


class Eyes(NamedTuple):
    """A watch, and the count of sandboxes that it shows."""

    watch: Watch
    sandboxes: Sandboxes


def rules_of(path: Path | None) -> Rules:
    """The shipped rules, with those of a file over them. Raises Usage."""
    if path is None:
        return default_rules()
    try:
        return default_rules().plus(read_rules(path.read_text("utf-8"), file=str(path)))
    except (TaskError, UnicodeDecodeError) as error:
        raise Usage(f"--alerts: {error}") from error


def by_watch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of the watch; the command gets them as `watching`."""

    @functools.wraps(function)
    def watched(*, watch: bool, metrics: int | None, alerts: Path | None, **rest: Any) -> Any:
        watching = Watching(is_on=watch, port=metrics, rules=alerts)
        watching.check()
        return function(watching=watching, **rest)

    options = (
        click.option("--metrics", type=click.IntRange(0, 65535), metavar="PORT",
                     help="Serve /metrics for Prometheus on this port of 127.0.0.1 (0: a free one)."),
        click.option("--alerts", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
                     help="Alert rules over the shipped ones: see `quintain alerts`."),
        click.option("--watch/--no-watch", default=True, show_default=True,
                     help="Meter the run, evaluate alerts, and stop kinds of tasks that crash."),
    )
    for option in reversed(options):
        watched = option(watched)
    return watched


@asynccontextmanager
async def watched(
    run: Run, tasks: Taskset, watching: Watching, *, health: Path | None = None,
) -> AsyncIterator[Eyes | None]:
    """The watch of a run while the block lasts; `None` where nobody is to watch. Raises Usage for a receiver without
    an address, OSError for a port that is taken."""
    sources = [_health_source(health)] if health is not None else []
    async with watched_folder(run.path, watching, image_of=_image_of(tasks), sources=sources) as eyes:
        yield eyes


@asynccontextmanager
async def watched_folder(
    path: Path, watching: Watching, *, image_of: Callable[[str], str] = lambda task: "", sources: Sequence[Source] = (),
) -> AsyncIterator[Eyes | None]:
    """The same for any folder: a run, or a training."""
    if not watching.is_on:
        yield None
        return
    name = _name_of(path)
    rules, meters = watching.read(), Meters()
    try:
        notifier = Notifier(rules.receivers, run=name)
    except ValueError as error:
        raise Usage(str(error)) from error
    folder = folder_of(path)
    with logging_to(folder / "log.jsonl", meters=meters, run=name):
        sandboxes = Sandboxes(meters)
        watch = Watch(folder, name, rules, meters=meters, notifier=notifier, image_of=image_of,
                      sources=[*sources, sandboxes.show])
        async with asyncio.TaskGroup() as group, _listener(watching.port, watch.text):
            going = [group.create_task(watch.keep_looking()), group.create_task(notifier.deliver())]
            try:
                yield Eyes(watch, sandboxes)
            finally:
                going[0].cancel()
                await watch.close()
                going[1].cancel()


def _name_of(path: Path) -> str:
    return path.resolve().name


@asynccontextmanager
async def _listener(port: int | None, text: Callable[[], str]) -> AsyncIterator[None]:
    if port is None:
        yield
        return
    from quintain.serve import listening, metrics_app

    async with listening(metrics_app(text, content_type=CONTENT_TYPE), port=port, most_at_once=32,
                         grace_seconds=1) as url:
        click.echo(f"metrics: {url}/metrics", err=True)
        yield


def metering(eyes: Eyes | None) -> Callable[[Backend], Backend]:
    """What makes of a backend the same, with its sandboxes counted."""
    if eyes is None:
        return lambda backend: backend
    return lambda backend: MeteredBackend(backend, eyes.sandboxes)


def clears(eyes: Eyes | None) -> Callable[[Item], Clearance]:
    """For a collector: what the gate says of an item. What a breaker has stopped is played last; what an alert or a
    person has stopped waits."""
    if eyes is None:
        return lambda item: Clearance.GO
    gate, run = eyes.watch.gate, eyes.watch.run
    order = (Clearance.GO, Clearance.FEW, Clearance.LAST, Clearance.WAIT)

    def of(hold: Hold | None) -> Clearance:
        if hold is None:
            return Clearance.GO
        if hold.by != "breaker":
            return Clearance.WAIT
        return Clearance.FEW if hold.is_probed else Clearance.LAST

    def clear(item: Item) -> Clearance:
        holds = (gate.hold(Scope.RUN, run), gate.hold(Scope.KIND, item.task.kind),
                 gate.hold(Scope.IMAGE, item.task.image))
        return max((of(hold) for hold in holds), key=order.index)

    return clear


def guard_of(gate: Gate, run: str) -> Guard:
    """For a queue: stops the kinds that the gate stops. A kind that is probed is handed out, and each worker takes no
    more of it than the probes: what counts as out here may be the leases of dead workers, which last while it is
    stopped. When nothing else is to be done, what a breaker has stopped is probed at once."""
    lines: dict[str, Line] = {}

    def is_idle(kind: str) -> bool:
        return all(not (line.count.ready or line.count.delayed or line.count.leased)
                   for other, line in lines.items() if other != kind)

    def guard(kind: str, line: Line) -> str:
        lines[kind] = line
        whole, hold = gate.hold(Scope.RUN, run), gate.hold(Scope.KIND, kind)
        if whole is not None:
            return str(whole)
        if hold is not None and hold.by == "breaker" and not hold.is_probed and is_idle(kind):
            gate.probe_now(Scope.KIND, kind)
            hold = gate.hold(Scope.KIND, kind)
        if hold is None or hold.is_probed:
            return ""
        return str(hold)

    return guard


async def _queue_numbers(queue: Queue, meters: Meters) -> None:
    stats = await queue.stats()
    for metric in ("quintain_queue_jobs", "quintain_queue_oldest_seconds", "quintain_queue_stopped"):
        meters.clear(metric)
    for kind, line in stats.kinds.items():
        for place in ("ready", "delayed", "leased", "dead"):
            meters.set("quintain_queue_jobs", getattr(line.count, place), kind=kind, place=place)
        meters.set("quintain_queue_oldest_seconds", line.oldest_seconds or 0.0, kind=kind)
        meters.set("quintain_queue_stopped", float(line.stopped), kind=kind)


def queue_source(queue: Queue) -> Callable[[Meters], Any]:
    return functools.partial(_queue_numbers, queue)


def _health_source(path: Path) -> Callable[[Meters], Any]:
    ledger: list[HealthLedger] = []

    async def read(meters: Meters) -> None:
        if not ledger:
            ledger.append(HealthLedger(path))
        ledger[0].refresh()
        meters.clear("quintain_tasks")
        for state, count in Counter(one.state.value for one in ledger[0].standings.values()).items():
            meters.set("quintain_tasks", count, state=state)

    return read


def _image_of(tasks: Taskset) -> Callable[[str], str]:
    @functools.lru_cache(maxsize=4096)
    def image(task: str) -> str:
        try:
            return tasks[task].task.image
        except (TaskError, KeyError):
            return ""

    return image


class RunSentry:
    """A worker's: it asks the gate of the run's folder, meters what is played, and lets the run know by beats."""

    def __init__(self, folder: Path, name: str, host: str, tasks: Taskset, run: str) -> None:
        self.meters = Meters()
        self._gate = Gate(folder / "gate.json")
        self._heart = Heart(folder, name, self.meters)
        self._host_meters = HostMeters(self.meters, folder)
        # what others count from the run's journal is metered apart, and not sent
        self._apart = Meters()
        self._episodes = EpisodeMeters(self._apart)
        self._name, self._host, self._run = name, host, run
        self._image_of = _image_of(tasks)
        self._out: dict[str, tuple[Scope, str]] = {}
        self._due = asyncio.Event()
        self._sandboxes = Sandboxes(self.meters)

    def rests(self) -> str:
        for scope, key in ((Scope.RUN, self._run), (Scope.WORKER, self._name), (Scope.HOST, self._host)):
            hold = self._gate.hold(scope, key)
            if hold is not None and not self._may_probe(hold):
                return str(hold)
        return ""

    def yields(self, lease: Lease[Job]) -> str:
        for scope, key in self._about(lease):
            hold = self._gate.hold(scope, key)
            if hold is not None and not self._may_probe(hold):
                return str(hold)
        return ""

    def began(self, lease: Lease[Job]) -> None:
        self.meters.add("quintain_queue_deliveries_total", kind=lease.kind)
        if lease.attempt > 1:
            self.meters.add("quintain_queue_redeliveries_total", kind=lease.kind)
        places = ((Scope.WORKER, self._name), (Scope.HOST, self._host))
        for scope, key in (*self._about(lease), *places):
            if self._gate.hold(scope, key) is not None:
                self._out[lease.id] = (scope, key)

    def saw(self, event: Event) -> None:
        result = self._episodes.feed(event)
        if result is not None and result.crashed is not None:
            self._heart.saw(result)
            if result.crashed:
                self._due.set()

    def ended(self, lease: Lease[Job]) -> None:
        self._out.pop(lease.id, None)

    def metered(self, backend: Backend) -> Backend:
        return MeteredBackend(backend, self._sandboxes)

    async def keep_beating(self) -> None:
        """For ever."""
        while True:
            await self._sandboxes.show()
            self._host_meters.read()
            self._beat()
            self._due.clear()
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._due.wait()
                await asyncio.sleep(0.05)  # several crashes in a row are one beat
            except TimeoutError:
                pass

    def leave(self) -> None:
        self._beat(left=True)

    def text(self) -> str:
        """For this worker's own /metrics: with the episodes that it played."""
        both = Meters()
        both.take(self.meters.snapshot())
        both.take(self._apart.snapshot())
        return exposition(both.snapshot())

    def _beat(self, *, left: bool = False) -> None:
        try:
            self._heart.beat(left=left)
        except HouseError as error:
            click.echo(f"{time.strftime('%H:%M:%S')} {error}", err=True)

    def _about(self, lease: Lease[Job]) -> list[tuple[Scope, str]]:
        about = [(Scope.KIND, lease.kind)]
        try:
            image = self._image_of(msgspec.json.decode(lease.body.body, type=Order).task)
        except msgspec.MsgspecError:
            return about  # whoever plays it says what is wrong with it
        return [*about, (Scope.IMAGE, image)] if image else about

    def _may_probe(self, hold: Hold) -> bool:
        out = sum(about == (hold.scope, hold.key) for about in self._out.values())
        return hold.state is BreakerState.HALF_OPEN and out < hold.probes


@asynccontextmanager
async def sentry_of(
    run: Path, name: str, host: str, tasks: Taskset, *, run_name: str, port: int | None,
) -> AsyncIterator[RunSentry]:
    """The sentry of a worker of a run whose folder it shares with the others."""
    sentry = RunSentry(folder_of(run), name, host, tasks, run_name)
    async with asyncio.TaskGroup() as group, _listener(port, sentry.text):
        beating = group.create_task(sentry.keep_beating())
        try:
            yield sentry
        finally:
            beating.cancel()
            sentry.leave()
