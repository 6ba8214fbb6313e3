"""An environment around another: everything is passed on, and whoever differs in something says only that."""

from __future__ import annotations

from quintain.env.base import Answer, Environment, Feedback, Shown, Work
from quintain.tasks import Item
from quintain.types import Fault, Limits, Message, Program, Reward, Task, Turn, Verdict


class Around:
    """Keeps `Environment`; raises what `inner` raises."""

    def __init__(self, inner: Environment) -> None:
        self._inner = inner

    @property
    def kind(self) -> str:
        return self._inner.kind

    def opening(self, task: Task) -> tuple[Message, ...]:
        return self._inner.opening(task)

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        return self._inner.build(task, turn, previous=previous)

    def shows(self, item: Item) -> bool:
        return self._inner.shows(item)

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        return await self._inner.run(item, program, episode=episode, limits=limits)

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        return await self._inner.grade(item, work, episode=episode, seed=seed)

    def say(self, task: Task, feedback: Feedback) -> Message:
        return self._inner.say(task, feedback)

    async def leave(self, episode: str) -> None:
        await self._inner.leave(episode)

    async def aclose(self) -> None:
        await self._inner.aclose()
