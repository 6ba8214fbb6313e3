"""Episodes that the tests of this room record and play again: small tasks, scripted replies, real sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from quintain.env import ByKind, CodeEnvironment, ShellEnvironment
from quintain.policy import ScriptedPolicy
from quintain.replay import Replayer, snapshots_of
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.store import Definition, LocalBlobs, Run
from quintain.tasks import Exam, Item, PythonSuite, ScriptSuite
from quintain.types import Entry, Event, Grading, Limits, Scopes

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="the native backend is not available here: see `quintain doctor`")

T = TypeVar("T")
CHECK = b"mkdir -p /logs/verifier; [ \"$(cat answer.txt)\" = 42 ] && echo 1 > /logs/verifier/reward.txt " \
        b"|| echo 0 > /logs/verifier/reward.txt\n"
LIMITS = Scopes(episode=Limits(wall_seconds=60.0, cpu_seconds=60.0, turns=6))


def shell_item(name: str = "shelf") -> Item:
    return Item.sealed(
        Exam(hidden=ScriptSuite(files={"test.sh": CHECK})), files=None, id=name, kind="shell", image="host+rw",
        instructions="Write 42 to answer.txt.", entry=Entry(path="solve.sh", language="shell"), limits=LIMITS,
        grading=Grading.ON_SUBMIT)


def code_item(name: str = "add", wanted: int = 42) -> Item:
    hidden = f"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == {wanted}\n".encode()
    shown = b"from solution import add\n\n\ndef test_small():\n    assert add(1, 2) == 3\n"
    exam = Exam(hidden=PythonSuite(files={"test_add.py": hidden}), visible=PythonSuite(files={"test_small.py": shown}))
    return Item.sealed(exam, id=name, instructions="Write `add(a, b)`.", entry=Entry(name="add"))


def adding(body: str) -> str:
    return f"```python\ndef add(a, b):\n    return {body}\n```\n"


def commanded(*commands: str, last: str = "echo 42 > answer.txt") -> list[str]:
    return [*(f"```bash\n{command}\n```\n" for command in commands), f"```bash\n{last}\n```\nSUBMIT"]


class Scene:
    """A run folder, a backend and an environment in which episodes are recorded and played again."""

    def __init__(self, folder: Path, backend: NativeBackend, *, keeps: bool = True) -> None:
        self.folder = folder
        self.backend = backend
        self.blobs = LocalBlobs(folder / "blobs")
        self.files = snapshots_of(self.blobs.get)
        self.environment = ByKind([
            CodeEnvironment(backend),
            ShellEnvironment(backend, cache=folder / "cache",
                             keep=(lambda one: self.blobs.put(one.encode())) if keeps else None),
        ])

    async def record(self, item: Item, replies: Sequence[str], *, number: int = 0) -> list[Event]:
        events: list[Event] = []
        ticket = tickets(item, size=number + 1, seed=0)[number]
        await Driver(self.environment, ScriptedPolicy({item.task.id: list(replies)}), events.append).play(ticket)
        return events

    def replayer(self, **more: object) -> Replayer:
        return Replayer(self.environment, files=self.files, **more)  # type: ignore[arg-type]


def played(folder: Path, act: Callable[[Scene], Awaitable[T]], *, keeps: bool = True) -> T:
    async def play() -> T:
        async with NativeBackend(engines=1) as backend:
            scene = Scene(folder, backend, keeps=keeps)
            try:
                return await act(scene)
            finally:
                await scene.environment.aclose()

    return asyncio.run(play())


def kept(folder: Path, logs: Sequence[Sequence[Event]], *, taskset: str = "tasks") -> Path:
    """A run folder with these logs."""
    with Run.create(folder, Definition(taskset=taskset, policy="scripted"), name="run") as run:
        for log in logs:
            for event in log:
                run.journal.append(event)
        return run.path
