"""The work of answering a question: one reply, one value, judged without running anything of the policy's."""

from __future__ import annotations

import asyncio

import msgspec

from quintain.env import _words
from quintain.env.base import Answer, Feedback, Shown, Work
from quintain.grade import (
    Algebra,
    Same,
    Scalar,
    check_answer,
    check_procedural,
    extract_answer,
    lexicographic,
    reward_of,
    reward_of_fault,
    same_answer,
)
from quintain.sandbox import Backend
from quintain.tasks import AnswerKind, AnswerSuite, Item
from quintain.types import (
    Fault,
    FaultKind,
    Finish,
    HouseError,
    Limits,
    Message,
    Owner,
    Passed,
    Program,
    Reward,
    Role,
    Task,
    TaskError,
    TestResult,
    Turn,
    Verdict,
    content_digest,
)

_HOW = ("Answer the question. You may think as long as you like in your reply; what counts is its last answer, in "
        "\\boxed{} or on a line of its own that begins with `####` or `Answer:`. Several answers are one list, and "
        "right only where the list is.")
_NO_ANSWER = "no answer is given: expected \\boxed{...}, or a last line `#### ...` or `Answer: ...`"


class MathEnvironment:
    """Questions whose exam is an `AnswerSuite`: a value compared by mathematics or as text, or by the program that made
    the question, which runs in a sandbox of `backend`. A reply with an answer is handed in; one without is told so, and
    costs its turn. Where a task is graded each turn, the policy is told right or wrong and may answer again.

    `trusted_level` is the level from which on solved is paid as solved: comparing a value is L4, a question's own
    program L2. The process that compares formulas (extra `math`) starts at the first that needs it; `aclose` ends it.

    Covers: naming many answers is one try, for a list is compared as a list; no text is evaluated as code; an answer
    without a value (0/0) is a wrong one and cannot break its own episode. Does not cover: guessing a value that is
    likely; a right answer in a writing that nothing decides, which is called wrong; what `grade.Algebra` does not.
    """

    kind = "math"

    def __init__(self, backend: Backend, *, scalar: Scalar = lexicographic, trusted_level: str = "L3") -> None:
        self._backend = backend
        self._scalar = scalar
        self._trusted_level = trusted_level
        self._algebra = Algebra()

    def opening(self, task: Task) -> tuple[Message, ...]:
        return (Message(role=Role.SYSTEM, text=_HOW), Message(role=Role.USER, text=task.instructions))

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        """The program is the reply as it is, under the task's entry."""
        if extract_answer(turn.text) is None:
            kind = FaultKind.TRUNCATED if turn.finish is Finish.LENGTH else FaultKind.NO_ANSWER
            return Fault(owner=Owner.POLICY, kind=kind, message=_NO_ANSWER)
        reply = turn.text.encode("utf-8", "replace")
        return Answer(program=Program(files={task.entry.path: reply}, language="text"), submitted=True)

    def shows(self, item: Item) -> bool:
        return False

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """There is nothing to be shown."""
        return Shown()

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """The verdict of the last reply. Raises HouseError where sameness cannot be decided, TaskError for an expected
        answer that means nothing."""
        suite = _suite_of(item)
        if work.program is None:
            return self._of_nothing(suite, work.fault)
        reply = work.program.files.get(item.task.entry.path, b"").decode("utf-8", "replace")
        if suite.kind is AnswerKind.PROCEDURAL:
            verdict = await check_procedural(self._backend, suite, reply)
        else:
            verdict = await asyncio.to_thread(self._checked, suite, reply)
        fault = verdict.fault
        if fault is not None and fault.owner is Owner.TASK:
            raise TaskError(fault.message, kind=fault.kind)
        reward = reward_of(verdict, scalar=self._scalar, trusted_level=self._trusted_level)
        if reward is None:
            told = fault or next((test.fault for test in verdict.tests if test.fault), None)
            raise HouseError(told.kind if told else FaultKind.VERIFIER_ERROR, f"task {item.task.id}: {told}")
        return verdict, reward

    def say(self, task: Task, feedback: Feedback) -> Message:
        return _words.feedback(feedback)

    async def leave(self, episode: str) -> None:
        """An episode holds nothing."""

    async def aclose(self) -> None:
        """End the process that compares formulas; the backend is its owner's."""
        await asyncio.to_thread(self._algebra.close)

    def _checked(self, suite: AnswerSuite, reply: str) -> Verdict:
        """Whether an answer is right. One that cannot be decided is wrong where the expected answer is seen to differ
        from another one: the judge works, and the trouble is in what was given (0/0), or whoever knows no answer would
        say that and have the episode thrown away. Else it is the house's failure."""
        verdict = check_answer(suite, reply, algebra=self._algebra)
        if verdict.fault is None or verdict.fault.kind is not FaultKind.JUDGES_DISAGREE:
            return verdict
        other = same_answer(f"{suite.expected} + 1", suite.expected, algebra=self._algebra)
        if other.same is not Same.NO:
            return verdict
        given = (extract_answer(reply) or "")[:200]
        told = f"{given!r} cannot be told to be the answer: {verdict.fault.message[-200:]}"
        wrong = Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message=told)
        failed = tuple(TestResult(id=test.id, passed=Passed.FAILED, fault=wrong) for test in verdict.tests)
        return msgspec.structs.replace(verdict, tests=failed, fault=None)

    def _of_nothing(self, suite: AnswerSuite, fault: Fault | None) -> tuple[Verdict, Reward]:
        reward = reward_of_fault(fault, scalar=self._scalar) if fault is not None else None
        if fault is None or reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a fault of the policy's to grade, found {fault}")
        missing = (TestResult(id="answer", passed=Passed.MISSING, fault=fault),)
        verdict = Verdict(suite=content_digest(suite), level="L4", tests=missing, fault=fault)
        return verdict, reward


def _suite_of(item: Item) -> AnswerSuite:
    suite = item.exam.hidden
    if not isinstance(suite, AnswerSuite):
        raise TaskError(f"task {item.task.id}: expected one answer (an AnswerSuite) for kind = 'math', found "
                        f"{type(suite).__name__}")
    return suite
