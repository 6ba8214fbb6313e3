"""Work whose answer is files, as code is, and whose worth is more than that its tests pass: each kind has a judge."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from quintain.env.around import Around
from quintain.env.base import Shown, Work
from quintain.env.code import CodeEnvironment
from quintain.grade import LEVEL, Oracle, Scalar, lexicographic, measured, reward_of, reward_of_fault, sanitise
from quintain.sandbox import Backend
from quintain.tasks import Item
from quintain.types import (
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Owner,
    Passed,
    Program,
    Reward,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

#: The score that stands in the place of the partial credit (`grade.reward_of`).
WORTH = "test_value"


class Judge(Protocol):
    """Who says what an answer is: for whoever needs verdicts and no rewards, as admission does."""

    async def verdict(self, item: Item, program: Program) -> Verdict:
        """Raises TaskError, HouseError."""
        ...


class Judging(Around):
    """Replies become programs as in `CodeEnvironment`; `_judged` says what they are worth, in sandboxes of `backend`.

    Covers: test infrastructure that the task never asked for does not reach the judge (`sanitise`).
    """

    def __init__(
        self, backend: Backend, *, kind: str, asked: tuple[str, ...], oracle: Oracle | None = None,
        scalar: Scalar = lexicographic,
    ) -> None:
        self._oracle = oracle or Oracle(backend)
        super().__init__(CodeEnvironment(backend, oracle=self._oracle, detectors=()))
        self._backend = backend
        self._scalar = scalar
        self._kind = kind
        self._asked = asked

    @property
    def kind(self) -> str:
        return self._kind

    @abstractmethod
    async def _judged(self, item: Item, program: Program) -> tuple[Verdict, float, str]:
        """The verdict of an answer, what it is worth in [0, 1] where it is not solved, and why."""

    async def verdict(self, item: Item, program: Program) -> Verdict:
        """The verdict of an answer. Raises TaskError, HouseError."""
        return (await self._judged(item, self._crossed(item, program)))[0]

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """The verdict of the visible tests, where there are any."""
        visible = item.exam.visible
        if visible is None:
            return Shown()
        verdict = await self._oracle.grade(visible, program, image=item.task.image, limits=limits, confirm=False)
        raise_what_is_not_the_policys(verdict)
        return Shown(verdict=verdict)

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        if work.program is None:
            return self._of_nothing(item, work.fault)
        verdict, worth, why = await self._judged(item, self._crossed(item, work.program))
        reward = reward_of(verdict, scores=(measured(WORTH, worth, evidence=why),), scalar=self._scalar)
        if reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"task {item.task.id}: a verdict of the policy's has no reward")
        return verdict, reward

    def _crossed(self, item: Item, program: Program) -> Program:
        crossed = sanitise(program.files, given=item.task.files, allowed=frozenset(item.exam.oracle or {}))
        return Program(files=crossed.files, argv=program.argv, language=program.language)

    def _of_nothing(self, item: Item, fault: Fault | None) -> tuple[Verdict, Reward]:
        reward = reward_of_fault(fault, scalar=self._scalar) if fault is not None else None
        if fault is None or reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a fault of the policy's to grade, found {fault}")
        missing = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in self._asked)
        return Verdict(suite=content_digest(item.exam.hidden), level=LEVEL, tests=missing, fault=fault), reward


def result(name: str, good: bool, why: str = "", *, kind: FaultKind = FaultKind.WRONG_ANSWER) -> TestResult:
    """What is asked of an answer, and whether it is so."""
    fault = None if good else Fault(owner=Owner.POLICY, kind=kind, message=why or f"{name} is not so")
    return TestResult(id=name, passed=Passed.PASSED if good else Passed.FAILED, fault=fault)


def command_of(item: Item) -> Limits:
    """What one command of an answer may use."""
    limits = item.task.limits
    return limits.command.within(limits.turn).within(limits.episode)


def raise_what_is_not_the_policys(verdict: Verdict) -> None:
    """Raises TaskError or HouseError for a verdict that holds a fault of either."""
    for fault in (verdict.fault, *(test.fault for test in verdict.tests)):
        if fault is None or fault.owner is Owner.POLICY:
            continue
        if fault.owner is Owner.TASK:
            raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
        raise HouseError(fault.kind, fault.message)
