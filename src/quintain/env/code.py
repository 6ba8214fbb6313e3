"""The work of writing a program: a function that tests call, or a program that is run on inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import cast

import msgspec

from quintain.env import _words
from quintain.env.base import Answer, Feedback, Inside, Shown, Work
from quintain.grade import (
    LEVEL,
    Grader,
    Health,
    Oracle,
    Scalar,
    describe,
    lexicographic,
    record_states,
    reward_of,
    reward_of_fault,
    sanitise,
)
from quintain.guard import Detector, flags_to_pay_by, inspect_all, standard_detectors
from quintain.program import Answer as Parsed
from quintain.program import Build, assemble, check_source, parse
from quintain.sandbox import Backend, Interactive, Snapshot
from quintain.tasks import Item, PythonSuite, Suite, names_of
from quintain.types import (
    Attempt,
    Evidence,
    Fault,
    FaultKind,
    HouseError,
    Isolation,
    Limits,
    Message,
    Network,
    Owner,
    Passed,
    Program,
    Reward,
    Task,
    TaskError,
    TestResult,
    Turn,
    Verdict,
    content_digest,
)

#: Of the task's files, those that an answer cannot change: they show tests, and are not what is run.
PROTECTED = ("tests_visible/**",)


class CodeEnvironment:
    """Replies become programs, programs meet tests in fresh sandboxes of `backend`, and what is told is what the policy
    may know: what does not build with file and line, failing *visible* tests with what was expected and found, and
    whether the task is solved. Of the hidden tests it is told nothing else, not even how many passed, so that they
    cannot be searched turn by turn.

    A reply with whole files replaces the earlier ones. A diff applies to the latest program, and where it does not, to
    the task's own files (a note says so). Nothing is held between turns. `scalar` makes the number of a reward from its
    vector. With `states` the feedback on a failing visible test also tells what the answer's variables were there.

    `health` watches over the verifiers: no verdict of a sick one leaves here.
    `quality` (one grader, or several as `grade.Quality`) is asked about solved answers, whose total it moves; `claims`
    (such as `grade.ClaimGrader`) about the others. `detectors` (default: all of `guard`) look at each answer that has a
    verdict: hard evidence of a hack is paid as tampering, soft evidence masks the attempt; `()` switches them off.

    Before an answer is judged, test infrastructure that the task never asked for is taken out of its tree (`sanitise`).

    Covers: no text of the exam reaches the policy; a task that asks for a stronger wall or a network is refused rather
    than run without. Does not cover: what the policy can conclude from solved and not solved over its turns.
    """

    kind = "code"

    def __init__(
        self, backend: Backend, *, oracle: Oracle | None = None, scalar: Scalar = lexicographic, states: bool = False,
        quality: Grader | None = None, claims: Grader | None = None, health: Health | None = None,
        detectors: Sequence[Detector] | None = None,
    ) -> None:
        self._backend = backend
        self._oracle = oracle or Oracle(backend)
        self._scalar = scalar
        self._states = states
        self._quality = quality
        self._claims = claims
        self._detectors = standard_detectors() if detectors is None else list(detectors)
        self._health = health
        self._reached: Isolation | None = None
        self._entered: dict[str, AsyncExitStack] = {}

    def opening(self, task: Task) -> tuple[Message, ...]:
        return _words.opening(task)

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        text, submitted = _without_submission(turn.text)
        if submitted and not text.strip() and previous is not None:
            return Answer(program=previous, notes=("the latest answer was handed in",), submitted=True)
        parsed = parse(text, task.entry, finish=turn.finish)
        if isinstance(parsed, Fault):
            return parsed
        built, notes = _assembled(task, parsed, previous)
        if isinstance(built, Fault):
            return built
        wrong = _first_fault(task, built)
        if wrong is not None:
            return wrong
        return Answer(program=built.program, notes=(*built.notes, *notes), submitted=submitted)

    def shows(self, item: Item) -> bool:
        return item.exam.visible is not None

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """The verdict of the visible tests."""
        visible = item.exam.visible
        if visible is None:
            raise TaskError(f"task {item.task.id}: expected visible tests, found none")
        self._check(item.task)
        verdict = await self._oracle.grade(
            visible, program, image=item.task.image, limits=limits, confirm=False,
        )
        _raise_what_is_not_the_policys(verdict)
        if self._states and isinstance(visible, PythonSuite) and not verdict.solved:
            verdict = await self._with_states(item.task, visible, program, verdict, limits)
        return Shown(verdict=verdict)

    async def _with_states(
        self, task: Task, visible: PythonSuite, program: Program, verdict: Verdict, limits: Limits
    ) -> Verdict:
        """The verdict with what the variables were in the first of its failing tests, as evidence."""
        failing = [test.id for test in verdict.tests if test.passed is not Passed.PASSED][:2]
        states = await record_states(self._backend, visible, program, failing, image=task.image, limits=limits)
        if not states:
            return verdict
        seen = Evidence(source=_words.STATES, text=describe(states))
        return msgspec.structs.replace(verdict, evidence=(*verdict.evidence, seen))

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """The verdict of the hidden tests and its reward; for work that does not build, each test counts as missing."""
        hidden = item.exam.hidden
        if work.program is None:
            return _verdict_of_nothing(hidden, work.fault, self._scalar)
        self._check(item.task)
        limits = item.task.limits
        crossed = sanitise(work.program.files, given=item.task.files, allowed=frozenset(item.exam.oracle or {}))
        async with self._watching(hidden, item.task.image, episode):
            verdict = await self._oracle.grade(
                hidden, msgspec.structs.replace(work.program, files=crossed.files), image=item.task.image, seed=seed,
                limits=limits.command.within(limits.turn).within(limits.episode),
            )
        _raise_what_is_not_the_policys(verdict)
        verdict = msgspec.structs.replace(verdict, evidence=(*verdict.evidence, *crossed.evidence))
        turns = tuple(Turn(text=text) for text in work.replies)
        attempt = Attempt(task=item.task, program=work.program, turns=turns, verdict=verdict)
        grader = self._quality if verdict.solved else self._claims
        scores = () if grader is None else await grader.grade(attempt, item)
        flags = await asyncio.to_thread(inspect_all, attempt, item, self._detectors)  # hostile text may take seconds
        reward = reward_of(verdict, scores=scores, flags=flags_to_pay_by(verdict, flags), scalar=self._scalar)
        if reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"task {item.task.id}: a verdict of the policy's has no reward")
        return verdict, reward

    def _watching(self, suite: Suite, image: str, episode: str) -> AbstractAsyncContextManager[None]:
        """Raises HouseError for a verifier that is known to be sick before its verdict, or found sick during it."""
        if self._health is None:
            return nullcontext()
        return self._health.watching(suite, image=image, name=episode)

    def say(self, task: Task, feedback: Feedback) -> Message:
        return _words.feedback(feedback)

    def remembers(self, item: Item) -> bool:
        """Each answer meets its tests in sandboxes of its own."""
        return False

    async def enter(
        self, item: Item, program: Program | None, *, episode: str, limits: Limits, snapshot: Snapshot | None = None,
        prelude: str = "",
    ) -> Inside:
        """A sandbox with the files of `program` (else the task's own) in /work. A snapshot or a prelude would mean
        nothing here: ValueError."""
        if snapshot is not None or prelude:
            raise ValueError("expected neither a snapshot nor a prelude: code leaves nothing behind between its turns")
        self._check(item.task)
        await self.leave(episode)
        async with AsyncExitStack() as stack:
            (box,) = await stack.enter_async_context(self._backend.open(item.task.image, limits=limits))
            if not hasattr(box, "start"):
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the backend {self._backend.name!r} has no "
                                 "sandboxes that can be entered: use native")
            await box.files.write_many(program.files if program is not None else item.task.files)
            self._entered[episode] = stack.pop_all()
        return Inside(sandbox=cast(Interactive, box), workdir="/work")

    async def leave(self, episode: str) -> None:
        """End the sandbox that was entered; of its own accord an episode holds nothing."""
        stack = self._entered.pop(episode, None)
        if stack is not None:
            await stack.aclose()

    async def aclose(self) -> None:
        """End what was entered; the backend is its owner's."""
        for episode in list(self._entered):
            await self.leave(episode)

    def _check(self, task: Task) -> None:
        """Never less than the task asks for, and nothing else than it asks for."""
        if task.kind != self.kind:
            raise TaskError(f"task {task.id}: expected kind = {self.kind!r}, found {task.kind!r}",
                            kind=FaultKind.TASK_ENVIRONMENT)
        if task.network is not Network.NONE:
            raise TaskError(
                f"task {task.id}: code is judged without a network, found network = {task.network.value!r}",
                kind=FaultKind.TASK_ENVIRONMENT,
            )
        strength = list(Isolation)
        self._reached = self._reached or self._backend.probe().isolation  # a probe looks at the whole host: once
        reached = self._reached
        if strength.index(reached) < strength.index(task.isolation):
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"task {task.id} asks for isolation {task.isolation.value!r}; the backend {self._backend.name!r} "
                f"reaches {reached.value!r}",
            )


def _without_submission(text: str) -> tuple[str, bool]:
    """A reply without the line that hands it in, and whether it had one (the last line that is not blank)."""
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != _words.SUBMIT:
        return text, False
    return "\n".join(lines[:-1]), True


def _assembled(task: Task, parsed: Parsed, previous: Program | None) -> tuple[Build | Fault, tuple[str, ...]]:
    if parsed.patch is not None and previous is not None:
        later = msgspec.structs.replace(task, files=previous.files)
        built = assemble(later, parsed, protected=PROTECTED)
        if not isinstance(built, Fault):
            return built, ()
        first = assemble(task, parsed, protected=PROTECTED)
        if not isinstance(first, Fault):
            return first, ("the diff was applied to the files as given: it does not apply to the latest answer",)
        return built, ()
    return assemble(task, parsed, protected=PROTECTED), ()


def _first_fault(task: Task, built: Build) -> Fault | None:
    """What the text of the answer's own files shows to be wrong, the entry file first."""
    entry = task.entry
    paths = sorted({*built.own_files, entry.path}, key=lambda path: (path != entry.path, path))
    found = (check_source(path, built.program.files[path], entry=entry) for path in paths)
    return next((fault for fault in found if fault is not None), None)


def _verdict_of_nothing(hidden: Suite, fault: Fault | None, scalar: Scalar) -> tuple[Verdict, Reward]:
    reward = reward_of_fault(fault, scalar=scalar) if fault is not None else None
    if fault is None or reward is None:
        raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a fault of the policy's to grade, found {fault}")
    missing = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in names_of(hidden))
    verdict = Verdict(suite=content_digest(hidden), level=LEVEL, tests=missing, fault=fault)
    return verdict, msgspec.structs.replace(reward, suite=verdict.suite, level=verdict.level)


def _raise_what_is_not_the_policys(verdict: Verdict) -> None:
    """Raises TaskError or HouseError for a verdict that holds a fault of either."""
    faults = [verdict.fault, *(test.fault for test in verdict.tests)]
    for fault in faults:
        if fault is None or fault.owner is Owner.POLICY:
            continue
        if fault.owner is Owner.TASK:
            raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
        raise HouseError(fault.kind, fault.message)
