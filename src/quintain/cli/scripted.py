"""Whether a task that a script or one value judges is fit: its oracle and its null answers, tried its own way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quintain.env import TerminalWorld
from quintain.grade import check_answer
from quintain.sandbox import NativeBackend
from quintain.tasks import IN_A_SHELL, AnswerKind, AnswerSuite, ScriptSuite
from quintain.types import HouseError, Owner, TaskError, Verdict

if TYPE_CHECKING:
    from quintain.tasks import Item

Files = Mapping[str, bytes]


class Scripted:
    """Tries answers of tasks that no environment of code asks: scripts that are run in the task's image, and values."""

    def __init__(self, world: TerminalWorld) -> None:
        self._world = world

    @classmethod
    @asynccontextmanager
    async def opened(cls, *, cache: Path, bases: Mapping[str, str]) -> AsyncIterator[Scripted]:
        async with NativeBackend() as backend:
            yield cls(TerminalWorld(backend, cache=cache, bases=bases))

    @staticmethod
    def takes(item: Item) -> bool:
        """Whether a task is one of these."""
        hidden = item.exam.hidden
        if isinstance(hidden, AnswerSuite):
            return hidden.kind is not AnswerKind.PROCEDURAL
        return isinstance(hidden, ScriptSuite) and item.task.kind in IN_A_SHELL

    async def verdict(self, item: Item, answer: Files, *, oracle: bool) -> Verdict:
        """Raises TaskError for a verdict that lays it on the task, HouseError for one that lays it on the house."""
        hidden = item.exam.hidden
        if isinstance(hidden, AnswerSuite):
            text = answer.get(item.task.entry.path, b"").decode("utf-8", "replace")
            verdict = await asyncio.to_thread(check_answer, hidden, text)
        else:
            made = await self._world.make(item, answer, oracle=oracle)
            verdict = await self._world.grade(item, made.trees)
        fault = verdict.fault
        if fault is not None and fault.owner is Owner.HOUSE:
            raise HouseError(fault.kind, f"{item.task.id}: {fault.message}")
        if fault is not None and fault.owner is Owner.TASK:
            raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
        return verdict
