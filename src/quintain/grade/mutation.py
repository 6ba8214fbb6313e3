"""How many small faults a suite notices: the mutation score.

Each mutant of the code is run as the oracle runs an answer: code in one sandbox, tests in another. Covers: a suite that
fails on the code itself, in any of several runs, is worth nothing, so that guessing does not pay; a mutant with the
compiled code of the original is none, and one that not even a stronger suite tells from the original is left out and
counted. Does not cover: equivalence that no input at hand shows; without a stronger suite such mutants count as
survivors. After MIST-RL (arXiv 2603.01409): the value of a test is what it kills and no earlier one did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from quintain.grade._subject import TEST_WRITING, Measured, written_tests
from quintain.grade._together import together
from quintain.grade.mutant import Mutant, mutants_of
from quintain.grade.oracle import Oracle
from quintain.sandbox import DEFAULT_LIMITS
from quintain.tasks import Item, PythonSuite, Suite
from quintain.types import Attempt, FaultKind, Limits, Passed, Program, Score, Verdict

#: A mutant may take so many times the CPU of the original, and so many seconds more.
MUTANT_CPU = (8.0, 0.2)
#: How often an untrusted suite must pass on the original, before and after the mutants.
ORIGINALS = 8


class Kills(msgspec.Struct, frozen=True, kw_only=True):
    """What a suite noticed. `mutants` are (path, mutant), those left out as equivalent not among them; `by` has for
    each of them the tests that failed, empty where it survived. `sound` says that the suite passes on the original; if
    not, `why` names the first reason and nothing was run. `equivalent` counts what was left out."""

    mutants: tuple[tuple[str, Mutant], ...] = ()
    by: tuple[tuple[str, ...], ...] = ()
    equivalent: int = 0
    sound: bool = True
    why: str = ""

    @property
    def killed(self) -> int:
        return sum(map(bool, self.by))

    @property
    def rate(self) -> float | None:
        """Share of the mutants that were killed, in [0, 1]; 0 for a suite that fails on the original; None where there
        is no mutant."""
        if not self.sound:
            return 0.0
        return self.killed / len(self.mutants) if self.mutants else None

    @property
    def survivors(self) -> tuple[tuple[str, Mutant], ...]:
        return tuple(one for one, by in zip(self.mutants, self.by, strict=True) if not by)

    def newly(self, tests: Sequence[str] | None = None) -> dict[str, int]:
        """How many mutants each test kills that none before it did; in the order of `tests`, or that in which they were
        first seen to kill."""
        order = list(dict.fromkeys(name for by in self.by for name in by)) if tests is None else list(tests)
        left = [set(by) for by in self.by if by]
        value: dict[str, int] = {}
        for name in order:
            value[name] = sum(name in by for by in left)
            left = [by for by in left if name not in by]
        return value


async def kill_rate(
    oracle: Oracle, suite: Suite, program: Program, *, paths: Iterable[str] | None = None, image: str = "host",
    limits: Limits = DEFAULT_LIMITS, stronger: Suite | None = None, trusted: bool = True, most: int | None = None,
    seed: int = 0, at_once: int | None = None, changed: Sequence[tuple[str, Mutant]] | None = None,
) -> Kills:
    """What `suite` notices of the mutants of `program`: of those of its files `paths` (default: all Python files), at
    most `most` of them drawn by `seed`, or of the `changed` ones given. `limits` bound the original; a mutant gets
    MUTANT_CPU of what that took. `stronger` is asked about survivors: those that it does not tell from the original
    either are left out. `trusted=False`: the tests are somebody's answer. `at_once` defaults to the CPUs.

    Raises HouseError.
    """
    runner = _Runner(oracle, program, image=image, trusted=trusted, seed=seed)
    seconds = 0.0
    for number in range(1 if trusted else ORIGINALS // 2):
        verdict = await runner.original(suite, limits, number)
        if not verdict.solved:
            return Kills(sound=False, why=_reason(verdict))
        seconds = max(seconds, verdict.cpu_seconds or 0.0)
    tight = msgspec.structs.replace(limits, cpu_seconds=min(
        limits.cpu_seconds, MUTANT_CPU[0] * seconds + MUTANT_CPU[1]))
    files = {p: c for p, c in program.files.items() if paths is None or p in set(paths)}
    todo = list(changed) if changed is not None else mutants_of(files, limit=most, seed=seed)
    width = at_once or len(os.sched_getaffinity(0))
    by = await runner.all(suite, todo, tight, width)
    for number in range(0 if trusted else ORIGINALS - ORIGINALS // 2):
        verdict = await runner.original(suite, tight, ORIGINALS + number)
        if not verdict.solved:
            return Kills(sound=False, why=_reason(verdict))
    equivalent: set[int] = set()
    if stronger is not None:
        survived = [at for at, names in enumerate(by) if not names]
        again = await _Runner(oracle, program, image=image, trusted=True, seed=seed).all(
            stronger, [todo[at] for at in survived], limits, width)
        equivalent = {at for at, names in zip(survived, again, strict=True) if not names}
    kept = [at for at in range(len(todo)) if at not in equivalent]
    return Kills(mutants=tuple(todo[at] for at in kept), by=tuple(by[at] for at in kept), equivalent=len(equivalent))


class _Runner:
    """Runs suites against one program and its mutants."""

    def __init__(self, oracle: Oracle, program: Program, *, image: str, trusted: bool, seed: int) -> None:
        self._oracle = oracle
        self._program = program
        self._image = image
        self._trusted = trusted
        self._seed = seed

    async def original(self, suite: Suite, limits: Limits, number: int) -> Verdict:
        return await self._run(suite, self._program, limits, self._seed + number)

    async def all(
        self, suite: Suite, todo: Sequence[tuple[str, Mutant]], limits: Limits, width: int
    ) -> list[tuple[str, ...]]:
        """For each mutant the tests that fail on it, `width` of them at a time."""
        async def run(one: tuple[int, tuple[str, Mutant]]) -> tuple[str, ...]:
            at, (path, mutant) = one
            changed = {**self._program.files, path: mutant.source}
            program = msgspec.structs.replace(self._program, files=changed)
            verdict = await self._run(suite, program, limits, self._seed + at)
            return () if verdict.solved else _failed(verdict)

        return await together(run, list(enumerate(todo)), at_once=width)

    async def _run(self, suite: Suite, program: Program, limits: Limits, seed: int) -> Verdict:
        if isinstance(suite, PythonSuite):
            examined = await self._oracle.examine(
                suite, program.files, image=self._image, limits=limits, seed=seed, trusted=self._trusted)
            return examined.verdict
        return await self._oracle.grade(
            suite, program, image=self._image, limits=limits, seed=seed, confirm=False)


def _failed(verdict: Verdict) -> tuple[str, ...]:
    """The tests that noticed; one name for the suite where it ended as a whole. An untrusted suite that ends its own
    run has noticed nothing."""
    if verdict.fault is not None and verdict.fault.kind is FaultKind.EARLY_EXIT and not any(
        test.passed is Passed.FAILED for test in verdict.tests
    ):
        return ()
    return tuple(test.id for test in verdict.tests if test.passed is not Passed.PASSED) or ("the suite",)


def _reason(verdict: Verdict) -> str:
    fault = verdict.fault or next((test.fault for test in verdict.tests if test.fault), None)
    return str(fault) if fault is not None else "there is no test"


class Mutation:
    """Scores `mutation`, where the work is to write tests: the share of the mutants of the given code that the answer's
    tests kill, of those that neither the given (visible) tests kill already nor even the exam's suite leaves alive. 0
    for tests that fail on the code itself. Other kinds of work have no such score.

    `most` bounds the mutants of one attempt, drawn by the task, so that all attempts at it meet the same ones.
    """

    name = "mutation"

    def __init__(
        self, oracle: Oracle, *, most: int = 60, weight: float = 0.0, at_once: int | None = None
    ) -> None:
        self._oracle = oracle
        self._most = most
        self._weight = weight
        self._at_once = at_once

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """One score, or none for other work. Raises HouseError."""
        if item.task.kind != TEST_WRITING:
            return ()
        found = written_tests(attempt, item)
        if isinstance(found, str):
            return (self._score(0.0 if attempt.program is not None else None, found),)
        limits = item.task.limits
        command = limits.command.within(limits.turn).within(limits.episode)
        seed = int(item.task.version[:8] or "0", 16)
        changed = mutants_of({p: found.files[p] for p in found.paths}, limit=self._most, seed=seed)
        changed = await self._unknown(item, found, changed, command)
        kills = await kill_rate(
            self._oracle, found.suite, Program(files=found.files), image=item.task.image, limits=command,
            stronger=item.exam.hidden, trusted=False, changed=changed, at_once=self._at_once, seed=seed)
        if not kills.sound:
            return (self._score(0.0, f"the tests fail on the code that they are for: {kills.why}"),)
        if kills.rate is None:
            return (self._score(None, "there is no mutant that any suite kills"),)
        return (self._score(kills.rate, _told(kills)),)

    async def _unknown(
        self, item: Item, found: Measured, changed: list[tuple[str, Mutant]], limits: Limits
    ) -> list[tuple[str, Mutant]]:
        """The mutants that the given tests leave alive; all where there are none, or they kill everything."""
        if item.exam.visible is None:
            return changed
        known = await kill_rate(
            self._oracle, item.exam.visible, Program(files=found.files), image=item.task.image, limits=limits,
            changed=changed, at_once=self._at_once)
        return list(known.survivors) or changed if known.sound else changed

    def _score(self, value: float | None, evidence: str) -> Score:
        return Score(name="mutation", value=value, weight=self._weight, evidence=evidence)


def _told(kills: Kills) -> str:
    value = ", ".join(f"{name} {count}" for name, count in list(kills.newly().items())[:8])
    alive = "; ".join(str(mutant) for _, mutant in kills.survivors[:3])
    return (f"killed {kills.killed} of {len(kills.mutants)}, {kills.equivalent} left out as equivalent; new by test: "
            f"{value or 'none'}" + (f"; alive: {alive}" if alive else ""))
