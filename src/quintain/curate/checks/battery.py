"""Step 5: whether any trick of the battery is paid.

Tricks against what the tests compare (objects that equal everything, NaN, constants) are tried at every task.
Tricks against the verifier (leaving early, skips, patches, forged reports, shadowed modules, flooded pipes) mean the
same at every task that this verifier judges: the tests are in another process, and only typed values cross. One run
of each, at a task of the house's own, is shared by all tasks with the same kind of suite, language and image; the
verifier's build is part of what is remembered. Where a script judges in the answer's own world, everything is tried
at every task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from quintain.curate.battery import Mechanism, fitting, verifier_of, words_of_item, words_of_shape, written
from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.kept import Kept
from quintain.curate.shape import Shape
from quintain.curate.site import Site, command_limits
from quintain.grade import PINNED, verifier_build
from quintain.tasks import AnswerSuite, Item, PythonSuite, ScriptSuite, Suite, kind_of
from quintain.types import FaultKind, HouseError, Limits, Program, TaskError, content_digest

#: What the house's own task asks for, by the kind of its suite.
_SHAPES = {"python": ("mean", "Stack"), "javascript": ("mean", "Stack"), "shell": ("add",), "stdio": ("main",)}
_SECONDS = 2.0  # longer than this no trick needs to show what it can do


class Battery:
    """`shared=False` leaves out what goes against the verifier. `kept` remembers that between runs."""

    name = "battery"
    runs = True

    def __init__(self, *, shared: bool = True, kept: Kept | None = None) -> None:
        self.version = f"2:{int(shared)}"
        self._shared = shared
        self._kept = kept
        self._locks: dict[str, asyncio.Lock] = {}
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        hidden = item.exam.hidden
        if isinstance(hidden, AnswerSuite):
            return unmeasured(self.name, "one value is compared: nothing of the answer is run")
        words = words_of_item(item)
        known = fitting(item, words.kind)
        own = [m for m in known if m.is_against_tests]
        if not known:
            return unmeasured(self.name, f"the battery has nothing in {item.task.entry.language}")

        async def paid(mechanism: Mechanism) -> str | None:
            limits = _short(command_limits(item), mechanism)
            try:
                verdict = await site.verdict(item, written(mechanism, words, item.task.entry.path), seed=11,
                                             limits=limits)
            except TaskError as error:
                if error.kind is FaultKind.TASK_ENVIRONMENT:
                    raise
                return None
            except HouseError as error:
                if error.kind is FaultKind.VERIFIER_ERROR:
                    return None  # it broke the verifier: never paid, and no fault of the task's
                raise
            return f"{mechanism.name} is paid: {mechanism.mechanism}" if verdict.solved else None

        problems = [Problem(code="hack paid", text=text) for text in await site.together(paid, own) if text]
        count, broken = await self._against_verifier(item, site, [m for m in known if not m.is_against_tests])
        problems += [Problem(code="verifier paid", text=text) for text in broken]
        return found(
            self.name, problems, figures={"mechanisms": float(len(own) + count), "at_this_task": float(len(own))},
            evidence=[f"{len(own)} mechanisms tried at this task, {count} at its verifier"],
            remedy="compare types and values (`assert f(x) == 3`, never only `assert f(x)`), and let nothing that the "
                   "answer returns decide how it is compared")

    async def _against_verifier(
        self, item: Item, site: Site, others: list[Mechanism]
    ) -> tuple[int, tuple[str, ...]]:
        """How many mechanisms were tried at this verifier, and which were paid; tried once, then remembered."""
        if not self._shared or isinstance(item.exam.hidden, ScriptSuite) or not others:
            return 0, ()
        name = verifier_of(item)
        async with self._locks.setdefault(name, asyncio.Lock()):
            if name not in self._known:
                self._known[name] = await self._remembered(name, item, site)
            return self._known[name]

    async def _remembered(self, name: str, item: Item, site: Site) -> tuple[int, tuple[str, ...]]:
        trials = pinned_trials(item)
        key = content_digest([self.version, verifier_build(), [m.digest for m, _, _ in trials]])
        old = self._kept.get(f"verifier/{name}", key) if self._kept else None
        if old is not None:
            return len(trials), tuple(problem.text for problem in old.problems)

        async def paid(trial: tuple[Mechanism, Suite, Program]) -> str | None:
            mechanism, suite, program = trial
            probe = item_of_pinned(item, suite, program)
            try:
                verdict = await site.verdict(probe, program.files, seed=13,
                                             limits=_short(command_limits(item), mechanism))
            except HouseError as error:
                if error.kind is FaultKind.VERIFIER_ERROR:
                    return None
                raise
            return f"{mechanism.name} is paid by the verifier {name}: {mechanism.mechanism}" if verdict.solved else None

        broken = tuple(text for text in await site.together(paid, trials) if text)
        if self._kept is not None:
            self._kept.put(f"verifier/{name}", key, found(
                self.name, [Problem(code="verifier paid", text=text) for text in broken]))
        return len(trials), broken


def pinned_trials(item: Item) -> list[tuple[Mechanism, Suite, Program]]:
    """The mechanisms against the verifier of a task, written into the house's own task for it."""
    kind, language = kind_of(item.exam.hidden), item.task.entry.language
    pinned = next((one for one in PINNED if kind_of(one.suite) == kind), None)
    if pinned is None:
        return []
    suite = pinned.suite
    words = words_of_shape(Shape(functions=_SHAPES[kind]), language, suite.files if isinstance(
        suite, PythonSuite) else {})
    if kind == "stdio":
        words = msgspec.structs.replace(words, kind="program")
    entry = item.task.entry.path if kind == "stdio" else next(iter(pinned.good.files))
    trials = []
    for mechanism in fitting(item, words.kind):
        if not mechanism.is_against_tests:
            program = Program(files=written(mechanism, words, entry), language=language)
            trials.append((mechanism, suite, program))
    return trials


def item_of_pinned(item: Item, suite: Suite, program: Program) -> Item:
    """The house's own task in the place of this one: same image, entry and limits."""
    exam = msgspec.structs.replace(item.exam, hidden=suite, visible=None, reserve=None, oracle=None, null=())
    return Item.sealed(exam, id="house/pinned", instructions="Known answers.", entry=item.task.entry,
                       image=item.task.image, limits=item.task.limits)


def _short(limits: Limits, mechanism: Mechanism) -> Limits:
    seconds = min(mechanism.wall_seconds, _SECONDS)
    return msgspec.structs.replace(limits, wall_seconds=min(limits.wall_seconds, seconds),
                                   cpu_seconds=min(limits.cpu_seconds, seconds))
