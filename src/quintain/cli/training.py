"""What `quintain train` joins: tasks, sandboxes that judge, and the learner, which sees neither exams nor sandboxes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from quintain.cli.apart import note_training, refuse_training
from quintain.cli.exits import HostCannot, Usage
from quintain.cli.wire import Choice, open_backend, open_tasks
from quintain.sandbox import Backend
from quintain.store import Keeping, Library, Pin
from quintain.tasks import Item
from quintain.types import HouseError, Program, TaskError, content_digest

if TYPE_CHECKING:
    from quintain.cli.visits import Part
    from quintain.env import Environment
    from quintain.grade import Oracle
    from quintain.train import Attempted, Demo, Judged, RepairLearning, RepairSettings

#: Demonstrations come from so many functions: a policy that was shown all of them would have little to find out.
DEMO_FUNCTIONS = 20
#: A judge that judged nothing so many times in a row gives up.
IN_VAIN = 3


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a training is made of; kept in its folder, so that it can go on. `train_each` tasks of each function are
    trained on, `held_out_tasks` are evaluated (None: all), and `practised_tasks` faults that are not trained on of
    functions that are, where there are so many. `memory` is the file of what was executed, where that is not
    the folder's own."""

    tasks: str
    held_out: str
    settings: str
    train_each: int | None = 9
    held_out_tasks: int | None = 160
    practised_tasks: int = 160
    sandboxes: int = 4
    backend: str = "native"
    confirm: bool = False
    memory: str | None = None
    report_to: tuple[str, ...] = ()


def hold_training(folder: Path) -> None:
    """Keep what the checkpoints of a training answer from now on: `quintain gc` takes none of it out until somebody
    removes the pin."""
    keeping = Keeping(Library(folder.parent))
    keeping.pin(Pin(holder=f"training:{folder.name}", policies=(f"trained:{folder.name}@",)))


class SandboxJudge:
    """Judges answers in sandboxes, many at once, and with an `oracle` those that can several in one visit (`visits`).
    A failure of the house or of the task is a reward of `None`. Raises the HouseError when nothing at all could be
    judged several times in a row: this host does not work.

    `cpu_seconds` is the CPU time of what ran in sandboxes, `visits` and `alone` how often they were opened.
    """

    def __init__(
        self, environment: Environment, items: Sequence[Item], *, sandboxes: int, oracle: Oracle | None = None,
    ) -> None:
        self._environment = environment
        self._items = {item.task.id: item for item in items}
        self._room = asyncio.Semaphore(sandboxes)
        self._oracle = oracle
        self.visits = self.alone = 0
        self.cpu_seconds = 0.0
        self.trouble: str | None = None
        self._broken: HouseError | None = None
        self._in_vain = 0  # calls in a row of which nothing was judged

    async def __call__(self, attempts: Sequence[Attempted]) -> list[Judged]:
        decided = await self._together(attempts) if self._oracle is not None else {}
        left = [attempt for attempt in attempts if attempt.digest not in decided]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(attempt)) for attempt in left]
        decided |= {attempt.digest: task.result() for attempt, task in zip(left, tasks, strict=True)}
        judged = [decided[attempt.digest] for attempt in attempts]
        self._in_vain = 0 if any(one.verdict is not None for one in judged) else self._in_vain + 1
        if self._in_vain >= IN_VAIN and self._broken is not None:
            raise self._broken
        return judged

    async def _together(self, attempts: Sequence[Attempted]) -> dict[str, Judged]:
        """What shared visits decide."""
        from quintain.cli.visits import part_of, visits_of

        found = [part_of(attempt, self._items[attempt.task]) for attempt in attempts]
        visits = visits_of([part for part in found if part is not None])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._visit(visit)) for visit in visits if len(visit) > 1]
        return {digest: judged for task in tasks for digest, judged in task.result().items()}

    async def _visit(self, parts: list[Part]) -> dict[str, Judged]:
        """Visits until of each of the parts it is decided, or known that it must be judged alone."""
        from quintain.cli.visits import visit

        assert self._oracle is not None
        decided: dict[str, Judged] = {}
        while len(parts) > 1:
            async with self._room:
                said = await visit(self._oracle, parts)
            self.visits += 1
            self.cpu_seconds += said.cpu_seconds
            decided |= said.decided
            parts = said.not_reached
        return decided

    async def _one(self, attempt: Attempted) -> Judged:
        from quintain.env import Work
        from quintain.train import Judged
        from quintain.types import Trainable

        work = Work(program=Program(files=attempt.files))
        async with self._room:
            self.alone += 1
            try:
                verdict, reward = await self._environment.grade(
                    self._items[attempt.task], work, episode=attempt.digest, seed=0)
            except (HouseError, TaskError) as error:
                self.trouble = str(error)
                self._broken = error if isinstance(error, HouseError) else self._broken
                return Judged(reward=None)
        self.cpu_seconds += verdict.cpu_seconds or 0.0
        total = reward.total if reward.trainable is Trainable.YES else None
        return Judged(reward=total, solved=reward.solved, verdict=verdict)


@asynccontextmanager
async def opened(
    asked: Asked, folder: Path, *, meter: Callable[[Backend], Backend] = lambda backend: backend,
) -> AsyncIterator[tuple[RepairLearning, SandboxJudge]]:
    """The learner of a training and its judge, in sandboxes that are there until the block is left; `meter` may put
    what counts them before the backend. Raises Usage for tasks that are no repairs, HostCannot where there are no
    sandboxes or there is no torch."""
    from quintain.env import CodeEnvironment
    from quintain.grade import Oracle, solved_only

    need_torch()
    from quintain.train import Memory, RepairSettings, repair_learner

    settings = msgspec.json.decode(asked.settings, type=RepairSettings)
    train, demonstrated, held_out = chosen(asked, settings)
    practised = practised_of(asked, train)
    refuse_training(folder.parent, [item.task for item in train])
    note_training(folder, [item.task for item in train])
    backend = meter(open_backend(asked.backend))
    try:
        # An edit of one token leaves no room for the hacks that detectors look for: none are asked.
        oracle = Oracle(backend, confirm=asked.confirm)
        environment = CodeEnvironment(backend, oracle=oracle, scalar=solved_only, detectors=())
        judge = SandboxJudge(environment, [*train, *held_out, *practised], sandboxes=asked.sandboxes, oracle=oracle)
        memory = Memory(judge, file=Path(asked.memory) if asked.memory else folder / "executed.jsonl")
        learner = repair_learner(
            [item.task for item in train], [item.task for item in held_out], demos_of(demonstrated, settings.demos),
            memory, settings, exams={item.task.id: exam_of(item) for item in (*train, *held_out, *practised)},
            practised=[item.task for item in practised],
        )
        await learner.prepare()
        yield learner, judge
    finally:
        await backend.aclose()


def exam_of(item: Item) -> str:
    """A digest of all by which an answer to the task is judged."""
    task = item.task
    return content_digest((item.exam.hidden, task.image, task.limits, task.entry, task.network))


def need_torch() -> None:
    """Raises HostCannot where torch is not installed, saying how to get it."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise HostCannot("training needs torch: make torch (in a checkout), or pip install 'quintain[train]'")


def chosen(asked: Asked, settings: RepairSettings) -> tuple[list[Item], list[Item], list[Item]]:
    """Tasks to train on, those of them that are demonstrated, and held-out ones. Raises Usage."""
    items, held_out = list(open_tasks(asked.tasks, Choice())), list(open_tasks(asked.held_out, Choice()))
    shared = {item.task.id for item in items} & {item.task.id for item in held_out}
    if shared:
        raise Usage(f"expected held-out tasks that are not trained on, found in both {sorted(shared)[:3]}")
    by_function: dict[str, list[Item]] = {}
    for item in items:
        by_function.setdefault(item.task.entry.name or item.task.id, []).append(item)
    dice = random.Random(f"{settings.seed} functions")
    shown = set(dice.sample(sorted(by_function), min(DEMO_FUNCTIONS, len(by_function))))
    demonstrated = [item for name in sorted(shown) for item in by_function[name]]
    first = [item for name, faults in sorted(by_function.items())
             for item in random.Random(name).sample(faults, len(faults))[: asked.train_each]]
    known = {item.task.id for item in first}
    train = first + [item for item in demonstrated if item.task.id not in known]
    count = min(len(held_out), asked.held_out_tasks or len(held_out))
    return train, demonstrated, random.Random(0).sample(held_out, count)


def practised_of(asked: Asked, train: Sequence[Item]) -> list[Item]:
    """Faults that are neither trained on nor demonstrated, of functions that are trained on: always the same for the
    same tasks to train on."""
    known, functions = {item.task.id for item in train}, {item.task.entry.name for item in train}
    left = [item for item in open_tasks(asked.tasks, Choice())
            if item.task.id not in known and item.task.entry.name in functions]
    return random.Random(0).sample(left, min(len(left), asked.practised_tasks))


def refuse_held_out(asked: Asked, runs: Path) -> None:
    """Raises Usage for a training on tasks that an evaluation beside its folder holds out."""
    from quintain.train import RepairSettings

    train, _, _ = chosen(asked, msgspec.json.decode(asked.settings, type=RepairSettings))
    refuse_training(runs, [item.task for item in train])


def demos_of(items: Sequence[Item], most: int) -> list[Demo]:
    """The authors' answers as demonstrations. Raises Usage where a task is no repair of one token."""
    from quintain.train import demo_of

    found = []
    for item in items[:most]:
        right = (item.exam.oracle or {}).get(item.task.entry.path)
        try:
            demo = None if right is None else demo_of(item.task, right)
        except ValueError as error:
            raise Usage(f"quintain train repairs programs with one wrong token: {error}") from None
        if demo is not None:
            found.append(demo)
    if not found:
        raise Usage("expected tasks whose author's answer is an edit of one token (such as repair-train), found none")
    return found
