"""A run by curriculum: in steps, each of the tasks from which most can be learnt, written down so that it can go on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from quintain.curate import Drawn, Place, Rate, draw, is_flat, taught
from quintain.types import FaultKind, Group, HouseError

if TYPE_CHECKING:
    from quintain.policy import Policy
    from quintain.tasks import Item, Taskset

FILE = "curriculum.jsonl"


class Collects(Protocol):
    """Tasks in, groups out: a `rollout.Collector`, or workers that do what it does."""

    def collecting(
        self, items: Iterable[Item], policy: Policy, *, size: int, round: int = 0,
    ) -> AbstractAsyncContextManager[AsyncIterator[Group]]: ...


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many steps, of so many tasks each."""

    steps: int
    places: int

    @classmethod
    def of(cls, steps: int, places: int | None, *, sandboxes: int, size: int, tasks: int) -> Plan:
        """Without `places` as many tasks as keep all sandboxes busy twice over."""
        return cls(steps=steps, places=min(tasks, places or max(1, -(-2 * sandboxes // size))))


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step as it was drawn: its tasks, with what was known of all of them at that moment. Counts from 1."""

    step: int
    drawn: tuple[Drawn, ...]
    rates: dict[str, Rate]


class Course:
    """The steps of a run, kept in its folder. A step that was drawn is never drawn anew: a run that goes on plays the
    tasks that it had begun. Raises HouseError for a file that is none, naming the line; a last line that was cut by a
    crash is dropped."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.steps: list[Step] = []
        if not self._path.exists():
            return
        whole, _, cut = self._path.read_bytes().rpartition(b"\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self.steps.append(msgspec.json.decode(line, type=Step))
            except msgspec.DecodeError as error:
                raise HouseError(FaultKind.STORE_ERROR, f"{self._path}:{number}: expected a step, found {error}")
        if cut:
            self._path.write_bytes(whole + b"\n" if whole else b"")

    @property
    def rates(self) -> dict[str, Rate]:
        """What was known before the latest step."""
        return dict(self.steps[-1].rates) if self.steps else {}

    def add(self, step: Step) -> None:
        """Write a step down before it is played. Raises HouseError."""
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(step) + b"\n")
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._path}: cannot be written: {error.strerror}")
        self.steps.append(step)


async def played(
    collector: Collects, tasks: Taskset, policy: Policy, plan: Plan, *, folder: Path, size: int, seed: int,
    places: Sequence[Place], weight: Callable[[str], float], beat: Callable[[], None],
) -> AsyncGenerator[Group, None]:
    """Every group of every step, the steps one after another. `weight` is that of a task's standing at this moment."""
    course = Course(folder)
    rates = course.rates
    for number in range(max(1, len(course.steps)), plan.steps + 1):
        if number > len(course.steps):
            course.add(Step(step=number, rates=rates, drawn=drawn_of(
                places, rates, size=plan.places, seed=seed, step=number, weight=weight)))
        chosen = (tasks[one.task] for one in course.steps[number - 1].drawn)
        async with collector.collecting(chosen, policy, size=size, round=number) as groups:
            async for group in groups:
                rates = taught(rates, group)
                beat()
                yield group


def drawn_of(
    places: Sequence[Place], rates: Mapping[str, Rate], *, size: int, seed: int, step: int,
    weight: Callable[[str], float],
) -> tuple[Drawn, ...]:
    """The tasks of one step, by what is known of them. Pure but for `weight`."""
    known = [msgspec.structs.replace(place, rate=rates.get(place.task, Rate()), weight=weight(place.task))
             for place in places]
    return draw(known, size=size, seed=seed, step=step)


class Lessons:
    """Counts what groups were worth."""

    def __init__(self) -> None:
        self.groups = 0
        self.flat = 0

    def take(self, group: Group) -> None:
        self.groups += 1
        self.flat += is_flat(group)

    def __str__(self) -> str:
        return f"{self.flat} of {self.groups} groups taught nothing: their siblings all ended alike"


def place_of(task: str, kind: str) -> Place:
    """A task's place: its source is what stands before the first slash of its id."""
    return Place(task=task, kind=kind, source=task.partition("/")[0] if "/" in task else "")
