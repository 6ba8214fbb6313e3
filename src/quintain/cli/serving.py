"""`quintain serve`: runs, tasks and sandboxes over HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain import __version__
from quintain.cli.exits import HostCannot, Usage
from quintain.cli.wire import Choice, Endpoint, default_sandboxes, images_backend, open_backend, open_tasks, pinned
from quintain.store import Definition
from quintain.tasks import Taskset, known_sets
from quintain.types import MEBIBYTE, Network, Task, TaskError, content_digest

if TYPE_CHECKING:
    from quintain.serve import Home, Offer, RunAsked, TasksetView

#: The most that a task may ask for that a tenant hands in.
_MEMORY_BYTES, _DISK_BYTES, _WALL_SECONDS, _PROCESSES = 4096 * MEBIBYTE, 2048 * MEBIBYTE, 3600.0, 1024
_POLICIES = ("oracle", "null", "repair")


@click.command("serve")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="served")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8420, show_default=True, help="0 takes a free one.")
@click.option("--tasks", multiple=True, metavar="NAME[=SPEC]", help="A taskset that runs may name (repeatable) "
              "[default: the sets that have a name, as far as they are on this machine].")
@click.option("--policy", "-p", "policies", multiple=True, metavar="P", help="A policy that runs may name, as for "
              "quintain run (repeatable) [default: oracle, null, repair].")
@click.option("--base-url", metavar="URL", help="Of the endpoint that openai:MODEL asks; the key is OPENAI_API_KEY.")
@click.option("--backend", default="native", show_default=True, help="What makes the sandboxes.")
@click.option("--runs", type=click.IntRange(min=1), default=2, show_default=True, help="Runs played at a time.")
@click.option("--sandboxes", type=click.IntRange(min=0), default=8 * default_sandboxes(), show_default=True,
              help="Sandboxes that can be held at a time, of all tenants together.")
@click.option("--drain", type=click.IntRange(min=1), default=30, show_default=True, metavar="SECONDS",
              help="How long what is played has to end, on SIGTERM.")
def command(
    folder: Path, host: str, port: int, tasks: tuple[str, ...], policies: tuple[str, ...], base_url: str | None,
    backend: str, runs: int, sandboxes: int, drain: int,
) -> None:
    """Serve runs, tasks and sandboxes over HTTP; everything is kept in FOLDER.

    Without keys it serves programs of this machine only. With keys (quintain keys create TENANT) each tenant has its
    own runs, tasks, ledger and quota, and it may listen on other addresses. /openapi.json describes it. SIGTERM ends
    it: runs that are played go on with the next server.

    \b
    Examples:
      quintain serve
      quintain serve served --host 0.0.0.0 -p oracle -p openai:MODEL --base-url http://localhost:8000/v1
    """
    try:
        from quintain.serve import KeyRing
    except ImportError as error:
        raise HostCannot(f"expected the extra serve, found no {error.name}: pip install 'quintain[serve]'") from None
    if not _is_loopback(host) and not KeyRing(folder / "keys.json").keys:
        raise Usage(f"--host {host} can be reached from elsewhere, and {folder} has no keys: make one first with "
                    f"quintain keys create TENANT --folder {folder}")
    player = Playing(
        dict(_named(one) for one in tasks) or {name: name for name in known_sets()}, policies or _POLICIES,
        base_url=base_url, backend=backend)
    asyncio.run(_serve(folder.resolve(), player, host=host, port=port, runs=runs, sandboxes=sandboxes, drain=drain))


async def _serve(
    folder: Path, player: Playing, *, host: str, port: int, runs: int, sandboxes: int, drain: int,
) -> None:
    from quintain.serve import Api, listening

    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    made = open_backend(player.backend)
    backend = images_backend(made)
    api = Api(folder, player, backend, local=_is_loopback(host), runs_at_once=runs, sandboxes=sandboxes,
              drain_seconds=float(drain))
    try:
        async with api.open(), listening(
            api.app, host=host, port=port, most_at_once=None, protocol=api.doorkeeper.protocol(),
        ) as url:
            click.echo(f"serving {url} (the document: {url}/openapi.json)", err=True)
            await told.wait()
            click.echo("draining: runs that are played go on with the next server", err=True)
            api.drain()
    finally:
        await backend.aclose()
        if made is not backend:
            await made.aclose()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _named(text: str) -> tuple[str, str]:
    name, equals, spec = text.partition("=")
    return name, pinned(spec if equals else name)


class Playing:
    """What tenants may have played: tasksets by the names they are offered under, and policies."""

    def __init__(
        self, tasksets: dict[str, str], policies: Sequence[str], *, base_url: str | None, backend: str,
    ) -> None:
        self._tasksets = tasksets
        self._policies = tuple(policies)
        self._base_url = base_url
        self.backend = backend
        for policy in self._policies:
            if policy.startswith("openai:") and not base_url:
                raise Usage(f"--policy {policy} needs --base-url, as in --base-url http://localhost:8000/v1")

    def offer(self) -> Offer:
        from quintain.serve import Offer, TasksetView

        return Offer(tasksets=tuple(TasksetView(name=name) for name in self._tasksets), policies=self._policies)

    def define(self, asked: RunAsked, home: Home) -> Definition:
        from quintain.serve import Refusal

        if asked.policy not in self._policies:
            raise Refusal(422, "no_policy", expected=f"one of {', '.join(self._policies)}", found=asked.policy,
                          where="body.policy")
        head, colon, name = asked.taskset.partition(":")
        if head == "my" and colon:
            spec = str(home.taskset(name))
        elif asked.taskset in self._tasksets:
            spec = self._tasksets[asked.taskset]
        else:
            raise Refusal(422, "no_taskset", expected=f"one of {', '.join(self._tasksets)}, or my:NAME",
                          found=asked.taskset, where="body.taskset")
        choice = Choice(include=asked.include, exclude=asked.exclude, shuffle=asked.shuffle, take=asked.take)
        endpoint = Endpoint(base_url=self._base_url, temperature=asked.temperature, max_tokens=asked.max_tokens)
        return Definition(
            taskset=spec, policy=asked.policy, size=asked.size, seed=asked.seed, sandboxes=asked.sandboxes,
            backend=self.backend, taskset_digest=content_digest(_chosen(spec, choice).ids), code_version=__version__,
            options={
                "choice": msgspec.json.encode(choice).decode(), "endpoint": msgspec.json.encode(endpoint).decode(),
                "health": str(home.ledger),
            },
        )

    def look(self, folder: Path) -> TasksetView:
        from quintain.serve import Refusal, TasksetView

        tasks, count, refused = _chosen(str(folder), Choice()), 0, []
        for id in tasks.ids:
            try:
                task = tasks[id].task
            except TaskError as error:
                refused.append(f"{id}: {error}".replace(str(folder), folder.name))
                continue
            if trouble := _beyond(task):
                raise Refusal(422, "task_beyond", expected=trouble[0], found=f"{trouble[1]} in {id}",
                              where="body.files")
            count += 1
        if not count:
            raise Refusal(422, "no_tasks", expected="at least one task that can be asked",
                          found="; ".join(refused) or "none", where="body.files")
        return TasksetView(name=f"my:{folder.name}", tasks=count, refused=tuple(refused[:100]))

    def command(self, run: Path) -> Sequence[str]:
        return (sys.executable, "-m", "quintain", "run", "--resume", str(run), "--json")


def _chosen(spec: str, choice: Choice) -> Taskset:
    from quintain.serve import Refusal

    try:
        chosen = open_tasks(spec, choice)
    except Usage as error:
        found = str(error.message).replace(spec, Path(spec).name)
        raise Refusal(422, "no_taskset", expected="a taskset that is there", found=found, where="body") from None
    if not chosen.ids:
        raise Refusal(422, "no_tasks", expected="a choice of at least one task", found="none", where="body")
    return chosen


def _beyond(task: Task) -> tuple[str, str] | None:
    """What a task of a tenant asks for that it may not have: (expected, found)."""
    if task.image != "host":
        return "the image host", task.image
    if task.network is not Network.NONE:
        return "the network none", task.network.value
    for limits in (task.limits.episode, task.limits.turn, task.limits.command):
        for name, most in (("memory_bytes", _MEMORY_BYTES), ("disk_bytes", _DISK_BYTES),
                           ("processes", _PROCESSES), ("wall_seconds", _WALL_SECONDS)):
            if getattr(limits, name) > most:
                return f"{name} of at most {most:g}", f"{getattr(limits, name):g}"
    return None
