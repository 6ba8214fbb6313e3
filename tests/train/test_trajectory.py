"""Token in, token out: what was sampled is what is trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.train import Filter, Trajectory, Why, age_of, grpo, rows_of, sift, states_of, trajectory_of
from quintain.types import (
    Built,
    Episode,
    Fault,
    FaultKind,
    Finish,
    Message,
    Opened,
    Owner,
    Program,
    Rejected,
    Reward,
    Role,
    Sampled,
    Score,
    Stop,
    Trainable,
    Turn,
)

CASES = Path(__file__).parents[2].parent / "shared" / "cases"


def case(name: str) -> dict:
    path = CASES / name / "case.json"
    if not path.exists():
        pytest.skip(f"needs the handed cases: {path} is not there")
    return json.loads(path.read_text())


def turn(prompt, output, **more) -> Turn:
    return Turn(
        text="x", prompt_token_ids=tuple(prompt), output_token_ids=tuple(output),
        logprobs=more.pop("logprobs", (-0.5,) * len(output)), **more)


def episode(*turns: Turn, reward: float | None = 1.0, id: str = "t#0", **more) -> Episode:
    paid = None if reward is None else Reward(
        total=reward, solved=reward > 0.5, trainable=more.pop("trainable", Trainable.YES),
        scores=(Score(name="solved", value=float(reward > 0.5)), Score(name="speed", value=None)))
    return Episode(
        id=id, task="t", task_version="v", kind="code", group=more.pop("group", "t"), attempt=1, policy="p",
        turns=turns, reward=paid, stop=more.pop("stop", Stop.SOLVED), **more)


def test_the_ids_are_the_sampled_ones_not_those_of_the_text() -> None:
    known = case("TK01")
    sampled = turn([9], known["sampled_ids"], logprobs=tuple(known["logprobs"]))
    found = trajectory_of(episode(sampled))
    trained = [i for i, m in zip(found.token_ids, found.loss_mask, strict=True) if m]
    assert trained == known["must_train_on"] != known["greedy_longest_reencode"]
    assert len(found.token_ids) == len(found.logprobs) == len(found.loss_mask)
    assert list(found.logprobs[1:]) == known["logprobs"]


def test_only_what_the_policy_sampled_is_trained() -> None:
    known = case("TK02")
    ids, turns, masked = [], [], []
    for nth, segment in enumerate(known["segments"]):
        fresh = [100 * nth + k for k in range(segment["n"])]
        if segment["who"] == "assistant sampled":
            turns.append(turn(ids, fresh))
        elif nth in known["mask_zero_segments"]:
            masked += fresh
        ids += fresh
    found = trajectory_of(episode(*turns))
    assert sum(found.loss_mask) == known["mask_ones"]
    assert not {i for i, m in zip(found.token_ids, found.loss_mask, strict=True) if m} & set(masked)
    assert found.token_ids == tuple(ids)


def test_a_template_that_drops_reasoning_makes_a_row_of_its_own() -> None:
    assert len(case("TK04")["rows"]) == 2
    user, think, answer, tool = [1, 2], [3, 4, 5], [6, 7], [8]
    told = episode(turn(user, think + answer), turn(user + answer + tool, [9]), turn(user + answer + tool + [9], [10]))
    first, second = rows_of(told)
    assert first.token_ids == (1, 2, 3, 4, 5, 6, 7) and second.token_ids == (1, 2, 6, 7, 8, 9, 10)
    assert second.loss_mask == (False,) * 5 + (True,) * 2
    assert (first.row, second.row) == (0, 1) and [s.nth for s in second.turns] == [1, 2]
    with pytest.raises(ValueError, match="found another prefix at turn 1"):
        trajectory_of(told)


def test_each_token_knows_the_weights_that_it_was_sampled_with() -> None:
    known = case("TK06")
    versions = ["7"] * known["update_at"] + ["8"] * (known["tokens"] - known["update_at"])
    sampled = turn([1], range(known["tokens"]), policy_version="7")
    found = trajectory_of(episode(sampled), versions={0: versions})
    assert found.policy_versions[1:] == tuple(versions)
    assert age_of(found, 10) == 3  # the oldest token decides
    assert sift([found], Filter(oldest=2, alike=False), version=10).whys_B == (Why.STALE,)
    with pytest.raises(ValueError, match="expected 128 policy versions, found 3"):
        trajectory_of(episode(sampled), versions={0: ["7"] * 3})
    with pytest.raises(ValueError, match="whole numbers, found 'base'"):
        age_of(trajectory_of(episode(turn([1], [2], policy_version="base"))), 1)


def test_what_is_not_in_the_loss_is_not_in_the_baseline() -> None:
    rows = []
    for nth, known in enumerate(case("TK08")["rows"]):
        lost = known["reason"] == "sandbox_lost"
        rows.append(trajectory_of(episode(
            turn([1], [2], policy_version="1" if "off-policy" in known["reason"] else "9",
                 finish=Finish.LENGTH if known["reason"] == "length" else Finish.STOP),
            id=f"t#{nth}", reward=known["reward"], stop=Stop.BROKEN if lost else Stop.SUBMITTED,
            faults=(Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone"),) if lost else (),
        )))
    rows.append(trajectory_of(episode(turn([1], [2], policy_version="9"), id="t#5", reward=-0.5)))
    sifted = sift(rows, Filter(cut_replies=True, oldest=4), version=9)
    assert sifted.whys_B == (None, Why.OVERLONG, Why.HOUSE, Why.STALE, None)
    found = grpo([row.reward for row in sifted.kept_B])
    assert [a is None for a in found] == [why is not None for why in sifted.whys_B]
    assert found[0] == grpo([1.0, -0.5])[0]
    assert sifted.counts == {"house": 1, "overlong": 1, "stale": 1}
    assert sifted.useless == 0.0


def test_a_group_without_a_difference_is_left_out_and_counted() -> None:
    alike = [trajectory_of(episode(turn([1], [2]), id=f"a#{n}", group="a", reward=0.3)) for n in range(3)]
    mixed = [trajectory_of(episode(turn([1], [2]), id=f"b#{n}", group="b", reward=n / 2)) for n in range(2)]
    sifted = sift([*alike, *mixed])
    assert sifted.whys_B == (Why.NO_SIGNAL,) * 3 + (None, None)
    assert sifted.useless == 0.5 and sift([]).useless is None
    assert sift(alike, Filter(alike=False)).whys_B == (None,) * 3


def test_a_group_of_which_too_few_are_left_is_no_comparison() -> None:
    rows = [trajectory_of(episode(turn([1], [2]), id=f"t#{n}", reward=r)) for n, r in enumerate([0.1, 0.9, None])]
    assert sift(rows).whys_B == (None, None, Why.UNREWARDED)
    found = sift(rows, Filter(fewest=3))
    assert found.whys_B == (Why.NO_SIGNAL, Why.NO_SIGNAL, Why.UNREWARDED) and found.useless == 1.0
    with pytest.raises(ValueError, match="fewest must be at least 1"):
        Filter(fewest=0)


def test_two_rows_of_one_episode_are_one_sibling() -> None:
    rows = rows_of(episode(turn([1], [2]), turn([3], [4])))
    assert sift(rows).whys_B == (Why.NO_SIGNAL,) * 2


def test_a_masked_reward_is_none_to_train_on_and_there_to_be_read() -> None:
    found = trajectory_of(episode(turn([1], [2]), trainable=Trainable.MASK))
    assert found.reward is None and found.solved and found.rewards == {"solved": 1.0, "speed": None}
    assert sift([found]).whys_B == (Why.UNREWARDED,)


def test_a_reply_to_a_full_context_is_no_tokens_and_no_error() -> None:
    full = Turn(text="", finish=Finish.LENGTH)
    found = trajectory_of(episode(turn([1], [2]), full, stop=Stop.TOKENS))
    assert found.token_ids == (1, 2) and found.truncated


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (Turn(text="hi", output_token_ids=(1,)), "no prompt_token_ids"),
        (Turn(text="hi", prompt_token_ids=(1,)), "no output_token_ids"),
        (turn([1], [2, 3], logprobs=(-1.0,)), "expected 2 logprobs, found 1"),
    ],
)
def test_ids_that_are_missing_are_said_with_their_place(bad, says) -> None:
    with pytest.raises(ValueError, match=f"t#0, turn 1.*{says}"):
        trajectory_of(episode(turn([1], [2]), bad))


def test_an_episode_without_a_turn_is_no_trajectory() -> None:
    with pytest.raises(ValueError, match="at least one sampled turn"):
        trajectory_of(episode())


def test_logprobs_that_one_turn_lacks_are_not_made_up() -> None:
    assert trajectory_of(episode(turn([1], [2]), turn([1, 2], [3], logprobs=None))).logprobs is None


def test_an_advantage_stands_on_sampled_tokens_only() -> None:
    found = trajectory_of(episode(turn([1, 2], [3]), turn([1, 2, 3, 4], [5, 6])))
    assert found.with_advantage(0.5).advantages == (0.0, 0.0, 0.5, 0.0, 0.5, 0.5)
    assert found.with_advantage([1.0, -1.0]).advantages == (0.0, 0.0, 1.0, 0.0, -1.0, -1.0)
    assert found.with_advantage(None).reward is None
    with pytest.raises(ValueError, match="each of 2 turns, found 1"):
        found.with_advantage([1.0])


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 loss_mask, found 1"):
        Trajectory(episode="e", group="g", task="t", token_ids=(1, 2), loss_mask=(True,), policy_versions=("", ""))


@given(st.lists(st.tuples(
    st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(0, 9), max_size=4)), min_size=1, max_size=5))
def test_a_context_that_only_grows_is_one_row_whatever_its_tokens(parts) -> None:
    ids, turns = [], []
    for environment, output in parts:
        ids += environment
        turns.append(turn(ids, output))
        ids += output
    found = trajectory_of(episode(*turns))
    assert found.token_ids == tuple(ids)
    assert [list(found.token_ids[s.start:s.stop]) for s in found.turns] == [output for _, output in parts]
    assert sum(found.loss_mask) == sum(len(output) for _, output in parts)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Trajectory) == found


def log(*events) -> list:
    stamps = ({"episode": "e", "index": nth, "at_seconds": 0.0} for nth in range(len(events) + 1))
    opened = Opened(
        **next(stamps), task="t", task_version="v", kind="code", group="g", attempt=1, seed=0, policy="p",
        unix_seconds=0.0, conversation=(Message(role=Role.USER, text="do"),))
    return [opened, *(kind(**next(stamps), **fields) for kind, fields in events)]


def test_equal_work_is_an_equal_state_however_it_was_reached() -> None:
    said = (Sampled, {"turn": Turn(text="x")})
    good, bad = ((Built, {"program": Program(files={"a.py": text})}) for text in (b"1", b"2"))
    refused = (Rejected, {"fault": Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="?")})
    first = states_of(log(said, good, said, bad, said, good, said))
    assert first[1] == first[3] != first[2]
    second = states_of(log(said, bad, said, refused, said))
    assert second[0] == first[0] and second[1] == first[2] and second[2] != second[1]
    found = trajectory_of(episode(turn([1], [2])), states=["s"], step_rewards=[0.5])
    assert (found.turns[0].state, found.turns[0].reward) == ("s", 0.5)
    with pytest.raises(ValueError, match="expected 1 states, found 2"):
        trajectory_of(episode(turn([1], [2])), states=["s", "t"])


def test_the_room_is_entered_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['transformers'] = sys.modules['trl'] = None\n" \
           "import quintain.train as t; [getattr(t, n) for n in t.__all__]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
