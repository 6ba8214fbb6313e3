"""What holds of the reward of any verdict at all, whoever made it: the order, and what is in no baseline."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import reward_of
from quintain.grade.judge import both, headline, replays
from quintain.types import (
    CLASS_OF,
    Attribution,
    Episode,
    Fault,
    FaultKind,
    Group,
    Owner,
    Passed,
    TestResult,
    Trainable,
    Verdict,
)

OWNER = {"H": Owner.TASK, "I": Owner.HOUSE, "J": Owner.HOUSE}  # the policy's otherwise
LETTERS = {letter: [k for k, found in CLASS_OF.items() if found == letter] for letter in "ABCDEFGHIJ"}


def fault(kind: FaultKind) -> Fault:
    return Fault(owner=OWNER.get(CLASS_OF[kind], Owner.POLICY), kind=kind, message="why")


def verdicts(letters: str) -> st.SearchStrategy[Verdict]:
    kinds = st.sampled_from([kind for letter in letters for kind in LETTERS[letter]])
    result = st.tuples(st.sampled_from(list(Passed)), kinds)

    def build(results: list[tuple[Passed, FaultKind]], whole: FaultKind | None, level: str) -> Verdict:
        tests = tuple(
            TestResult(id=str(nth), passed=passed, fault=None if passed is Passed.PASSED else fault(kind))
            for nth, (passed, kind) in enumerate(results))
        return Verdict(suite="s", level=level, tests=tests, fault=fault(whole) if whole else None)

    return st.builds(build, st.lists(result, max_size=6), st.none() | kinds,
                     st.sampled_from(["L0", "L1", "L2", "L3", "L4"]))


def total(verdict: Verdict) -> float | None:
    reward = reward_of(verdict)
    return None if reward is None else reward.total


@given(verdicts("ABCDEFGHIJ"))
def test_exactly_the_policys_verdicts_have_a_reward(verdict: Verdict) -> None:
    faults = [f for f in (verdict.fault, *(t.fault for t in verdict.tests)) if f is not None]
    others = any(f.attribution not in (Attribution.POLICY, Attribution.TAMPER) for f in faults)
    assert (reward_of(verdict) is None) is others


@given(verdicts("ABCDEF"), st.sampled_from(LETTERS["G"]))
def test_tampering_is_worst_whatever_else_is_true(verdict: Verdict, kind: FaultKind) -> None:
    before = total(verdict)
    after = total(msgspec.structs.replace(verdict, fault=fault(kind)))
    assert before is not None and after == -1.0 < before


@given(verdicts("ABCDEF"), st.sampled_from(LETTERS["E"]), st.sampled_from(LETTERS["D"]))
def test_meeting_a_limit_never_beats_failing_the_same_tests(
    verdict: Verdict, slow: FaultKind, wrong: FaultKind,
) -> None:
    def failing_by(kind: FaultKind) -> Verdict:
        tests = tuple(
            t if t.passed is Passed.PASSED else TestResult(id=t.id, passed=Passed.FAILED, fault=fault(kind))
            for t in verdict.tests)
        return msgspec.structs.replace(verdict, tests=tests, fault=None)

    if not any(test.passed is not Passed.PASSED for test in verdict.tests):
        return
    limited, failed = total(failing_by(slow)), total(failing_by(wrong))
    assert limited is not None and failed is not None and limited <= failed


@given(verdicts("ABCDEFG"), verdicts("ABCDEFG"))
def test_only_a_solved_verdict_is_above_the_partial_range(one: Verdict, two: Verdict) -> None:
    for verdict in (one, two):
        reward = reward_of(verdict)
        assert reward is not None
        assert (reward.solved and verdict.level in ("L3", "L4")) is (reward.total > 0.45)
        assert not reward.solved or verdict.solved


def episode(name: str, verdict: Verdict) -> Episode:
    return Episode(id=name, task="t", task_version="v", kind="code", group="g", attempt=1, policy="p",
                   verdict=verdict, reward=reward_of(verdict))


@given(st.lists(verdicts("ABCDEFG"), min_size=1, max_size=6), st.lists(verdicts("HIJ"), max_size=4))
def test_what_is_not_the_policys_never_moves_a_groups_baseline(own: list[Verdict], other: list[Verdict]) -> None:
    alone = Group(id="g", task="t", episodes=tuple(episode(str(n), v) for n, v in enumerate(own)))
    foreign = [v for v in other if headline(v) is not None]
    mixed = Group(id="g", task="t", episodes=(
        *(episode(f"x{n}", v) for n, v in enumerate(foreign)), *alone.episodes))
    assert mixed.baseline == alone.baseline
    assert mixed.rewards_G[:len(foreign)] == (None,) * len(foreign)


@given(verdicts("ABCDEFGHIJ"), verdicts("ABCDEFGHIJ"))
def test_confirming_never_raises_a_reward(one: Verdict, two: Verdict) -> None:
    found, before = reward_of(both(one, two)), reward_of(one)
    if found is not None and found.trainable is Trainable.YES and found.solved:
        assert before is not None and before.solved and two.solved


@given(st.lists(verdicts("ABCDEFG"), min_size=2, max_size=5))
def test_replays_are_paid_only_where_all_agree(several: list[Verdict]) -> None:
    reward = reward_of(replays(several))
    agree = len({(v.solved, tuple((t.id, t.passed) for t in v.tests)) for v in several}) == 1
    assert (reward is not None) is agree
