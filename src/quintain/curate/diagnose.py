"""Failed answers judged once more, to learn whether the tests agree with themselves. A diagnosis, no second chance.

What failed and passes on the retry is masked: it stays unsolved, has no reward to train on, and its test is the one
that is looked at. Covers: a failure that is one throw of a test's (or the answer's) dice. Does not cover: a test that
fails twice in a row on a right answer; answers of which less than `share` of the tests pass are not asked again, since
a retry costs as much as a verdict.
"""

from __future__ import annotations

import msgspec

from quintain.curate.sighting import is_torn
from quintain.env import Around, Environment, Work
from quintain.tasks import Item
from quintain.types import (
    CLASS_OF,
    Evidence,
    Fault,
    FaultKind,
    Flag,
    Owner,
    Passed,
    Reward,
    Severity,
    TestResult,
    Trainable,
    Verdict,
)

#: At least this share of the tests must have passed for a failed answer to be asked again.
SHARE = 0.5
#: Failures that a test's own dice can cause, by class: runtime, wrong, limits, no result, and runs that differ.
_BY_CHANCE = frozenset("CDEFJ")


class Diagnosing(Around):
    """Another environment whose failed verdicts are reached once more, with another seed, where the answer was nearly
    right. Keeps `Environment`; raises what it raises."""

    def __init__(self, inner: Environment, *, share: float = SHARE) -> None:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be in [0, 1], found {share}")
        super().__init__(inner)
        self._share = share

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """The first verdict and its reward; masked where the retry contradicts it."""
        verdict, reward = await self._inner.grade(item, work, episode=episode, seed=seed)
        if work.program is None or not _may_be_chance(verdict, self._share):
            return verdict, reward
        again, _ = await self._inner.grade(item, work, episode=episode, seed=(seed + 7919) % 2**31)
        return diagnosed(verdict, reward, again)


def diagnosed(verdict: Verdict, reward: Reward, again: Verdict) -> tuple[Verdict, Reward]:
    """What a failed verdict is worth once it was reached again. Unchanged where both say the same of every test;
    otherwise the failed tests that passed again are `conflicting_runs`, and the reward is masked."""
    replace = msgspec.structs.replace
    second = {test.id: test for test in again.tests}
    torn = [
        test.id for test in verdict.tests if test.passed is not Passed.PASSED
        and (test.id in second and (second[test.id].passed is Passed.PASSED or is_torn(second[test.id])))
    ]
    if not torn:
        return verdict, reward
    tests = tuple(_conflict(test) if test.id in torn else test for test in verdict.tests)
    told = f"failed, and passed again: {', '.join(torn)}"
    flag = Flag(detector="retry", severity=Severity.SOFT, evidence=told)
    mask = Trainable.MASK if reward.trainable is Trainable.YES else reward.trainable
    return (
        replace(verdict, tests=tests, evidence=(*verdict.evidence, Evidence(source="retry", text=told))),
        replace(reward, flags=(*reward.flags, flag), trainable=mask),
    )


def _conflict(test: TestResult) -> TestResult:
    """What passed once and failed in the confirmation keeps that name: it was two trials, and not one."""
    if test.fault is not None and test.fault.kind is FaultKind.NONDETERMINISTIC:
        return test
    said = f": {test.fault.message}" if test.fault is not None else ""
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.CONFLICTING_RUNS, message=f"failed once, and passed again{said}")
    return msgspec.structs.replace(test, fault=fault)


def _may_be_chance(verdict: Verdict, share: float) -> bool:
    if verdict.solved or verdict.share < share or verdict.share == 1.0:
        return False
    faults = [verdict.fault, *(test.fault for test in verdict.tests if test.passed is not Passed.PASSED)]
    return all(fault is None or CLASS_OF[fault.kind] in _BY_CHANCE for fault in faults)


def _is_an_environment(one: Diagnosing) -> Environment:
    """The type checker's word that it keeps the protocol."""
    return one
