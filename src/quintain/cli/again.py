"""Where the episodes of a run are played again: its run, its tasks, and an environment like the one it had."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from quintain.cli.exits import Usage
from quintain.cli.wire import Choice, Endpoint, cache_folder, images_backend, open_backend, open_policy, open_tasks
from quintain.replay import Known, Replayer, Salvaged, Surroundings, noted, salvage, snapshots_of, survey
from quintain.store import LocalBlobs, find_run, list_runs
from quintain.types import Event, HouseError, Opened, TaskError, content_digest

if TYPE_CHECKING:
    from quintain.env import ByKind
    from quintain.grade import Scalar
    from quintain.sandbox import Backend, Snapshot, Snapshots
    from quintain.tasks import Item

T = TypeVar("T")


class Found(NamedTuple):
    """An episode of a run, read as far as it can be."""

    run: Path
    salvaged: Salvaged
    episode: str
    log: tuple[Event, ...]


def find_episode(runs: Path, run: str | None, episode: str) -> Found:
    """The episode that a word means (its id, its beginning, its task's id) in a run, or in the newest that has one.
    Raises Usage."""
    try:
        paths = [find_run(runs, run)] if run is not None else list(reversed(list_runs(runs)))
    except HouseError as error:
        raise Usage(error.message) from error
    for path in paths:
        read = salvage(path)
        for known in (episode, *(id for id, log in read.logs.items() if _task(log) == episode)):
            if known in read.logs:
                return Found(path, read, known, read.logs[known])
        begun = [id for id in read.logs if id.startswith(episode)]
        if len(begun) > 1:
            raise Usage(f"{episode!r} means several episodes of run {path.name}: {', '.join(begun[:5])} …")
        if begun:
            return Found(path, read, begun[0], read.logs[begun[0]])
        if run is not None and read.problems:
            raise Usage(f"run {path.name} has no readable episode {episode!r}; {'; '.join(read.problems[:3])}")
    where = f"run {run!r}" if run is not None else f"the {len(paths)} runs of {runs}"
    raise Usage(f"expected the id of an episode, its beginning or its task's id in {where}, found {episode!r}")


def _task(log: tuple[Event, ...]) -> str:
    return log[0].task if log and isinstance(log[0], Opened) else ""


def item_of(read: Salvaged, log: tuple[Event, ...], *, tasks: str | None, data: str | None) -> Item:
    """The task of a log, from the run's own set or another. Raises Usage."""
    task = _task(log)
    if tasks is None and read.definition is None:
        raise Usage(f"run.json cannot be read: say which set has the task {task}: --tasks SET")
    asked = read.definition.options.get("choice", "{}") if read.definition and tasks is None else "{}"
    choice = _option(asked, "choice", Choice)
    if data is not None:
        choice = msgspec.structs.replace(choice, data=data)
    spec = tasks or (read.definition.taskset if read.definition else "")
    found = open_tasks(spec, choice)
    try:
        return found[task]
    except (KeyError, TaskError) as error:
        raise Usage(f"{spec} has no readable task {task!r} any more: {error}") from error


def _option(text: str, name: str, kind: type[T]) -> T:
    """One of the options that run.json holds. Raises Usage where it is not what a run keeps there."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise Usage(f"run.json: expected the {name} of a run in its options, found {text[:80]!r}: {error}") from error


class Again(NamedTuple):
    """An environment like that of a run, and a replayer in it."""

    environment: ByKind
    replayer: Replayer


@asynccontextmanager
async def open_again(
    found: Found, item: Item, *, bases: Mapping[str, str], backend: str | None = None, ask: bool = False,
    repeats: int = 3, shell: bool = False, scalar: Scalar | None = None,
) -> AsyncIterator[Again]:
    """The house of a run, opened once more: the same kind of backend unless another is named, the same images, and
    files kept after each command where the record keeps them. With `ask` its policy is asked again. `shell` opens
    sandboxes with terminals. Raises Usage, HostCannot."""
    from quintain.env import ByKind, CodeEnvironment, ShellEnvironment
    from quintain.grade import Oracle, lexicographic
    from quintain.guard import open_detectors

    definition = found.salvaged.definition
    name = backend or (definition.backend if definition else "native")
    asked = definition.options if definition else {}
    own = _option(asked.get("bases", "{}"), "bases", dict[str, str])
    kept: dict[str, Snapshot] = {}
    in_run = snapshots_of(LocalBlobs(found.run / "blobs").get)

    def keep(snapshot: Snapshot) -> str:
        digest = content_digest(snapshot.digest)
        kept[digest] = snapshot
        return digest

    async with AsyncExitStack() as stack:
        main, images = _backends(name, shell=shell)
        for one in dict.fromkeys((main, images)):
            stack.push_async_callback(one.aclose)
        keeps = any(getattr(event, "files", None) for event in found.log)
        environment = ByKind([
            CodeEnvironment(main, oracle=Oracle(main), scalar=scalar or lexicographic, detectors=open_detectors()),
            ShellEnvironment(images, cache=cache_folder(), bases={**own, **bases}, scalar=scalar or lexicographic,
                             keep=keep if keeps else None),
        ])
        stack.push_async_callback(environment.aclose)
        policy = None
        if ask and definition is not None:
            endpoint = _option(asked.get("endpoint", "{}"), "endpoint", Endpoint)
            choice = _option(asked.get("choice", "{}"), "choice", Choice)
            policy = open_policy(definition.policy, open_tasks(definition.taskset, choice), endpoint)
            stack.push_async_callback(policy.aclose)
        known = await _known(found.run, images, item)
        yield Again(environment, Replayer(
            environment, files=lambda name: kept.get(name) or in_run(name), policy=policy, known=known,
            repeats=repeats))


def _backends(name: str, *, shell: bool) -> tuple[Backend, Snapshots]:
    if shell and name == "native":
        from quintain.sandbox import NativeBackend

        both = NativeBackend(terminals=True)
        return both, both
    main = open_backend(name)
    return main, images_backend(main)


async def _known(run: Path, images: Snapshots, item: Item) -> Known:
    """What the run noted of its images, and the same looked at now, where an image is still there."""
    then = noted(run)
    now: dict[str, Surroundings] = {}
    for image in then:
        try:
            now[image] = await survey(images, image)
        except (HouseError, TaskError):
            continue
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return Known(then={image: one for image, one in then.items() if image in now}, now=now,
                 booted_unix_seconds=booted)
