"""The one place that knows everybody: it opens tasks, policies and sandboxes by name and joins them to a house."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec

from quintain.cli.exits import HostCannot, Usage
from quintain.tasks import Item, Taskset, known_sets, open_taskset
from quintain.types import HouseError, Message, Opened, Sampled, TaskError, Turn

if TYPE_CHECKING:
    from quintain.env import Environment
    from quintain.policy import Policy
    from quintain.sandbox import Backend, Snapshot, Snapshots

POLICIES = "oracle, null, repair, openai:MODEL, replay:RUN, trained:RUN, or MODULE:ATTRIBUTE"


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tasks of a set, as the command line says it; see `quintain.tasks.open_taskset`."""

    data: str | None = None
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    shuffle: int | None = None
    take: int | None = None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a model answers, and how it is asked. The key is never here: it stays in the environment."""

    base_url: str | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


def default_sandboxes() -> int:
    """Two for each CPU that we may use: one computes while the other starts."""
    return 2 * len(os.sched_getaffinity(0))


def open_tasks(spec: str, choice: Choice) -> Taskset:
    """The taskset that the command line names. Raises Usage when there is none."""
    data = Path(choice.data) if choice.data else None
    try:
        return open_taskset(
            spec, data=data, include=choice.include, exclude=choice.exclude, shuffle=choice.shuffle, take=choice.take,
        )
    except TaskError as error:
        raise Usage(str(error)) from error


def pinned(spec: str) -> str:
    """The same tasks or policy, whatever folder the run is resumed from: a path in it becomes absolute."""
    head, question, query = spec.partition("?")
    kind, colon, tail = head.partition(":")
    if head not in known_sets() and Path(head).exists():
        head = str(Path(head).resolve())
    elif colon and Path(tail).exists():
        head = f"{kind}:{Path(tail).resolve()}"
    return head + question + query


class Skipped:
    """The tasks of a set that can be asked, and a note of those that cannot."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def readable(self, tasks: Taskset) -> Iterator[Item]:
        """Each task in turn; one that is refused is noted in `found` and passed over."""
        for id in tasks.ids:
            try:
                item = tasks[id]
            except TaskError as error:
                self.found.append(f"{id}: {error}")
            else:
                yield item


def cache_folder() -> Path:
    """Where what can be made again is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quintain"


@asynccontextmanager
async def open_house(
    backend: Backend, *, bases: Mapping[str, str] | None = None, meter: Callable[[Backend], Backend] = lambda b: b,
    keep_in: Path | None = None,
) -> AsyncIterator[Environment]:
    """Where work of every kind is run and judged, in sandboxes of this backend; closes the backend too. All detectors
    look at code, ours and those that installed packages offer. `bases`: see `quintain.grade.World`; `meter` may put
    what counts sandboxes before the backend. `keep_in` is a run folder that keeps what each step stood on (a shell's
    files after each command, and what is installed). Verdicts that a sick verifier gave are named on stderr at the
    end."""
    from quintain.env import (
        ByKind,
        CodeEnvironment,
        DocsEnvironment,
        MathEnvironment,
        OpsEnvironment,
        PerfEnvironment,
        ServiceEnvironment,
        ShellEnvironment,
        TestWritingEnvironment,
    )
    from quintain.grade import Health, Oracle
    from quintain.guard import open_detectors

    images = images_backend(backend)
    try:
        seen = meter(backend)
        seen_images = seen if images is backend else meter(images)
        oracle = Oracle(seen)
        health = Health(oracle)
        environment = ByKind([
            CodeEnvironment(seen, oracle=oracle, health=health, detectors=open_detectors()),
            DocsEnvironment(seen, oracle=oracle),
            MathEnvironment(seen),
            PerfEnvironment(seen, oracle=oracle),
            ServiceEnvironment(seen, oracle=oracle),
            TestWritingEnvironment(seen, oracle=oracle),
            *(kind(cast("Snapshots", seen_images), cache=cache_folder(), bases=bases,
                   keep=None if keep_in is None else _keeper(keep_in)) for kind in (ShellEnvironment, OpsEnvironment)),
        ])
        try:
            yield environment if keep_in is None else _noting(environment, keep_in, images, bases)
            for void in await health.settle():
                click.echo(f"void, not to be trained on: {', '.join(void.names)} ({void.fault.message})", err=True)
        finally:
            await environment.aclose()
    finally:
        if images is not backend:
            await images.aclose()
        await backend.aclose()


def _keeper(run: Path) -> Callable[[Snapshot], str]:
    from quintain.store import LocalBlobs

    blobs = LocalBlobs(run / "blobs")
    return lambda snapshot: blobs.put(snapshot.encode())


def _noting(environment: Environment, run: Path, images: Snapshots, bases: Mapping[str, str] | None) -> Environment:
    from quintain.env import TerminalWorld
    from quintain.replay import Noting, survey

    world = TerminalWorld(images, cache=cache_folder(), bases=bases)
    return Noting(environment, run, lambda image: survey(images, image), world.image)


def images_backend(backend: Backend) -> Snapshots:
    """For tasks that bring their image along: of ours one without warm interpreters, which are the host's own; any
    other as it is (where it keeps no files, such tasks are refused as they come). It starts nothing before its use."""
    from quintain.sandbox import NativeBackend

    return NativeBackend() if isinstance(backend, NativeBackend) else cast("Snapshots", backend)


def open_backend(name: str) -> Backend:
    """A backend by its name, that works on this host: ours, or one that an installed package offers in the entry-point
    group `quintain.sandbox`. Raises Usage for an unknown name, HostCannot where it cannot work."""
    from quintain.grade import warm_oracle
    from quintain.sandbox import (
        AgentSandboxBackend,
        BubblewrapBackend,
        ContainerBackend,
        GvisorBackend,
        NativeBackend,
    )

    own: dict[str, Callable[[], Backend]] = {
        "native": lambda: NativeBackend(warm=warm_oracle()),
        "bubblewrap": BubblewrapBackend, "gvisor": GvisorBackend, "container": ContainerBackend,
        "agent-sandbox": AgentSandboxBackend.from_environment,
    }
    offered = {point.name: point for point in entry_points(group="quintain.sandbox")}
    if name not in own and name not in offered:
        raise Usage(f"no backend is called {name!r}; known are {', '.join(sorted({*own, *offered}))}")
    backend: Backend = own[name]() if name in own else offered[name].load()()
    found = backend.probe()
    if not found.available:
        missing = "".join(f"\n  {layer}: {remedy}" for layer, remedy in found.missing.items())
        raise HostCannot(f"the backend {name!r} does not work on this host; try `quintain doctor`{missing}")
    return backend


def open_policy(name: str, tasks: Taskset, endpoint: Endpoint, *, connections: int = 64) -> Policy:
    """A policy by its short name, by an entry point of the group `quintain.policy`, or by a dotted path.

    Raises Usage for a name that means nothing, naming those that do. What a policy says of a task is made when it is
    asked, so a task without an answer breaks its own episode only.
    """
    from quintain.cli.answers import null_reply, oracle_reply

    head, colon, tail = name.partition(":")
    match head:
        case "oracle" if not colon:
            return _answering("oracle", tasks, oracle_reply)
        case "null" if not colon:
            return _answering("null", tasks, null_reply)
        case "repair" if not colon:
            return Repairing(tasks)
        case "openai":
            return _openai(tail, endpoint, connections)
        case "replay" if tail:
            return _replayed(Path(tail))
        case "trained" if tail:
            return _trained(Path(tail), tasks)
    offered = {point.name: point for point in entry_points(group="quintain.policy")}
    if name in offered:
        return _policy_of(offered[name].load(), name)
    if colon and head and tail:
        return _imported(head, tail)
    raise Usage(f"no policy is called {name!r}; known are {', '.join([POLICIES, *sorted(offered)])}")


def _answering(name: str, tasks: Taskset, tell: Callable[[Item], str]) -> Policy:
    """Says its one answer, and gives up when that was not enough: it has no other."""
    from quintain.policy import FunctionPolicy, turn_of

    def answer(conversation: Sequence[Message], task: str, seed: int) -> str:
        return "" if turn_of(conversation) else tell(tasks[task])

    return FunctionPolicy(answer, name=name)


class Repairing:
    """The repairing policy over a taskset: the drafts of a task are made when it is asked, so nothing is held."""

    name = "repair"

    def __init__(self, tasks: Taskset) -> None:
        self._tasks = tasks

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        from quintain.cli.answers import repairs
        from quintain.policy import RepairingPolicy

        policy = RepairingPolicy({task: repairs(self._tasks[task])})
        return await policy.act(conversation, task=task, seed=seed)

    async def aclose(self) -> None:
        """Holds nothing."""


def _openai(model: str, endpoint: Endpoint, connections: int) -> Policy:
    from quintain.policy import OpenAIPolicy, Sampling

    model = model or endpoint.model or ""
    if not model or not endpoint.base_url:
        raise Usage("expected --policy openai:MODEL --base-url URL, as in --base-url http://localhost:8000/v1")
    sampling = Sampling(temperature=endpoint.temperature, max_tokens=endpoint.max_tokens)
    if not endpoint.base_url.startswith(("http://", "https://")):
        raise Usage(f"expected --base-url http://… or https://…, found {endpoint.base_url!r}")
    return OpenAIPolicy(model, endpoint.base_url, sampling=sampling, connections=connections)


def _replayed(path: Path) -> Policy:
    from quintain.policy import ReplayedPolicy
    from quintain.store import Run, last_attempt

    turns: dict[tuple[str, int], Sequence[Turn]] = {}
    any_seed: dict[str, Sequence[Turn]] = {}
    with Run.open(path) as run:
        for episode in run.journal.episodes():
            log = last_attempt(tuple(run.journal.read(episode)))
            opened = log[0]
            if isinstance(opened, Opened):
                said = tuple(event.turn for event in log if isinstance(event, Sampled))
                turns[opened.task, opened.seed] = said
                any_seed.setdefault(opened.task, said)
    return ReplayedPolicy(turns, any_seed=any_seed, name=f"replay:{path.name}")


def _trained(path: Path, tasks: Taskset) -> Policy:
    """What `quintain train` made. Raises Usage for a folder that holds no training, HostCannot without torch."""
    from quintain.cli.training import need_torch
    from quintain.train import TrainedRepairer

    need_torch()
    try:
        return TrainedRepairer(path, lambda id: tasks[id].task)
    except HouseError as error:
        raise Usage(str(error)) from error


def _imported(module: str, attribute: str) -> Policy:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` has it: a policy may lie in the folder where one works
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Usage(f"policy {module}:{attribute} cannot be imported: {error}; known are {POLICIES}") from error
    return _policy_of(found, f"{module}:{attribute}")


def _policy_of(found: object, name: str) -> Policy:
    """A policy as such, or what a class or function without arguments makes."""
    made = found if not isinstance(found, type) and hasattr(found, "act") else found() if callable(found) else found
    for part in ("act", "aclose", "name"):
        if not hasattr(made, part):
            raise Usage(f"policy {name} must have name, act and aclose (quintain.policy.Policy), found {made!r}")
    policy: Policy = made  # type: ignore[assignment]
    return policy
