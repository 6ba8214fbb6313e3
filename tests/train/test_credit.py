"""Credit goes to the turn that earned it, and to nobody for what the house broke."""

from __future__ import annotations

import msgspec
import pytest

from quintain.grade import step_rewards
from quintain.train import (
    Control,
    Span,
    Trajectory,
    by_batch,
    by_episode,
    by_state,
    by_turn,
    controlled,
    gdpo,
    grpo,
    rows_of,
    with_control,
    with_rewards,
)
from quintain.types import Built as BuiltEvent
from quintain.types import (
    Closed,
    Graded,
    Message,
    Opened,
    Passed,
    Program,
    Ran,
    Reward,
    Role,
    Sampled,
    Stop,
    TestResult,
    Turn,
    Verdict,
    fold,
)


def row(
    episode: str, reward: float | None, *steps: float | None, row: int = 0, group: str = "g", states: str = "",
) -> Trajectory:
    spans = tuple(
        Span(nth=nth, start=2 * nth + 1, stop=2 * nth + 2, reward=step, state=states[nth] if states else None)
        for nth, step in enumerate(steps))
    mask = (False, True) * len(steps)
    return Trajectory(
        episode=episode, group=group, task=group, row=row, token_ids=tuple(range(len(mask))), loss_mask=mask,
        policy_versions=("",) * len(mask), turns=spans, reward=reward, rewards={"a": reward})


def trained(found: Trajectory) -> list[float] | None:
    if found.advantages is None:
        return None
    return [a for a, m in zip(found.advantages, found.loss_mask, strict=True) if m]


def test_each_sampled_token_has_its_episodes_advantage() -> None:
    rows = [row("1", 1.0, None, None), row("2", 0.0, None), row("3", None, None), row("4", 5.0, None, group="other")]
    found = by_episode(rows)
    good, bad = grpo([1.0, 0.0])
    assert [trained(r) for r in found] == [[good, good], [bad], None, [0.0]]


def test_rows_of_one_episode_share_one_place_in_the_baseline() -> None:
    rows = [row("1", 1.0, None), row("1", 1.0, None, None, row=1), row("2", 0.0, None)]
    good, bad = grpo([1.0, 0.0])
    assert [trained(r) for r in by_episode(rows)] == [[good], [good, good], [bad]]
    left_out = [rows[0], msgspec.structs.replace(rows[1], reward=None), rows[2]]
    assert [trained(r) for r in by_episode(left_out)] == [[good], None, [bad]]


def test_named_rewards_are_compared_over_the_batch() -> None:
    rows = [row("1", 1.0, None), row("2", 0.0, None), row("3", None, None)]
    found = by_batch(rows, lambda rows: gdpo([None if r.reward is None else r.rewards for r in rows], ["g"] * 3))
    assert trained(found[0]) == [pytest.approx(2**-0.5, rel=1e-4)] and found[2].advantages is None


def test_a_turn_is_credited_with_what_it_still_brought() -> None:
    rows = [row("1", 1.0, 0.25, 0.75), row("2", 0.0, 0.0)]
    found = by_turn(rows, scale=False)
    assert [trained(r) for r in found] == [[0.5, 0.25], [-0.5]]
    broken = [*rows, row("3", None, 9.0)]
    assert [trained(r) for r in by_turn(broken, scale=False)] == [[0.5, 0.25], [-0.5], None]


def test_turns_in_one_state_are_compared_with_each_other() -> None:
    rows = [row("1", 1.0, 0.0, 1.0, states="st"), row("2", 0.0, 0.0, 0.0, states="su"), row("3", None, None)]
    found = by_state(rows, gamma=1.0, scale=False)
    assert [trained(r) for r in found] == [[1.0, 0.5], [-1.0, -0.5], None]
    with pytest.raises(ValueError, match="episode 1, turn 0: expected a state, found none"):
        by_state([row("1", 1.0, 0.0), row("2", 0.0, 0.0)])
    with pytest.raises(ValueError, match="episode 2, turn 0: expected a step reward"):
        by_turn([row("1", 1.0, 0.0), row("2", 0.0, None)])


def log(episode: str, shares: list[int], total: float) -> list:
    """An episode whose turns make so many of two visible tests pass."""
    def verdict(passing: int) -> Verdict:
        return Verdict(suite="s", level="L4", tests=tuple(
            TestResult(id=str(n), passed=Passed.PASSED if n < passing else Passed.FAILED) for n in range(2)))

    nth = iter(range(99))

    def stamp() -> dict:
        return {"episode": episode, "index": next(nth), "at_seconds": 0.0}

    events: list = [Opened(
        **stamp(), task="t", task_version="v", kind="code", group="g", attempt=1, seed=0, policy="p", unix_seconds=0.0,
        conversation=(Message(role=Role.USER, text="do"),))]
    for at, share in enumerate(shares):
        events += [
            Sampled(**stamp(), turn=Turn(
                text="x", prompt_token_ids=tuple(range(2 * at + 1)), output_token_ids=(2 * at + 1,))),
            BuiltEvent(**stamp(), program=Program(files={"a.py": bytes([share, at])})),
            Ran(**stamp(), verdict=verdict(share)),
        ]
    return [
        *events, Graded(**stamp(), verdict=verdict(2), reward=Reward(total=total, solved=total > 0), final=True),
        Closed(**stamp(), stop=Stop.SUBMITTED),
    ]


def test_process_rewards_move_credit_between_turns_and_none_between_episodes() -> None:
    rows: list[Trajectory] = []
    for name, shares, total in (("1", [0, 1, 2], 1.0), ("2", [1, 0, 1], 0.0)):
        events = log(name, shares, total)
        steps = step_rewards(events)
        assert steps is not None
        rows += rows_of(fold(events), step_rewards=steps.rewards_T)
    found = [trained(r) for r in by_turn(rows, scale=False)]
    assert found[0] is not None and found[1] is not None
    assert [found[0][0], found[1][0]] == pytest.approx([0.5, -0.5])  # as without: Φ is 0 at the start
    # what is left to be won at a turn is the total less the potential it found: 0.1 built, 0.125 for each test
    assert found[0] == pytest.approx([0.5, 0.5 - 0.1, 0.5 - 0.225])
    assert found[1] == pytest.approx([-0.5, -0.5 - 0.225, -0.5 - 0.1])


def episode_rows(count: int) -> list[Trajectory]:
    return [row(str(nth), nth / count, None, group=str(nth // 4)) for nth in range(count)] + [row("x", None, None)]


@pytest.mark.parametrize("control", list(Control))
def test_a_control_gives_no_reward_where_the_house_failed_and_is_repeatable(control) -> None:
    rows = episode_rows(16)
    found = with_control(rows, control, seed=3)
    assert found == with_control(rows, control, seed=3)
    assert found[-1].reward is None
    assert [r.rewards for r in found] == [r.rewards for r in rows]
    assert (found == tuple(rows)) is (control is Control.NONE)


def test_a_shuffle_keeps_the_values_and_deals_them_out_anew() -> None:
    rewards = [nth / 16 for nth in range(16)]
    shuffled = controlled([*rewards, None], "shuffled", seed=1)
    assert sorted(r for r in shuffled if r is not None) == rewards != shuffled[:-1]
    assert controlled([0.3, None], "constant", seed=1) == [1.0, None]
    assert set(controlled(rewards, "random", seed=1)) == {0.0, 1.0}


def test_rows_of_one_episode_are_dealt_one_reward() -> None:
    rows = [row(str(nth // 2), 0.5, None, row=nth % 2) for nth in range(40)]
    found = with_control(rows, "random", seed=0)
    assert all(found[nth].reward == found[nth + 1].reward for nth in range(0, 40, 2))


def test_no_scalar_of_a_users_makes_a_reward_of_a_house_failure() -> None:
    assert [r.reward for r in with_rewards([row("1", 0.2, None), row("2", None, None)], lambda r: 1.0)] == [1.0, None]

