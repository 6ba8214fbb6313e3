"""Gymnasium's own checker and wrappers over episodes of ours."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install quintain[gymnasium]")

import gymnasium
from gymnasium.utils.env_checker import check_env

from quintain.bridges import gymnasium_environment
from quintain.testing import fail_first, fake_item
from quintain.types import FaultKind, HouseError, Limits, Scopes
from tests.bridges.stages import stage

ITEMS = {name: fake_item(name) for name in ("add", "sub")}
GONE = HouseError(FaultKind.SANDBOX_LOST, "gone")


@pytest.mark.bridge("gymnasium", "theirs drives ours", "check_env")
def test_gymnasiums_own_checker_finds_nothing() -> None:
    with stage() as house, warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium_environment(house, ITEMS)(), skip_render_check=True)


@pytest.mark.bridge("gymnasium", "theirs drives ours", "register, make, reset with options, step to the end")
def test_an_episode_is_played_step_by_step_through_gymnasiums_wrappers() -> None:
    with stage() as house:
        gymnasium.register(id="quintain-test-v0", entry_point=gymnasium_environment(house, ITEMS))
        env = gymnasium.make("quintain-test-v0", render_mode="ansi")
        seen, info = env.reset(seed=3, options={"task": "add"})
        assert (seen, info) == ("Do add.", {"task": "add"})
        assert env.step("wrong") == ("[unsolved]", 0.0, False, False, {"task": "add"})
        assert env.render() == "[unsolved]"
        seen, reward, terminated, truncated, info = env.step("right")
        assert (seen, reward, terminated, truncated) == ("", 1.0, True, False)
        assert info["solved"] is True and info["stop"] == "solved" and info["house"] is None
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.unwrapped.step("right")
        with pytest.raises(ValueError, match="expected options with a task that is known, found 'zz'"):
            env.reset(options={"task": "zz"})
        env.close()


def test_a_limit_truncates_and_the_same_seed_asks_for_the_same() -> None:
    short = fake_item("add", limits=Scopes(episode=Limits(turns=1)))
    with stage() as house:
        env = gymnasium_environment(house, {"add": short})()
        env.reset(seed=0)
        assert env.step("wrong")[2:4] == (False, True)
        many = gymnasium_environment(house, {f"t{nth}": fake_item(f"t{nth}") for nth in range(20)})()
        drawn = [many.reset(seed=5)[1], *(many.reset()[1] for _ in range(5))]
        assert drawn == [many.reset(seed=5)[1], *(many.reset()[1] for _ in range(5))]
        assert len({info["task"] for info in drawn}) > 1
        many.close()


def test_what_the_house_broke_has_no_reward() -> None:
    with stage(plan=fail_first(2, GONE, call="grade")) as house:
        env = gymnasium_environment(house, ITEMS)()
        env.reset(options={"task": "add"})
        with pytest.raises(HouseError, match="no reward to train on: house/sandbox_lost: gone"):
            env.step("right")
        lenient = gymnasium_environment(house, ITEMS, lost=-1.0)()
        lenient.reset(options={"task": "add"})
        _, reward, *_, info = lenient.step("right")
        assert reward == -1.0 and info["house"] == "house/sandbox_lost: gone"
    with stage() as house, pytest.raises(ValueError, match="expected at least one task, found none"):
        gymnasium_environment(house, {})
