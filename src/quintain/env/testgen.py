"""The work of writing tests: the answer is a suite for a program that is given, and is worth what it notices.

After MIST-RL (arXiv 2603.01409) and CURE (arXiv 2506.03136): mutants killed, on condition that the tests pass on the
program itself, which is asked again and again, so that neither wrong nor guessing tests are worth anything.
"""

from __future__ import annotations

import secrets

import msgspec

from quintain.env import _words
from quintain.env._test_value import Reference, Value, is_test, judged_value, reference_of
from quintain.env.around import Around
from quintain.env.base import Shown, Work
from quintain.env.code import CodeEnvironment
from quintain.grade import LEVEL, Oracle, Scalar, lexicographic, measured, reward_of, reward_of_fault
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import (
    Evidence,
    Fault,
    FaultKind,
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
    Verdict,
    content_digest,
)

#: What is asked of a suite, as the tests of its verdict.
ASKED = ("passes_on_the_program", "kills_mutants", "runs_the_lines")
_REMEMBERED = 256


class TestWritingEnvironment(Around):
    """Tasks of the kind `testgen`: files that are given, an exam whose hidden suite is the author's tests for them.

    The answer's tests are run in the verifier's sandbox, the program in another, as everywhere; on the program as it is
    (8 times, with other seeds), and on at most `most` mutants of it that the reference notices. Solved is who passes
    on the program, kills at least `enough` of the mutants and runs `enough` of the lines and ways that the reference
    runs; the score `test_value` (share killed × share run, 0 for tests that fail on the program, beyond
    that of tests that there are already) pays the others.
    Feedback is how the answer's own tests go on the program, and solved or not: never which mutant is alive.

    Covers: tests that always fail, that guess, that know which run it is by its seed or its place in the row, that end
    their run early or write the report (`grade.judge`): none kills anything. Does not cover: tests that keep the given
    program's text and compare with it, which notice every change, and do so for any program.
    """

    __test__ = False

    def __init__(
        self, backend: Backend, *, oracle: Oracle | None = None, scalar: Scalar = lexicographic, most: int = 40,
        enough: float = 0.9,
    ) -> None:
        if not 0 < enough <= 1 or most < 1:
            raise ValueError(f"expected 0 < enough <= 1 and most >= 1, found {enough!r} and {most!r}")
        self._oracle = oracle or Oracle(backend)
        super().__init__(CodeEnvironment(backend, oracle=self._oracle, detectors=()))
        self._backend = backend
        self._scalar = scalar
        self._most = most
        self._enough = enough
        self._known: dict[str, Reference] = {}
        self._bases: dict[str, float] = {}

    @property
    def kind(self) -> str:
        return "testgen"

    def opening(self, task: Task) -> tuple[Message, ...]:
        how = (f"Reply with the whole content of `{task.entry.path}` in one fenced block tagged `python`. You are told "
               "how your tests go on the program, and may answer again.")
        return (Message(role=Role.SYSTEM, text=how),
                Message(role=Role.USER, text="\n\n".join([task.instructions.rstrip("\n"), *_words.shown_files(task)])))

    def shows(self, item: Item) -> bool:
        return True

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """How the answer's tests go on the program as it is, once."""
        examined = await self._oracle.examine(
            suite_in(item, program), item.task.files, image=item.task.image, limits=limits, trusted=False)
        return Shown(verdict=_the_policys(examined.verdict))

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """What the answer's tests are worth. Raises TaskError for a reference that fails on the program."""
        if work.program is None:
            return self._of_nothing(item, work.fault)
        verdict, value = await self.judged(item, work.program)
        base = await self._given_worth(item)
        worth = max(0.0, (value.worth - base) / (1.0 - base)) if base < 1.0 else 0.0
        scores = (measured("test_value", worth, evidence=str(value)),)
        reward = reward_of(verdict, scores=scores, scalar=self._scalar)
        if reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"task {item.task.id}: a verdict of the policy's has no reward")
        return verdict, reward

    async def _given_worth(self, item: Item) -> float:
        """What the tests are worth that there are already: nobody is paid for those."""
        if not any(map(is_test, item.task.files)):
            return 0.0
        known = self._bases.get(item.task.version)
        if known is None:
            known = (await self.judged(item, Program(files=item.task.files)))[1].worth
            while len(self._bases) >= _REMEMBERED:
                self._bases.pop(next(iter(self._bases)))
            self._bases[item.task.version] = known
        return known

    async def verdict(self, item: Item, program: Program) -> Verdict:
        """The verdict of an answer's tests. Raises TaskError, HouseError."""
        return (await self.judged(item, program))[0]

    async def judged(self, item: Item, program: Program) -> tuple[Verdict, Value]:
        """The verdict of an answer's tests, and what they are worth, without a reward."""
        limits = item.task.limits
        command = limits.command.within(limits.turn).within(limits.episode)
        known = self._known.get(item.task.version)
        if known is None:
            known = await reference_of(item, self._backend, self._oracle, limits=command, most=self._most)
            while len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[item.task.version] = known
        value = await judged_value(item, suite_in(item, program), known, self._backend, self._oracle, limits=command,
                                   seed=secrets.randbits(31))
        passed = (value.sound, value.sound and value.kill_share >= self._enough,
                  value.sound and value.run_share >= self._enough)
        fault = None if value.sound else Fault(
            owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER,
            message=f"the tests do not pass on the program that they are for: {value.why}")
        tests = tuple(TestResult(id=name, passed=Passed.PASSED if good else Passed.FAILED,
                                 fault=fault if name == ASKED[0] else None)
                      for name, good in zip(ASKED, passed, strict=True))
        return Verdict(suite=content_digest(item.exam.hidden), level=LEVEL, tests=tests,
                       evidence=(Evidence(source="mutants", text=str(value)),), cpu_seconds=value.cpu_seconds), value

    def _of_nothing(self, item: Item, fault: Fault | None) -> tuple[Verdict, Reward]:
        reward = reward_of_fault(fault, scalar=self._scalar) if fault is not None else None
        if fault is None or reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a fault of the policy's to grade, found {fault}")
        missing = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in ASKED)
        return Verdict(suite=content_digest(item.exam.hidden), level=LEVEL, tests=missing, fault=fault), reward


def suite_in(item: Item, program: Program) -> PythonSuite:
    """The tests of an answer: all its files that were not given, and the given tests as they were. Raises
    TaskError for a task of another kind."""
    reference = item.exam.hidden
    if not isinstance(reference, PythonSuite):
        raise TaskError(f"task {item.task.id}: expected Python tests as the reference, found "
                        f"{type(reference).__name__}")
    own = {path: content for path, content in program.files.items() if path not in item.task.files}
    given = {path: content for path, content in item.task.files.items() if is_test(path)}
    return PythonSuite(files={**own, **given}, modules=reference.modules)


def _the_policys(verdict: Verdict) -> Verdict:
    """The same verdict, whose faults are all the policy's: tests and program are as it knows them."""
    def owned(fault: Fault | None) -> Fault | None:
        return None if fault is None else msgspec.structs.replace(fault, owner=Owner.POLICY)

    tests = tuple(msgspec.structs.replace(test, fault=owned(test.fault)) for test in verdict.tests)
    return msgspec.structs.replace(verdict, tests=tests, fault=owned(verdict.fault))
