"""The order of rewards holds whatever the verdict: solved above unsolved, tampering worst, time-outs never better."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import (
    Baseline,
    Vector,
    Weights,
    cost_of,
    measured,
    partial_credit,
    reward_of,
    reward_of_fault,
    solved_only,
)
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

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
needs_cases = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the handed cases are not at {SHARED}")

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


def test_a_soft_flag_is_no_shelter_for_an_answer_that_failed() -> None:
    flag = Flag(detector="style", severity=Severity.SOFT, evidence="odd")
    failed = verdict(0, [FaultKind.RUNTIME_ERROR])
    reward = reward_of(failed, flags=[flag])
    assert reward is not None
    assert reward.total < 0.0
    assert reward.trainable is Trainable.YES


def test_the_vector_says_what_the_total_was_made_of() -> None:
    reward = reward_of(verdict(1, [FaultKind.TIMEOUT]))
    assert reward is not None
    found = {score.name: score for score in reward.scores}
    assert found["integrity"].value == 1.0
    assert (found["solved"].value, found["solved"].evidence) == (0.0, "1/2 tests")
    assert found["partial"].value == 0.5
    assert "timeout" in found["error_class"].evidence
    assert reward.total == pytest.approx(0.35 * 0.5 - 0.30)


# --- whatever the weights


def some_weights(numbers: list[float]) -> Weights | None:
    """The weights that five numbers make, if they keep the order."""
    try:
        return Weights(**dict(zip(Weights.__struct_fields__, numbers, strict=True)))
    except ValueError:
        return None


WEIGHTS = st.one_of(
    st.just(Weights()),
    st.lists(st.floats(0, 1), min_size=5, max_size=5).map(some_weights).filter(lambda w: w is not None),
)
NAMED = st.lists(st.builds(
    Score, name=st.sampled_from(["style", "security", "judge", "localisation", "test_value", "speed"]),
    value=st.none() | st.floats(0, 1), weight=st.one_of(st.floats(0, 9), st.sampled_from([math.nan, math.inf])),
), max_size=6).map(tuple)


@given(SOLVED, NAMED, UNSOLVED, NAMED, WEIGHTS)
def test_the_order_holds_for_any_weights_and_any_scores(
    solved: Verdict, good: tuple[Score, ...], unsolved: Verdict, bad: tuple[Score, ...], weights: Weights
) -> None:
    above = reward_of(solved, scores=good, scalar=weights)
    below = reward_of(unsolved, scores=bad, scalar=weights)
    assert above is not None
    assert below is not None
    assert 1.0 >= above.total > below.total >= -1.0
    flag = Flag(detector="canary", severity=Severity.HARD, evidence="a canary passed")
    caught = reward_of(solved, scores=good, flags=[flag], scalar=weights)
    assert caught is not None
    assert caught.total == -1.0 < below.total


@given(st.one_of(SOLVED, UNSOLVED), NAMED, WEIGHTS, st.sampled_from(["L0", "L2", "L3", "L4", "unheard of"]))
def test_the_contributions_add_up_to_the_total(
    found: Verdict, scores: tuple[Score, ...], weights: Weights, level: str
) -> None:
    reward = reward_of(msgspec.structs.replace(found, level=level), scores=scores, scalar=weights)
    assert reward is not None
    assert all(s.contribution is not None for s in reward.scores)
    assert math.fsum(s.contribution or 0.0 for s in reward.scores) == pytest.approx(reward.total, abs=1e-9)


@pytest.mark.parametrize("broken", [
    {"solved": 0.5}, {"partial": 0.7}, {"quality_down": 0.6}, {"solved": 0.99}, {"localisation": math.nan},
    {"partial": -0.1},
])
def test_weights_that_would_break_the_order_are_refused(broken: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Weights(**broken)


@given(SOLVED, UNSOLVED, NAMED)
def test_the_other_built_in_scalars_keep_the_order_too(
    solved: Verdict, unsolved: Verdict, scores: tuple[Score, ...]
) -> None:
    for scalar in (solved_only, partial_credit):
        above, below = (reward_of(v, scores=scores, scalar=scalar) for v in (solved, unsolved))
        assert above is not None
        assert below is not None
        assert above.total == 1.0 > below.total >= 0.0


def test_a_users_own_number_is_kept_and_named_and_must_be_one() -> None:
    def by_hand(vector: Vector) -> float:
        return 0.5 * vector.solved + 0.1 * vector.partial

    reward = reward_of(verdict(3, []), scalar=by_hand)
    assert reward is not None
    assert reward.total == pytest.approx(0.6)
    assert [s.contribution for s in reward.scores if s.name == "scalar"] == [reward.total]
    for bad in (math.nan, 1.5, -2.0):
        with pytest.raises(ValueError, match="scalar"):
            reward_of(verdict(3, []), scalar=lambda vector, bad=bad: bad)  # type: ignore[misc]


@given(SOLVED, NAMED, WEIGHTS, st.sampled_from(["L0", "L1", "L2", "", "L9"]))
def test_below_l3_nothing_is_paid_above_the_partial_range(
    solved: Verdict, scores: tuple[Score, ...], weights: Weights, level: str
) -> None:
    reward = reward_of(msgspec.structs.replace(solved, level=level), scores=scores, scalar=weights)
    assert reward is not None
    assert reward.total <= 0.35
    assert reward.solved
    trusting = reward_of(msgspec.structs.replace(solved, level="L2"), trusted_level="L2")
    assert trusting is not None
    assert trusting.total == pytest.approx(0.80)


def test_a_models_opinion_moves_a_solved_attempt_by_a_twentieth_at_most() -> None:
    for value in (0.0, 1.0):
        opinion = Score(name="judge", value=value, weight=5.0)
        assert abs(total(verdict(2, []), (opinion,)) - 0.80) <= 0.05 + 1e-12
        assert total(verdict(1, [FaultKind.WRONG_ANSWER]), (opinion,)) == pytest.approx(0.175)


def test_no_grader_can_take_the_place_of_a_part_of_the_reward() -> None:
    for name in ("integrity", "solved", "partial", "error_class", "level", "scalar"):
        with pytest.raises(ValueError, match=name):
            reward_of(verdict(2, []), scores=[Score(name=name, value=1.0)])


def test_finding_the_fault_pays_only_an_attempt_that_ran_and_failed() -> None:
    claim = (Score(name="localisation", value=1.0),)
    assert total(verdict(0, [FaultKind.WRONG_ANSWER]), claim) == pytest.approx(0.10)
    assert total(verdict(2, []), claim) == pytest.approx(0.80)
    assert total(verdict(0, [FaultKind.SYNTAX_ERROR]), claim) == pytest.approx(-0.40)


def test_every_kind_of_tampering_is_tampering() -> None:
    for kind in KINDS["G"]:
        assert total(verdict(3, [kind])) == -1.0


# --- partial credit


def test_duplicates_and_parameters_raise_no_weight() -> None:
    tests = [TestResult(id=f"t.py::test_a[{n}]", passed=Passed.PASSED) for n in range(9)]
    tests.append(TestResult(id="t.py::test_b", passed=Passed.FAILED, fault=fault(FaultKind.WRONG_ANSWER)))
    found = Verdict(suite="s", level="L4", tests=tuple(tests))
    assert total(found) == pytest.approx(0.35 / 2)
    grouped = reward_of(found, baseline=Baseline(requirements={t.id: "one" for t in tests}))
    assert grouped is not None
    assert grouped.total == pytest.approx(0.35 * 0.9)


def test_what_doing_nothing_gets_is_no_credit() -> None:
    found = verdict(3, [FaultKind.WRONG_ANSWER])
    by_ids = reward_of(found, baseline=Baseline(passing=("p0", "p1", "p2")))
    by_share = reward_of(found, baseline=Baseline(null_share=0.75))
    assert by_ids is not None
    assert by_share is not None
    assert by_ids.total == by_share.total == 0.0
    with pytest.raises(ValueError, match="null_share"):
        Baseline(null_share=1.0)


def test_breaking_what_worked_takes_credit_away() -> None:
    tests = (
        TestResult(id="new", passed=Passed.PASSED),
        TestResult(id="old1", passed=Passed.PASSED),
        TestResult(id="old2", passed=Passed.FAILED, fault=fault(FaultKind.REGRESSION)),
    )
    reward = reward_of(Verdict(suite="s", level="L4", tests=tests), baseline=Baseline(passing=("old1", "old2")))
    assert reward is not None
    assert not reward.solved
    assert reward.total == pytest.approx(0.35 * 0.25)
    assert "1 of 2 that passed before are broken" in next(s.evidence for s in reward.scores if s.name == "solved")


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.lists(st.booleans(), max_size=4), st.data())
def test_one_more_test_that_passes_never_costs_whatever_the_groups(
    new: list[bool], old: list[bool], data: st.DataObject
) -> None:
    groups = {f"n{n}": data.draw(st.sampled_from(["x", "y", "z"])) for n in range(len(new))}
    baseline = Baseline(requirements=groups, passing=tuple(f"o{n}" for n in range(len(old))),
                        null_share=data.draw(st.floats(0, 0.9)))

    def paid(states: list[bool]) -> float:
        names = [*groups, *baseline.passing]
        wrong = fault(FaultKind.WRONG_ANSWER)
        tests = tuple(TestResult(id=name, passed=Passed.PASSED if ok else Passed.FAILED, fault=None if ok else wrong)
                      for name, ok in zip(names, states, strict=True))
        reward = reward_of(Verdict(suite="s", level="L4", tests=tests), baseline=baseline)
        assert reward is not None
        return reward.total

    states = [*new, *old]
    for n, ok in enumerate(states):
        if not ok:
            assert paid([*states[:n], True, *states[n + 1:]]) >= paid(states) - 1e-12


# --- the handed cases


def of(name: str, file: str) -> object:
    return json.loads((SHARED / name / file).read_text())


@needs_cases
@pytest.mark.shared
def test_rc02_a_missing_component_is_neutral_and_said_and_a_required_one_leaves_no_reward() -> None:
    rows, weights = of("RC02", "components.json"), of("RC02", "weights.json")
    assert isinstance(rows, list)
    assert isinstance(weights, dict)
    found = []
    for row in rows:
        scores = [
            measured(name, float("nan") if value == "NaN" else value, weight=weights[name])
            for name, value in row.items()
        ]
        tests = verdict(2, []) if row["tests"] == 1.0 else verdict(1, [FaultKind.WRONG_ANSWER])
        found.append((scores, reward_of(tests, scores=scores, required=["tests"])))
    first, second, third = (reward for _, reward in found)
    assert third is None
    for reward in (first, second):
        assert reward is not None
        assert math.isfinite(reward.total)
    assert first is not None
    assert {s.name: s.contribution for s in first.scores}["style"] == 0.0
    assert next(s for s in found[1][0] if s.name == "perf").value is None
    assert "nan" in next(s for s in found[1][0] if s.name == "perf").evidence


@needs_cases
@pytest.mark.shared
def test_rc03_the_nine_outcomes_are_in_order() -> None:
    perfect = tuple(Score(name=name, value=1.0, weight=1.0) for name in ("style", "memory", "security"))
    poor = (Score(name="speed", value=0.0, weight=0.1),)
    outcomes = of("RC03", "outcomes.json")
    nothing = [reward_of_fault(fault(k)) for k in (
        FaultKind.NO_ANSWER, FaultKind.SYNTAX_ERROR, FaultKind.MISSING_ENTRY_POINT)]
    found = {
        **{name: r.total for name, r in zip(outcomes[:3], nothing, strict=True) if r},  # type: ignore[index]
        "runtime_error on all tests": total(verdict(0, [FaultKind.RUNTIME_ERROR] * 4), perfect),
        "timeout on all tests": total(verdict(0, [FaultKind.TIMEOUT] * 4), perfect),
        "wrong answer on all tests": total(verdict(0, [FaultKind.WRONG_ANSWER] * 4), perfect),
        "half of the tests pass": total(verdict(2, [FaultKind.WRONG_ANSWER] * 2)),
        "all pass, slow": total(verdict(4, []), poor),
        "all pass": total(verdict(4, [])),
    }
    assert list(found) == outcomes
    assert found["all pass"] == max(found.values()) > found["all pass, slow"] > found["half of the tests pass"]
    assert found["half of the tests pass"] > found["wrong answer on all tests"] >= found["runtime_error on all tests"]
    assert found["runtime_error on all tests"] >= found["syntax_error"] >= found["no_answer"]
    assert found["wrong answer on all tests"] >= found["timeout on all tests"]
    assert total(verdict(4, [FaultKind.TAMPER])) < min(found.values())
    assert reward_of_fault(fault(FaultKind.SANDBOX_LOST, Owner.HOUSE)) is None


@needs_cases
@pytest.mark.shared
def test_rc04_partial_credit_is_monotone() -> None:
    runs = of("RC04", "runs.json")
    assert isinstance(runs, list)
    paid = {}
    for run in runs:
        passed = [TestResult(id=t, passed=Passed.PASSED) for t in run.get("pass", [])]
        failed = [TestResult(id=t, passed=Passed.FAILED, fault=fault(FaultKind.WRONG_ANSWER))
                  for t in [*run.get("fail", []), *run.get("broken_regression", [])]]
        missing = [TestResult(id=t, passed=Passed.MISSING) for t in run.get("missing", [])]
        found = Verdict(suite="s", level="L4", tests=(*passed, *failed, *missing))
        reward = reward_of(found, baseline=Baseline(passing=("p1",)))
        assert reward is not None
        paid[run["name"]] = reward.total
    assert paid["C"] <= paid["B"]
    assert paid["A"] < paid["B"]
    assert paid["D"] < total(verdict(4, []))


@needs_cases
@pytest.mark.shared
def test_rc10_nothing_that_ran_is_no_success() -> None:
    rows = of("RC10", "results.json")
    assert isinstance(rows, list)

    def found(row: dict[str, int]) -> Verdict:
        absent = row.get("skipped", 0) + row.get("not_run", 0) + max(0, row.get("required", 0) - row["passed"])
        tests = [TestResult(id=f"p{n}", passed=Passed.PASSED) for n in range(row["passed"])]
        tests += [TestResult(id=f"m{n}", passed=Passed.MISSING) for n in range(absent)]
        empty = Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="no tests") if not tests else None
        return Verdict(suite="s", level="L4", tests=tuple(tests), fault=empty)

    rewards = [reward_of(found(row), scalar=partial_credit) for row in rows]
    assert rewards[0] is None
    assert [r.total for r in rewards[1:] if r] == [0.0, 0.0, pytest.approx(0.6)]


@needs_cases
@pytest.mark.shared
def test_rc11_a_test_that_is_reported_three_times_counts_once() -> None:
    told = of("RC11", "results.json")
    assert isinstance(told, dict)
    tests = tuple(TestResult(id=name, passed=Passed(state)) for name, state in zip(
        told["ids"], told["status"], strict=True))
    reward = reward_of(Verdict(suite="s", level="L4", tests=tests), scalar=partial_credit)
    assert reward is not None
    assert reward.total == 0.5
    rerun = (*tests, TestResult(id="t::a", passed=Passed.FAILED))
    worse = reward_of(Verdict(suite="s", level="L4", tests=rerun), scalar=partial_credit)
    assert worse is not None
    assert worse.total == 0.0
