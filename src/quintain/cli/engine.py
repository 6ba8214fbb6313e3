"""What keeps the workers of a run: processes on this machine, or an engine that reaches further."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import click
import msgspec

from quintain.cli.addresses import own_name, queue_of, register_of
from quintain.cli.exits import Usage
from quintain.fleet import (
    POD_FOLDER,
    Crew,
    KubernetesAddress,
    Post,
    Queue,
    RayAddress,
    Register,
    Submission,
    Witness,
    submit,
    supervise,
)
from quintain.store import Run

#: Keeps workers at it until it is told to end.
Keep = Callable[[Register, Queue, asyncio.Event], Awaitable[object]]

#: What of our environment workers on other hosts get too, where it is set.
_HANDED_ON = ("OPENAI_API_KEY", "PYTHONPATH")
#: What a placer has to let its hosts end, who let their workers end.
_DRAIN_SECONDS = 90.0


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is played by workers: so many (on each node, where an engine has several), kept by an engine; their
    queue and register lie in the run's folder unless said otherwise."""

    workers: int = 1
    engine: str = "local"
    queue: str | None = None
    register: str | None = None

    def keep(self, run: Run, *, sandboxes: int, kinds: Callable[[], Iterable[str]] = tuple) -> Keep:
        """What keeps them. `kinds` says which kinds of tasks there will be, where an engine asks."""
        if self.engine == "local":
            return self._locally(run, sandboxes=sandboxes)
        if self.engine.startswith("kubernetes:"):
            return self._by_kubernetes(run, sandboxes=sandboxes, kinds=kinds)
        return self._by_ray(run, sandboxes=sandboxes)

    def check(self) -> None:
        """Raises Usage, before anything is begun."""
        if self.engine == "local":
            return
        if self.engine.startswith("kubernetes:"):
            self._check_kubernetes()
            return
        if not self.engine.startswith("ray:"):
            raise Usage("expected --engine local, ray://HOST:PORT, ray:HOST:PORT, ray:auto or kubernetes:RELEASE, "
                        f"found {self.engine!r}")
        if importlib.util.find_spec("ray") is None:
            raise Usage("--engine ray needs the package ray: pip install 'quintain[ray]'")
        try:
            RayAddress.of(self.engine)
        except ValueError as error:
            raise Usage(str(error)) from error

    def _check_kubernetes(self) -> None:
        if importlib.util.find_spec("lightkube") is None:
            raise Usage("--engine kubernetes needs the package lightkube: pip install 'quintain[kubernetes]'")
        if "://" not in (self.queue or "") or "://" not in (self.register or ""):
            raise Usage("workers in pods reach no files of this host: expected --queue nats://… and --register "
                        "postgresql://… with --engine kubernetes")
        try:
            KubernetesAddress.of(self.engine)
        except ValueError as error:
            raise Usage(str(error)) from error

    def _by_kubernetes(self, run: Run, *, sandboxes: int, kinds: Callable[[], Iterable[str]]) -> Keep:
        """Pods of a cluster, `workers` of them, which share the sandboxes."""
        address = KubernetesAddress.of(self.engine)
        addresses = self._addresses(run)
        asked = Submission(
            name=f"quintain-{own_name(run.path)}", workers=self.workers, queue=own_name(run.path),
            words=("worker", POD_FOLDER, "--apart", "--slots", str(-(-sandboxes // self.workers))),
            files={"run.json": (run.path / "run.json").read_text("utf-8"), "journal.jsonl": ""},
            env={**{name: os.environ[name] for name in _HANDED_ON if name in os.environ}, **addresses},
            kinds=tuple(sorted(set(kinds()))) if address.most else (),
        )

        async def keep(register: Register, queue: Queue, told: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise(lambda nth: (), register, queue, told=told, crew=Crew(workers=0),
                                            over=lambda tally: False))
                await submit(address, asked, told=told)

        return keep

    def _locally(self, run: Run, *, sandboxes: int) -> Keep:
        """Processes on this machine, which share the sandboxes. Addresses may hold secrets: they go by the
        environment, which other users cannot read."""
        slots = -(-sandboxes // self.workers)
        env = self._addresses(run)

        def words(nth: int) -> list[str]:
            return [sys.executable, "-m", "quintain", "worker", str(run.path), "--slots", str(slots), "--share",
                    str(self.workers), "--name", f"worker-{nth}"]

        async def keep(register: Register, queue: Queue, told: asyncio.Event) -> None:
            await supervise(words, register, queue, told=told, crew=Crew(workers=self.workers), env=env,
                            over=lambda tally: False)

        return keep

    def _by_ray(self, run: Run, *, sandboxes: int) -> Keep:
        """A placer of its own process, which Ray cannot take with it when the cluster is lost."""
        slots = -(-sandboxes // self.workers)
        definition = run.path / "run.json"
        addresses = self._addresses(run)
        reaches = all("://" in where for where in addresses.values())
        post = Post(
            crew_id=own_name(run.path),
            words=("{python}", "-m", "quintain", "worker", "{folder}", "--apart", "--slots", str(slots),
                   "--share", str(self.workers), "--name", "{name}"),
            files={"run.json": definition.read_bytes(), "journal.jsonl": b""},
            env={**{name: os.environ[name] for name in _HANDED_ON if name in os.environ}, **addresses},
            cwd=os.getcwd(), crew=Crew(workers=self.workers), witness=None if reaches else Witness.of(definition),
        )
        words = [sys.executable, "-m", "quintain.fleet.placing", self.engine]

        async def keep(register: Register, queue: Queue, told: asyncio.Event) -> None:
            await supervise(lambda nth: words, register, queue, told=told, over=lambda tally: False,
                            crew=Crew(workers=1, drain_seconds=_DRAIN_SECONDS),
                            env={"QUINTAIN_POST": msgspec.json.encode(post).decode()})

        return keep

    def _addresses(self, run: Run) -> dict[str, str]:
        path = run.path.resolve()
        return {"QUINTAIN_QUEUE": queue_of(path, self.queue), "QUINTAIN_REGISTER": register_of(path, self.register)}


def by_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that say who plays; the command gets them as `fleet`, `None` where this process does."""

    @functools.wraps(function)
    def fleeted(
        *, workers: int | None, engine: str | None, queue: str | None, register: str | None, **rest: Any,
    ) -> Any:
        fleet = None
        if workers is not None or engine is not None:
            fleet = Fleet(workers=workers or 1, engine=engine or "local", queue=queue, register=register)
            fleet.check()
        elif _said("queue") or _said("register"):
            raise Usage("--queue and --register are for workers: expected --workers N or --engine WHERE with them")
        return function(fleet=fleet, **rest)

    options = (
        click.option("--workers", type=click.IntRange(min=1), metavar="N",
                     help="Play in so many worker processes, which share the sandboxes, and may be killed."),
        click.option("--engine", metavar="WHERE",
                     help="What keeps the workers: local; ray://HOST:PORT, ray:HOST:PORT, ray:auto (so many workers "
                          "and sandboxes on each node; ?cpus=N&resource=NAME); kubernetes:RELEASE (so many pods; "
                          "?namespace=NAME&most=N&monitor=HOST:PORT)."),
        click.option("--queue", metavar="WHERE", envvar="QUINTAIN_QUEUE",
                     help="Of the workers: a file, or nats://[TOKEN@]HOST[:PORT][/NAME]."),
        click.option("--register", metavar="WHERE", envvar="QUINTAIN_REGISTER",
                     help="Of the workers: a file, or postgresql://…[?schema=NAME]."),
    )
    for option in reversed(options):
        fleeted = option(fleeted)
    return fleeted


def _said(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE
