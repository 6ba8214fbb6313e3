"""Advantages compare siblings, and only those that were judged."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.train import (
    Step,
    discounted,
    dr_grpo,
    gdpo,
    gigpo,
    grpo,
    maxrl,
    reinforce_plus_plus,
    rloo,
    spread,
    useful,
)

CASES = Path(__file__).parents[2].parent / "shared" / "cases"
rewards = st.lists(st.none() | st.floats(-1, 1), min_size=1, max_size=12)


def known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@given(rewards)
@pytest.mark.parametrize("advantage", [grpo, dr_grpo, rloo, reinforce_plus_plus])
def test_a_house_failure_has_no_advantage_and_moves_no_siblings(advantage, rewards) -> None:
    found = advantage(rewards)
    assert [a is None for a in found] == [r is None for r in rewards]
    assert known(found) == advantage(known(rewards))
    assert all(math.isfinite(a) for a in known(found))


@given(rewards)
def test_the_advantages_of_a_group_sum_to_nothing(rewards) -> None:
    for advantage in (grpo, dr_grpo, rloo):
        assert sum(known(advantage(rewards))) == pytest.approx(0.0, abs=1e-6)


@given(st.lists(st.none() | st.sampled_from([0.0, 1.0]), max_size=12))
def test_the_rarer_a_success_the_more_it_weighs_in_maxrl(rewards) -> None:
    found = maxrl(rewards)
    assert [a is None for a in found] == [r is None for r in rewards]
    assert known(found) == maxrl(known(rewards))
    solved, of = sum(known(rewards)), len(known(rewards))
    wanted = {1.0: of / solved - 1, 0.0: -1.0} if 0 < solved < of else {1.0: 0.0, 0.0: 0.0}
    assert found == [None if r is None else pytest.approx(wanted[r]) for r in rewards]


def test_maxrl_refuses_a_reward_below_nothing() -> None:
    assert maxrl([5e-324, 0.0]) == [0.0, 0.0]
    with pytest.raises(ValueError, match="expected rewards of at least 0"):
        maxrl([1.0, -0.5])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_leave_one_out_is_what_its_name_says(rewards) -> None:
    others = [(sum(rewards) - r) / (len(rewards) - 1) for r in rewards]
    assert rloo(rewards) == pytest.approx([r - o for r, o in zip(rewards, others, strict=True)], abs=1e-9)


@pytest.mark.parametrize("advantage", [grpo, dr_grpo, rloo, reinforce_plus_plus])
def test_a_group_without_a_difference_teaches_nothing(advantage) -> None:
    assert advantage([0.1] * 7) == [0.0] * 7
    assert advantage([0.5]) == [0.0]
    assert advantage([1.0, None, None]) == [0.0, None, None]
    assert advantage([]) == []


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="expected finite rewards or None"):
        grpo([1.0, math.nan])


def test_whitening_counts_each_token() -> None:
    once = reinforce_plus_plus([1.0, 0.0, 0.0, None], tokens_B=[2, 1, 1, 9])
    assert known(once)[0] == pytest.approx(0.5 / math.sqrt(1 / 3), rel=1e-6)
    plain = reinforce_plus_plus([1.0, 1.0, 0.0, 0.0])
    assert once[:2] == pytest.approx([plain[0], plain[2]], rel=1e-6)


def test_a_baseline_by_group_takes_out_how_hard_the_task_is() -> None:
    found = reinforce_plus_plus([0.9, 0.8, 0.2, 0.1], groups_B=["easy", "easy", "hard", "hard"])
    assert found[0] == pytest.approx(found[2]) and found[1] == pytest.approx(found[3])


def test_a_quiet_reward_is_not_drowned_by_a_loud_one() -> None:
    rewards = [{"loud": 100.0, "quiet": 0.0}, {"loud": 0.0, "quiet": 0.1}]
    assert known(grpo([sum(r.values()) for r in rewards]))[1] < 0
    assert known(gdpo(rewards, ["a", "a"], weights={"loud": 1.0, "quiet": 2.0}))[1] > 0


def test_an_unmeasured_reward_adds_nothing_and_stays_out_of_its_baseline() -> None:
    rewards = [{"a": 1.0, "b": None}, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.0}, None]
    found = gdpo(rewards, ["g"] * 4)
    assert found[3] is None
    assert known(found)[1] > known(found)[2]
    with pytest.raises(ValueError, match="expected weights of rewards that there are"):
        gdpo(rewards, ["g"] * 4, weights={"c": 1.0})


def test_steps_taken_in_one_state_are_compared_with_each_other() -> None:
    steps = [[Step(state="s", reward=0.0), Step(state="t", reward=1.0)], [Step(state="s", reward=0.0)], []]
    found = gigpo([1.0, 0.0, None], steps, gamma=0.5)
    assert found[2] is None
    assert found[0] is not None and found[1] is not None
    alone = 2**-0.5  # GRPO's of [1, 0]
    assert found[0] == pytest.approx([alone + 2**-0.5, alone], rel=1e-4)  # state t was seen once only
    assert found[1] == pytest.approx([-2 * alone], rel=1e-4)


def test_a_failed_siblings_steps_are_in_no_baseline() -> None:
    steps = [[Step(state="s", reward=1.0)], [Step(state="s")], [Step(state="s", reward=99.0)]]
    assert gigpo([1.0, 0.0, None], steps)[:2] == gigpo([1.0, 0.0], steps[:2])


def case(name: str) -> dict:
    path = CASES / name / "case.json"
    if not path.exists():
        pytest.skip(f"needs the handed cases: {path} is not there")
    return json.loads(path.read_text())


def test_a_reward_behind_masked_tokens_reaches_the_trained_ones() -> None:
    given_case = case("TK07")
    mask = [bool(m) for m in given_case["mask"]]
    end = [*[0.0] * (len(mask) - 1), given_case["reward"]]
    assert discounted(end, gamma=given_case["gamma"], mask_T=mask) == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert discounted(end, gamma=0.5, mask_T=mask) == [0.5, 1.0, 0.0, 0.0, 0.0]


def test_groups_that_teach_nothing_are_told_from_those_that_do() -> None:
    given_case = case("TK09")
    assert [useful(group) for group in given_case["groups"]] == given_case["useful"]


def test_a_deviation_of_likes_is_exactly_nothing() -> None:
    assert spread([0.1, 0.1, 0.1]) == (pytest.approx(0.1), 0.0)
    assert spread([]) == (0.0, 0.0)
