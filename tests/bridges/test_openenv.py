"""OpenEnv's own server and client, over a real socket, play episodes of ours."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("openenv.core.env_server", reason="needs OpenEnv: pip install quintain[openenv]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")

from openenv.core.generic_client import GenericEnvClient

from quintain.bridges import openenv_app
from quintain.serve import listening
from quintain.testing import fail_first, fake_item
from quintain.types import FaultKind, HouseError, Limits, Scopes
from tests.bridges.stages import stage

ITEMS = {name: fake_item(name) for name in ("add", "sub")}
GONE = HouseError(FaultKind.SANDBOX_LOST, "gone")


def said(reply: str) -> dict[str, Any]:
    return {"reply": reply}


@pytest.mark.bridge("openenv", "theirs drives ours", "create_app and its client: reset, step to the end, state")
def test_an_episode_is_played_step_by_step_by_openenvs_client() -> None:
    async def play() -> None:
        async with listening(openenv_app(house, ITEMS)) as url, GenericEnvClient(base_url=url) as client:
            opened = await client.reset(task="add", episode_id="e1")
            assert (opened.observation["text"], opened.observation["task"]) == ("Do add.", "add")
            assert (opened.done, opened.reward) == (False, None)
            first = await client.step(said("wrong"))
            assert (first.observation["text"], first.reward, first.done) == ("[unsolved]", 0.0, False)
            last = await client.step(said("right"))
            assert (last.reward, last.done, last.observation["solved"]) == (1.0, True, True)
            assert last.observation["stop"] == "solved" and last.observation["house"] is None
            state = await client.state()
            assert (state["episode_id"], state["step_count"]) == ("e1", 2)
            with pytest.raises(RuntimeError, match="expected reset first: no episode is open"):
                await client.step(said("right"))

    with stage() as house:
        asyncio.run(play())


@pytest.mark.bridge("openenv", "theirs drives ours", "eight sessions at once, each its own episode; capacity")
def test_sessions_at_once_have_an_episode_each_and_more_than_there_is_room_for_are_refused() -> None:
    async def session(url: str, nth: int) -> float:
        async with GenericEnvClient(base_url=url) as client:
            await client.reset(task="add" if nth % 2 else "sub")
            for _ in range(nth % 3):
                assert not (await client.step(said("wrong"))).done
            reward = (await client.step(said("right"))).reward
            assert reward is not None
            return float(reward)

    async def play() -> None:
        async with listening(openenv_app(house, ITEMS, sessions=8)) as url:
            async with asyncio.TaskGroup() as crew:
                played = [crew.create_task(session(url, nth)) for nth in range(8)]
            assert [one.result() for one in played] == [1.0] * 8
        async with listening(openenv_app(house, ITEMS, sessions=1)) as url, GenericEnvClient(base_url=url) as first:
            await first.reset(task="add")
            with pytest.raises(Exception, match=r"(?i)capacity"):
                async with GenericEnvClient(base_url=url) as second:
                    await second.reset(task="sub")

    with stage() as house:
        asyncio.run(play())


@pytest.mark.bridge("openenv", "theirs drives ours", "a limit, what the house broke, a task that is not there")
def test_what_the_house_broke_is_done_without_a_reward_and_a_limit_truncates() -> None:
    short = {"add": fake_item("add", limits=Scopes(episode=Limits(turns=1)))}

    async def play(broken: Any, cut: Any) -> None:
        async with listening(openenv_app(broken, ITEMS)) as url, GenericEnvClient(base_url=url) as client:
            await client.reset(task="add")
            last = await client.step(said("right"))
            assert (last.reward, last.done) == (None, True)
            assert last.observation["house"] == "house/sandbox_lost: gone"
        async with listening(openenv_app(cut, short)) as url, GenericEnvClient(base_url=url) as client:
            await client.reset(split="all", index=0)
            last = await client.step(said("wrong"))
            assert last.done and last.observation["truncated"] and last.observation["solved"] is False
            with pytest.raises(RuntimeError, match="expected a task that is known, found 'zz'"):
                await client.reset(task="zz")

    with stage(plan=fail_first(1, GONE, call="grade")) as broken, stage() as cut:
        asyncio.run(play(broken, cut))
    with stage() as house, pytest.raises(ValueError, match="expected at least one task, found none"):
        openenv_app(house, {})


@pytest.mark.bridge("openenv", "theirs drives ours", "its task API: splits, tasks, one task; health and schema")
def test_tasks_are_listed_by_openenvs_task_api() -> None:
    async def look() -> dict[str, Any]:
        async with listening(openenv_app(house, ITEMS)) as url, httpx.AsyncClient(base_url=url) as web:
            seen = {}
            for path in ("/health", "/schema", "/quintain/splits"):
                answer = await web.get(path)
                assert answer.status_code == 200, answer.text
                seen[path] = answer.json()
            tasks = await web.post("/quintain/tasks", json={"split": "all"})
            seen["tasks"] = tasks.json()
            return seen

    with stage() as house:
        seen = asyncio.run(look())
    assert "reply" in seen["/schema"]["action"]["properties"]
    assert [task["id"] for task in seen["tasks"]["tasks"]] == ["add", "sub"]


@pytest.mark.bridge("openenv", "theirs drives ours", "`openenv validate --url`: every check of a running server passes")
def test_openenv_validate_finds_nothing_in_what_is_served() -> None:
    async def validated() -> dict[str, Any]:
        async with listening(openenv_app(house, ITEMS)) as url:
            child = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("openenv")), "validate", "--url", url, "--json", "--timeout", "60",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
            out, told = await child.communicate()
            assert child.returncode == 0, (out + told).decode()
            report: dict[str, Any] = json.loads(out)
            return report

    with stage() as house:
        report = asyncio.run(validated())
    assert report["passed"] is True, report
