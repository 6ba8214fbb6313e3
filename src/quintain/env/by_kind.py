"""Several kinds of work as one: each task goes to the environment of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from quintain.env.base import Answer, Enterable, Environment, Feedback, Inside, Shown, Work
from quintain.sandbox import Snapshot
from quintain.tasks import Item
from quintain.types import Fault, FaultKind, Limits, Message, Program, Reward, Task, TaskError, Turn, Verdict


class ByKind:
    """Keeps `Environment`. A task of a kind that none of them has is refused: TaskError, and its episode is broken.
    Raises ValueError for two environments of one kind."""

    def __init__(self, environments: Sequence[Environment]) -> None:
        self._by_kind = {one.kind: one for one in environments}
        if len(self._by_kind) != len(environments):
            raise ValueError(f"expected one environment of each kind, found {[one.kind for one in environments]}")

    @property
    def kind(self) -> str:
        return "+".join(sorted(self._by_kind))

    def opening(self, task: Task) -> tuple[Message, ...]:
        return self._of(task).opening(task)

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        return self._of(task).build(task, turn, previous=previous)

    def shows(self, item: Item) -> bool:
        known = self._by_kind.get(item.task.kind)  # asked before anything can break: a stranger shows nothing
        return known is not None and known.shows(item)

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        return await self._of(item.task).run(item, program, episode=episode, limits=limits)

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        return await self._of(item.task).grade(item, work, episode=episode, seed=seed)

    def say(self, task: Task, feedback: Feedback) -> Message:
        return self._of(task).say(task, feedback)

    def remembers(self, item: Item) -> bool:
        return self._enterable(item.task).remembers(item)

    async def enter(
        self, item: Item, program: Program | None, *, episode: str, limits: Limits, snapshot: Snapshot | None = None,
        prelude: str = "",
    ) -> Inside:
        return await self._enterable(item.task).enter(
            item, program, episode=episode, limits=limits, snapshot=snapshot, prelude=prelude)

    async def leave(self, episode: str) -> None:
        for one in self._by_kind.values():
            await one.leave(episode)

    async def aclose(self) -> None:
        for one in self._by_kind.values():
            await one.aclose()

    def _of(self, task: Task) -> Environment:
        known = self._by_kind.get(task.kind)
        if known is None:
            raise TaskError(f"task {task.id}: expected a kind of {', '.join(sorted(self._by_kind))}, found "
                            f"{task.kind!r}", kind=FaultKind.TASK_ENVIRONMENT)
        return known

    def _enterable(self, task: Task) -> Enterable:
        known = self._of(task)
        if not hasattr(known, "enter"):
            raise TaskError(f"task {task.id}: work of the kind {task.kind!r} cannot be entered",
                            kind=FaultKind.TASK_ENVIRONMENT)
        return cast(Enterable, known)
