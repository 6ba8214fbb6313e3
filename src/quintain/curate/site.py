"""Where answers are tried during an admission: by the judge that each kind of suite has, so many at a time.

Covers: every kind of suite that the house judges. The author's answers, changed copies of them and hacks all run in the
sandboxes of the backend, like any answer; nothing of a task is imported or run here.
Does not cover: images of a registry that nobody named a base for; such a task is not tried, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar

from quintain.env import Judge, judges_of
from quintain.grade import Oracle, World, check_answer, check_procedural
from quintain.program import LANGUAGES, language
from quintain.sandbox import Backend
from quintain.tasks import (
    IN_A_SHELL,
    AnswerKind,
    AnswerSuite,
    Item,
    PythonSuite,
    ScriptSuite,
    Suite,
    visible_files,
)
from quintain.types import FaultKind, HouseError, Limits, Outcome, Owner, Program, TaskError, Verdict, content_digest

Files = Mapping[str, bytes]
#: Who tries to solve tasks, to see how hard they are: the files of an answer, `None` where there is none.
Solver = Callable[[Item, int], Awaitable[Files | None]]
Given = TypeVar("Given")
Made = TypeVar("Made")


class Site:
    """Tries answers, `at_once` at a time. `world` opens the images of script tasks; without one they are not tried.
    `judges` are, by kind of work, those whose verdict is more than that of the hidden suite (default: all of `env`)."""

    def __init__(
        self, backend: Backend, *, at_once: int, world: World | None = None, solver: Solver | None = None,
        judges: Mapping[str, Judge] | None = None,
    ) -> None:
        if at_once < 1:
            raise ValueError(f"expected at_once >= 1, found {at_once}")
        self.backend = backend
        self.at_once = at_once
        self.solver = solver
        self.oracle = Oracle(backend, confirm=False)
        self._abroad: dict[str, Oracle] = {}  # by environment: each asks the backend once what it can do
        self._judges = judges_of(backend, self.oracle) if judges is None else dict(judges)
        self._world = world
        self._slots = asyncio.Semaphore(at_once)

    async def verdict(
        self, item: Item, answer: Files, *, suite: Suite | None = None, seed: int = 0, confirm: bool = False,
        env: Mapping[str, str] | None = None, limits: Limits | None = None, oracle: bool = False, crowded: bool = False,
    ) -> Verdict:
        """What the task's hidden suite (or `suite`) says of an answer's files. `confirm` adds a run that starts afresh
        with another order and hash seed; `env` is set for Python on both sides; `crowded` runs do not wait for a slot,
        so that several of them fight for the CPUs. `oracle`: this is the author's answer.

        A kind of work with a judge of its own is judged by it, which decides itself about runs, seeds and limits; a
        suite that is given goes to the plain judge of such suites.

        Raises TaskError for a verdict that lays it on the task, HouseError for one that lays it on the house.
        """
        async with AsyncExitStack() as stack:
            if not crowded:
                await stack.enter_async_context(self._slots)
            judge = self._judges.get(item.task.kind) if suite is None else None
            verdict = await (judge.verdict(item, program_of(item, answer)) if judge is not None else self._judged(
                item, answer, suite=suite or item.exam.hidden, seed=seed, confirm=confirm, env=env,
                limits=limits or command_limits(item), oracle=oracle))
        fault = verdict.fault
        if fault is not None and fault.owner is Owner.HOUSE and fault.kind is not FaultKind.CONFLICTING_RUNS:
            raise HouseError(fault.kind, f"{item.task.id}: {fault.message}")
        if fault is not None and fault.owner is Owner.TASK:
            raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
        return verdict

    async def _judged(
        self, item: Item, answer: Files, *, suite: Suite, seed: int, confirm: bool, env: Mapping[str, str] | None,
        limits: Limits, oracle: bool,
    ) -> Verdict:
        if isinstance(suite, AnswerSuite):
            text = answer.get(item.task.entry.path, b"").decode("utf-8", "replace")
            if suite.kind is AnswerKind.PROCEDURAL:
                return await check_procedural(self.backend, suite, text)
            return await asyncio.to_thread(check_answer, suite, text)
        if isinstance(suite, ScriptSuite) and item.task.kind in IN_A_SHELL:
            if self._world is None:
                raise TaskError("its script needs an image, and no place to open one was given",
                                kind=FaultKind.TASK_ENVIRONMENT)
            made = await self._world.make(item, answer, oracle=oracle)
            return await self._world.grade(item, made.trees)
        judge = self.oracle
        if env:
            judge = self._abroad.setdefault(content_digest(dict(env)), Oracle(self.backend, confirm=False, env=env))
        return await judge.grade(suite, program_of(item, answer), image=item.task.image, limits=limits, seed=seed,
                                 confirm=confirm)

    def is_called(self, item: Item) -> bool:
        """Whether the hidden suite tells of an answer what it does, if not all that is asked of it. It does not where
        the answer is no program (tests to be written, pages), which has a judge of its own."""
        suite, entry = item.exam.hidden, item.task.entry.path
        if item.task.kind not in self._judges or not isinstance(suite, PythonSuite):
            return item.task.kind not in self._judges
        return entry.removesuffix(".py").replace("/", ".") in suite.modules

    async def shuffled(
        self, item: Item, answer: Files, *, seed: int, measured: list[Outcome] | None = None
    ) -> Verdict:
        """One run of Python tests in an order that the seed decides, without starting afresh; for other suites as
        `verdict`. Where it is not solved the whole is asked again, so that what the house did is told apart. What the
        answer's side used is added to `measured`."""
        if not isinstance(item.exam.hidden, PythonSuite) or not self.is_called(item):
            return await self.verdict(item, answer, seed=seed)
        async with self._slots:
            examined = await self.oracle.examine(
                item.exam.hidden, program_of(item, answer).files, image=item.task.image, limits=command_limits(item),
                seed=seed, shuffled=True)
        if measured is not None and examined.candidate is not None:
            measured.append(examined.candidate)
        if examined.verdict.solved:
            return examined.verdict
        again = await self.verdict(item, answer, seed=seed, confirm=True)
        return again if not again.solved else examined.verdict

    async def measure(self, item: Item, answer: Files) -> Outcome | None:
        """What one run of the answer used, as the backend measured it; `None` where the judge does not tell."""
        if not isinstance(item.exam.hidden, PythonSuite) or not self.is_called(item):
            return None
        async with self._slots:
            examined = await self.oracle.examine(
                item.exam.hidden, program_of(item, answer).files, image=item.task.image, limits=command_limits(item))
        return examined.candidate

    async def together(self, work: Callable[[Given], Awaitable[Made]], given: Sequence[Given]) -> list[Made]:
        """`work` of each, in the order given; how many run is for the slots to say. The first HouseError or TaskError
        ends the others and comes out as itself."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_awaited(work, one)) for one in given]
        except* (HouseError, TaskError) as errors:
            raise first_of(errors) from None
        return [task.result() for task in tasks]


async def _awaited(work: Callable[[Given], Awaitable[Made]], given: Given) -> Made:
    return await work(given)


def first_of(errors: BaseException) -> BaseException:
    """The first error in a group of them, and of groups in it."""
    error = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def command_limits(item: Item) -> Limits:
    """What one run of an answer may use."""
    limits = item.task.limits
    return limits.command.within(limits.turn).within(limits.episode)


def program_of(item: Item, answer: Files) -> Program:
    """An answer as a program: the files as given with the answer's laid over them, and how it is started, unless it is
    there to be called."""
    entry = item.task.entry
    argv = () if entry.name is not None or entry.language not in {known.name for known in LANGUAGES} else language(
        entry.language).argv_for(entry.path)
    return Program(files={**item.task.files, **answer}, argv=argv, language=entry.language)


def resealed(item: Item, **changed: object) -> Item:
    """The item with another exam or other fields of its task, sealed again."""
    task = item.task
    exam = changed.pop("exam", item.exam)
    fields = {name: getattr(task, name) for name in task.__struct_fields__ if name not in ("version", "exam")}
    fields |= changed
    shown = visible_files(item.exam.visible)
    files = {path: content for path, content in fields.pop("files").items() if path not in shown}
    return Item.sealed(exam, files=files, **fields)  # type: ignore[arg-type]
