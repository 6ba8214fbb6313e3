"""The HTTP API, used as a tenant uses it: real runs, real sandboxes, the real client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")

from quintain.sandbox import NativeBackend
from quintain.serve import (
    OPERATIONS,
    ApiError,
    AsyncClient,
    Client,
    Done,
    Ended,
    Numbered,
    Piece,
    RunAsked,
    RunState,
    To,
    document,
)
from tests.serve.house import FILES, served, serving

sandboxes = pytest.mark.skipif(not NativeBackend().probe().available, reason="this host has no sandboxes")


def numbers(client: Client, run: str, start: int = 0) -> tuple[list[int], Ended]:
    *events, last = client.follow(run, start=start)
    assert isinstance(last, Ended)
    return [one.number for one in events if isinstance(one, Numbered)], last


@sandboxes
def test_a_run_outlives_its_server_and_is_followed_from_any_number(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, _), Client(url) as client:
        assert client.hand_in("mine", FILES).tasks == 1
        run = client.submit(RunAsked(taskset="my:mine", policy="oracle", name="first")).id
        with pytest.raises(ApiError) as refused:  # sent twice, made once
            client.submit(RunAsked(taskset="my:mine", policy="oracle", name="first"))
        assert refused.value.problem.status == 409
    with serving(tmp_path) as (url, _), Client(url) as client:
        every, last = numbers(client, run)
        assert last.state is RunState.ENDED and every == list(range(last.number))
        assert numbers(client, run, start=3)[0] == every[3:]
        found = httpx.get(f"{url}/v1/runs/{run}/events", headers={"last-event-id": "3"})
        assert "id: 4\n" in found.text and "id: 3\n" not in found.text
        told = client.run(run).sum
        assert told is not None and (told.episodes, told.solved, told.events) == (1, 1, len(every))
        [episode] = client.episodes(run).episodes
        whole = client.episode(run, episode.id)
        assert whole.reward is not None and whole.reward.total == episode.reward and whole.solved
        assert "token ids" in client.trajectories(run).without[episode.id]
        assert client.move("double", To.SUSPENDED, "to see").state == "suspended"
        assert [one.state for one in client.standings(state="suspended").tasks] == ["suspended"]
        live(url, run, every)
        client.delete(run)
        assert client.runs().runs == ()


def live(url: str, run: str, every: list[int]) -> None:
    sync = pytest.importorskip("websockets.sync.client", reason="WebSockets need websockets: pip install websockets")
    with sync.connect(f"{url.replace('http', 'ws')}/v1/runs/{run}/live?start=2") as socket:
        said: list[dict[str, Any]] = [json.loads(text) for text in socket]
    assert [one["number"] for one in said[:-1]] == every[2:] and said[-1]["state"] == "ended"
    with pytest.raises(Exception, match="404"):
        sync.connect(f"{url.replace('http', 'ws')}/v1/runs/another/live")


async def _sandbox(root: Path) -> None:
    async with served(root) as (url, _), AsyncClient(url) as client:
        box = await client.open_sandbox(lease_seconds=60)
        outcome = await client.command(box.id, ["python3", "-c", "print(6 * 7)"])
        assert outcome.stdout == b"42\n"
        await client.write_file(box.id, "a/b.txt", b"\x00hello")
        assert await client.read_file(box.id, "a/b.txt") == b"\x00hello"
        said = [one async for one in client.command_streamed(box.id, ["sh", "-c", "echo out; echo err >&2; exit 3"])]
        assert {one.stream: one.data for one in said if isinstance(one, Piece)} == {
            "stdout": b"out\n", "stderr": b"err\n"}
        assert isinstance(said[-1], Done) and said[-1].outcome.exit_code == 3
        with pytest.raises(ApiError) as refused:
            await client.read_file(box.id, "../../../etc/shadow")
        assert refused.value.problem.status in (404, 409)
        await stopped_when_nobody_listens(client, box.id)
        brief = await client.open_sandbox(lease_seconds=0.3)
        with pytest.raises(ApiError) as refused:
            await used(client, brief.id)
        assert refused.value.problem.status in (404, 410)


async def used(client: AsyncClient, box: str) -> None:
    """Again and again, as long as it lives."""
    for _ in range(200):
        await client.command(box, ["true"])
        await asyncio.sleep(0.1)


async def stopped_when_nobody_listens(client: AsyncClient, box: str) -> None:
    stream = client.command_streamed(box, ["sh", "-c", "echo here; exec sleep 1000"], wall_seconds=1000.0)
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    for _ in range(100):
        seen = await client.command(box, ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])
        if b"sleep 1000" not in seen.stdout:
            return
        await asyncio.sleep(0.1)
    pytest.fail("a command that nobody listens to lives on")


@sandboxes
def test_a_sandbox_runs_commands_keeps_files_and_ends_with_its_lease(tmp_path: Path) -> None:
    asyncio.run(_sandbox(tmp_path))


def test_the_document_shows_examples_that_its_own_types_accept() -> None:
    found = msgspec.json.decode(msgspec.json.encode(document(OPERATIONS)))
    assert found["openapi"] == "3.1.0"
    for operation in OPERATIONS:
        shown = found["paths"][operation.path][operation.method.lower()]
        assert shown["operationId"] == operation.id and str(operation.status) in shown["responses"]
        assert bool(shown["security"]) == (operation.scope is not None)
        if operation.body not in (None, bytes):
            example = shown["requestBody"]["content"]["application/json"]["example"]
            assert msgspec.convert(example, operation.body) == operation.example
    text = json.dumps(found)
    for name in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in found["components"]["schemas"], name
