"""`quintain train --trainer trl`: a model of a user's size, trained by TRL on episodes of ours."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from quintain.cli.apart import note_training, refuse_training
from quintain.cli.exits import Failed, HostCannot, Usage
from quintain.cli.training_watch import TrainingEyes, watched_training
from quintain.cli.watching import Watching
from quintain.cli.wire import Choice, open_backend, open_house, open_tasks

if TYPE_CHECKING:
    from quintain.env import Environment
    from quintain.rollout import Collector
    from quintain.train import Row, TrlPlan

#: Options of `quintain train` that mean something here, besides those that both trainers have.
OPTIONS = ("model", "group", "batch", "rate", "max_tokens", "temperature", "lora", "server", "served_model",
           "more")
SHARED = ("tasks", "out", "resume", "seed", "steps", "keep", "sandboxes", "backend", "as_json", "trainer", "report_to")


class TrlAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What such a training is made of; kept in its folder. `plan` is a `train.TrlPlan` as JSON."""

    tasks: str
    plan: str
    sandboxes: int
    backend: str


class TrlSum(msgspec.Struct, frozen=True, kw_only=True):
    """What it came to, as scripts read it; `last` has the figures of the last update."""

    model: str
    steps: int
    parameters: int
    trained_parameters: int
    seconds: float
    last: dict[str, float]
    run: str


def asked_of(given: Mapping[str, Any]) -> TrlAsked:
    """Raises Usage for what does not go together, HostCannot without TRL."""
    _need_trl()
    from quintain.train import TrlPlan

    if not given["model"]:
        raise Usage("expected --model FOLDER (or a name that transformers can load) with --trainer trl")
    dials = {name: given[name] for name in (
        "steps", "group", "batch", "rate", "max_tokens", "temperature", "lora", "server", "served_model")}
    try:
        plan = TrlPlan(
            model=str(_place(given["model"])), seed=given["seed"], keep=given["keep"],
            report_to=tuple(given["report_to"]), more=dict(_pair(pair) for pair in given["more"]),
            **{name: value for name, value in dials.items() if value is not None})
    except ValueError as error:
        raise Usage(str(error)) from None
    return TrlAsked(tasks=given["tasks"], plan=msgspec.json.encode(plan).decode(), sandboxes=given["sandboxes"],
                    backend=given["backend"])


def run_trl(asked: TrlAsked, folder: Path, *, resume: bool, watching: Watching) -> TrlSum:
    """Raises Failed with what TRL says."""
    _need_trl()
    from quintain.train import Asked, Log, Stage, TrlPlan, lines_of, train_with_trl, write_page

    plan = msgspec.json.decode(asked.plan, type=TrlPlan)
    items = list(open_tasks(asked.tasks, Choice()))
    if not items:
        raise Usage(f"expected tasks in {asked.tasks}, found none")
    refuse_training(folder.parent, [item.task for item in items])
    note_training(folder, [item.task for item in items])
    began = time.monotonic()
    try:
        with watched_training(folder, watching) as eyes:
            house = _House(asked, folder, eyes)
            with Stage(house.opened) as stage:
                rows = Asked(items, house.environment.opening)
                trained = train_with_trl(stage, rows, folder, plan, resume=resume, watch=_shown(plan, eyes))
    except (ValueError, OSError) as error:
        raise Failed(str(error)) from None
    write_page(folder / "curve.html", lines_of(Log(folder / "metrics.jsonl").rows()),
               title=f"quintain train {asked.tasks} with TRL", facts={"model": plan.model})
    return TrlSum(
        model=str(trained.model), steps=trained.steps, parameters=trained.parameters,
        trained_parameters=trained.trained_parameters, seconds=round(time.monotonic() - began, 2), last=trained.last,
        run=str(folder))


class _House:
    """Sandboxes, and a journal of all episodes that were played in them: `quintain show RUN/episodes`."""

    def __init__(self, asked: TrlAsked, folder: Path, eyes: TrainingEyes | None) -> None:
        self._asked = asked
        self._folder = folder
        self._eyes = eyes
        self._environment: Environment | None = None

    @property
    def environment(self) -> Environment:
        """There is one while the stage is open."""
        if self._environment is None:
            raise RuntimeError("expected an open stage")
        return self._environment

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Collector]:
        from quintain.rollout import Collector
        from quintain.store import Definition, Keeping, Library, Pin, Run

        definition = Definition(taskset=self._asked.tasks, policy="trl", sandboxes=self._asked.sandboxes,
                                backend=self._asked.backend)
        name = time.strftime("episodes-%Y%m%d-%H%M%S")  # one for each time that the training is taken up
        # the weights were learnt from these episodes: gc takes none of them out
        Keeping(Library(self._folder)).pin(Pin(holder=f"training:{self._folder.name}:{name}", runs=(name,)))
        with Run.create(self._folder, definition, name=name) as run:
            eyes = self._eyes
            meter = (lambda backend: backend) if eyes is None else eyes.metered
            async with open_house(open_backend(self._asked.backend), meter=meter) as environment:
                self._environment = environment
                yield Collector(environment, run.journal.append, concurrency=self._asked.sandboxes,
                                watch=(lambda event: None) if eyes is None else eyes.event)


def _shown(plan: TrlPlan, eyes: TrainingEyes | None) -> Any:
    def show(row: Row) -> None:
        if eyes is not None:
            eyes.row(row)
            eyes.rest()
        solved = row.train.get("solved")
        told = "" if solved is None else f", {solved:.1%} solved"
        click.echo(f"update {row.step}/{plan.steps}: reward {row.train['reward']:+.3f}{told}", err=True)

    return show


def _need_trl() -> None:
    if importlib.util.find_spec("trl") is None or importlib.util.find_spec("torch") is None:
        raise HostCannot("--trainer trl needs TRL: pip install 'quintain[trl]'")


def _place(model: str) -> Path | str:
    """A folder by its whole path, so that the training can be resumed from elsewhere; any other name as it is."""
    return Path(model).resolve() if Path(model).is_dir() else model


def _pair(pair: str) -> tuple[str, str]:
    name, mark, value = pair.partition("=")
    if not mark or not name.isidentifier():
        raise Usage(f"expected --set NAME=VALUE, found {pair!r}")
    try:
        json.loads(value)
    except ValueError:
        value = json.dumps(value)
    return name, value
