"""The order of rewards holds whatever the verdict: solved above unsolved, tampering worst, time-outs never better."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import cost_of, reward_of, reward_of_fault
from quintain.types import (
    CLASS_OF,
    Fault,
    FaultKind,
    Flag,
    Owner,
    Passed,
    Score,
    Severity,
    TestResult,
    Trainable,
    Verdict,
)

KINDS = {letter: [k for k, found in CLASS_OF.items() if found == letter] for letter in "ABCDEFGHI"}
RUNNING = [*KINDS["C"], *KINDS["D"], *KINDS["E"], *KINDS["F"]]


def fault(kind: FaultKind, owner: Owner = Owner.POLICY) -> Fault:
    return Fault(owner=owner, kind=kind, message="why")


def verdict(passed: int, kinds: list[FaultKind]) -> Verdict:
    tests = [TestResult(id=f"p{n}", passed=Passed.PASSED) for n in range(passed)]
    tests += [TestResult(id=f"f{n}", passed=Passed.FAILED, fault=fault(kind)) for n, kind in enumerate(kinds)]
    return Verdict(suite="s", level="L4", tests=tuple(tests))


def total(found: Verdict, scores: tuple[Score, ...] = ()) -> float:
    reward = reward_of(found, scores=scores)
    assert reward is not None
    return reward.total


SCORES = st.lists(st.builds(
    Score, name=st.text(max_size=3), value=st.none() | st.floats(0, 1), weight=st.floats(0, 5),
), max_size=4).map(tuple)
SOLVED = st.integers(1, 9).map(lambda n: verdict(n, []))
UNSOLVED = st.builds(verdict, st.integers(0, 9), st.lists(st.sampled_from(RUNNING), min_size=1, max_size=9))


@given(SOLVED, SCORES, UNSOLVED, SCORES)
def test_any_solved_attempt_is_above_any_unsolved_one(
    solved: Verdict, good: tuple[Score, ...], unsolved: Verdict, bad: tuple[Score, ...]
) -> None:
    assert total(solved, good) >= 0.58 > 0.45 >= total(unsolved, bad)


@given(UNSOLVED, SCORES)
def test_quality_never_moves_an_unsolved_attempt(unsolved: Verdict, scores: tuple[Score, ...]) -> None:
    assert total(unsolved, scores) == total(unsolved)


@given(st.one_of(SOLVED, UNSOLVED), SCORES)
def test_tampering_is_worst_and_forfeits_everything(found: Verdict, scores: tuple[Score, ...]) -> None:
    flag = Flag(detector="canary", severity=Severity.HARD, evidence="a canary passed")
    reward = reward_of(found, scores=scores, flags=[flag])
    assert reward is not None
    assert (reward.total, reward.solved, reward.trainable) == (-1.0, False, Trainable.YES)
    caught = msgspec.structs.replace(found, fault=fault(FaultKind.TAMPER))
    assert total(caught) == -1.0 < total(found)


@given(st.integers(0, 8), st.integers(1, 8), st.sampled_from(KINDS["E"]), st.sampled_from(KINDS["D"]))
def test_a_time_out_never_beats_failing_the_same_tests(
    passed: int, failed: int, slow: FaultKind, wrong: FaultKind
) -> None:
    assert total(verdict(passed, [slow] * failed)) < total(verdict(passed, [wrong] * failed))


@given(st.integers(0, 8), st.integers(1, 8), st.sampled_from(RUNNING))
def test_passing_one_more_test_never_costs(passed: int, failed: int, kind: FaultKind) -> None:
    assert total(verdict(passed + 1, [kind] * (failed - 1) or [kind])) >= total(verdict(passed, [kind] * failed))


@given(*(st.sampled_from(KINDS[letter]) for letter in "GABEC"))
def test_the_classes_keep_their_order(g: FaultKind, a: FaultKind, b: FaultKind, e: FaultKind, c: FaultKind) -> None:
    totals = [cost_of(fault(kind)) for kind in (g, a, b, e, c)]
    assert totals == sorted(totals)
    assert cost_of(fault(c)) <= total(verdict(0, [FaultKind.ASSERTION_ERROR]))


@pytest.mark.parametrize("owner", [Owner.TASK, Owner.HOUSE])
def test_what_is_not_the_policys_has_no_reward(owner: Owner) -> None:
    other = fault(FaultKind.TASK_ENVIRONMENT, owner)
    assert reward_of_fault(other) is None
    assert reward_of(msgspec.structs.replace(verdict(2, []), fault=other)) is None
    tests = (TestResult(id="t", passed=Passed.FAILED, fault=other),)
    assert reward_of(Verdict(suite="s", level="L4", tests=tests)) is None


def test_no_result_forfeits_partial_credit() -> None:
    assert total(verdict(9, [FaultKind.EARLY_EXIT])) == cost_of(fault(FaultKind.EARLY_EXIT))


def test_a_soft_flag_masks_and_does_not_punish() -> None:
    flag = Flag(detector="style", severity=Severity.SOFT, evidence="odd")
    reward = reward_of(verdict(3, []), flags=[flag])
    assert reward is not None
    assert (reward.trainable, reward.total) == (Trainable.MASK, total(verdict(3, [])))


def test_the_vector_says_what_the_total_was_made_of() -> None:
    reward = reward_of(verdict(1, [FaultKind.TIMEOUT]))
    assert reward is not None
    found = {score.name: score for score in reward.scores}
    assert found["integrity"].value == 1.0
    assert (found["solved"].value, found["solved"].evidence) == (0.0, "1/2 tests")
    assert found["partial"].value == 0.5
    assert "timeout" in found["error_class"].evidence
    assert reward.total == pytest.approx(0.35 * 0.5 - 0.30)
