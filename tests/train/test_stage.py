"""Episodes are played for a trainer that knows no asyncio."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from quintain.policy import FunctionPolicy
from quintain.rollout import Collector
from quintain.testing import FakeEnvironment, fake_item
from quintain.train import Asked, Stage, TrlRewards, named_reward, trl_environments
from quintain.train.trl import sample_of
from quintain.types import Episode, Fault, FaultKind, HouseError, Owner, Reward, Score, Stop, Turn


class House:
    """A fake environment on a stage; `closed` once it was left."""

    def __init__(self, *, concurrency: int = 16, admits=lambda task: True, **options) -> None:
        self.environment = FakeEnvironment(**options)
        self.closed = False
        self._admits = admits
        self._concurrency = concurrency

    @asynccontextmanager
    async def opened(self):
        yield Collector(
            self.environment, lambda event: None, concurrency=self._concurrency, admits=self._admits)
        self.closed = True


def test_episodes_come_in_the_order_that_they_were_asked_in() -> None:
    items = {name: fake_item(name) for name in "abc"}
    house = House(pause_seconds=0.01)
    answers = FunctionPolicy(lambda conversation, task, seed: "right" if task == "b" else "wrong submit")
    with Stage(house.opened) as stage:
        found = stage.play([items[name] for name in "abcab"], answers)
        again = stage.play([items["a"]], answers)
    assert [e.task for e in found] == list("abcab")
    assert [e.solved for e in found] == [False, True, False, False, True]
    assert len({e.id for e in [*found, *again]}) == 6
    assert house.environment.most_at_once > 1 and house.closed


def test_processes_that_share_a_group_draw_other_seeds() -> None:
    from types import SimpleNamespace

    from quintain.train import TrlRollouts

    seeds: list[int] = []

    def answer(conversation, task, seed):
        seeds.append(seed)
        return Turn(text="right", prompt_token_ids=(1,), output_token_ids=(2,), logprobs=(-0.5,))

    asked = Asked([fake_item("a")], FakeEnvironment().opening)
    for index in range(2):  # each process has a stage of its own, and the same collector
        trainer = SimpleNamespace(
            processing_class=SimpleNamespace(eos_token_id=2), accelerator=SimpleNamespace(
                num_processes=2, process_index=index))
        with Stage(House().opened) as stage:
            rollouts = TrlRollouts(stage, asked, FunctionPolicy(answer))
            for _ in range(3):
                assert rollouts([asked.rows[0]["prompt"]] * 2, trainer)["reward"] == [1.0, 1.0]
    assert len(set(seeds)) == len(seeds) == 12


def test_a_stage_that_cannot_be_opened_says_why_and_one_that_is_closed_says_so() -> None:
    @asynccontextmanager
    async def broken():
        raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "no namespaces here")
        yield

    with pytest.raises(HouseError, match="no namespaces here"), Stage(broken):
        pass
    stage = Stage(House().opened)
    with pytest.raises(RuntimeError, match="expected an open stage"):
        stage.play([], FunctionPolicy(lambda *a: "x"))
    with stage:
        pass
    with pytest.raises(RuntimeError, match="expected an open stage"):
        stage.do(asyncio.sleep(0))
    with pytest.raises(RuntimeError, match="a stage lives once"), stage:
        pass
    assert not [t for t in threading.enumerate() if t.name == "quintain-stage"]


def test_episodes_that_do_not_come_are_missed() -> None:
    house = House(admits=lambda task: task != "b")
    with Stage(house.opened) as stage, pytest.raises(ValueError, match=r"was one suspended.*'b': 2"):
        stage.play([fake_item("a"), *[fake_item("b")] * 2], FunctionPolicy(lambda *a: "right"))


def test_a_prompt_leads_back_to_its_task() -> None:
    items = [fake_item("a"), fake_item("b")]
    asked = Asked(items, FakeEnvironment().opening)
    assert asked.of(asked.rows[1]["prompt"]) is items[1] and asked.rows[1]["task"] == "b"
    with pytest.raises(ValueError, match="expected a prompt of one of 2 tasks"):
        asked.of([{"role": "user", "content": "other"}])
    with pytest.raises(ValueError, match="found a and c alike"):
        Asked([*items, fake_item("c", instructions="Do a.")], FakeEnvironment().opening)


def test_replies_that_were_sampled_elsewhere_are_judged_each_once() -> None:
    items = {name: fake_item(name) for name in "ab"}
    house = House(pause_seconds=0.01)
    with Stage(house.opened) as stage:
        judge = TrlRewards(stage, items)
        said = ["right", "wrong", "prose", "right", "wrong"]
        found = judge([None] * 5, [[{"role": "assistant", "content": s}] for s in said], task=["a", "a", "b", "b", "a"])
        assert found == [1.0, -0.5, -0.5, 1.0, -0.5]
        with pytest.raises(ValueError, match=r"found \['zz'\]"):
            judge([None], ["right"], task=["zz"])


def test_a_verdict_that_the_house_lost_is_none() -> None:
    from quintain.testing import fail_first

    lost = House(plan=fail_first(3, HouseError(FaultKind.SANDBOX_LOST, "gone"), call="grade"))
    with Stage(lost.opened) as stage:
        judge = TrlRewards(stage, {"a": fake_item("a")})
        assert judge([None], ["right"], task=["a"]) == [None]
        assert judge([None], ["right"], task=["a"]) == [1.0]


def test_tool_calls_are_the_replies_of_an_episode() -> None:
    items = {name: fake_item(name) for name in "ab"}
    house = House()
    with Stage(house.opened) as stage:
        make = trl_environments(stage, items)
        first, second, idle = make(), make(), make()
        assert first.reset(task="a", prompt=[]) is None and second.reset(task="b") is None
        assert first.attempt("syntax") == "[syntax_error]"
        assert first.attempt("wrong") == "[unsolved]"
        assert second.attempt("right") == "The task is over." == second.attempt("more")
        assert (first.get_reward(), second.get_reward(), idle.get_reward()) == (-0.5, 1.0, None)
        assert idle.attempt("x") == "The task is over."
        first.reset(task="b")
        assert first.attempt("right") == "The task is over." and first.get_reward() == 1.0
        with pytest.raises(ValueError, match="expected one of 2 tasks, found 'c'"):
            first.reset(task="c")
        first.reset(task="a")
        first.reset(task="a")  # the earlier episode is given up


def test_an_attempt_that_the_house_broke_is_played_again_with_the_same_replies() -> None:
    from quintain.testing import fail_first

    house = House(plan=fail_first(1, HouseError(FaultKind.SANDBOX_LOST, "gone"), call="grade"))
    with Stage(house.opened) as stage:
        environment = trl_environments(stage, {"a": fake_item("a")})()
        environment.reset(task="a")
        assert environment.attempt("wrong") == "[unsolved]"
        assert environment.attempt("right") == "The task is over." and environment.get_reward() == 1.0


def test_an_episode_without_a_token_is_a_masked_filler() -> None:
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")
    lost = Episode(id="a#0", task="a", task_version="v", kind="code", group="a", attempt=3, policy="p",
                   faults=(fault,), stop=Stop.BROKEN)
    sample = sample_of(lost, filler=7)
    assert (sample.completion_ids, sample.env_mask, sample.reward) == ([7], [0], None)
    assert sample.house == "house/sandbox_lost: gone"


def test_a_sample_is_the_row_behind_its_prompt_and_no_longer_than_it_may_be() -> None:
    turns = (
        Turn(text="x", prompt_token_ids=(1, 2), output_token_ids=(3, 4), logprobs=(-1.0, -2.0)),
        Turn(text="y", prompt_token_ids=(1, 2, 3, 4, 5), output_token_ids=(6,), logprobs=(-3.0,)),
    )
    played = Episode(
        id="a#0", task="a", task_version="v", kind="code", group="a", attempt=1, policy="p", turns=turns,
        reward=Reward(total=0.5, solved=False, scores=(Score(name="partial", value=0.25),)), stop=Stop.TURNS)
    sample = sample_of(played, filler=7)
    assert (sample.prompt_ids, sample.completion_ids) == ([1, 2], [3, 4, 5, 6])
    assert (sample.env_mask, sample.logprobs) == ([1, 1, 0, 1], [-1.0, -2.0, 0.0, -3.0])
    assert sample_of(played, filler=7, longest=3).completion_ids == [3, 4, 5]
    columns = {"reward": [0.5, None], "rewards": [{"partial": 0.25}, {}]}
    assert named_reward("partial")([None] * 2, **columns) == [0.25, None]
    bare = Turn(text="x", prompt_token_ids=(1,), output_token_ids=(2,))
    with pytest.raises(ValueError, match="expected log-probabilities"):
        sample_of(Episode(id="b", task="a", task_version="v", kind="code", group="a", attempt=1, policy="p",
                          turns=(bare,)), filler=7)
