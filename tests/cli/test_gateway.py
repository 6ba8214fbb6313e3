"""`quintain gateway`: opened, asked, killed, gone on with and closed from other processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")
pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")

from quintain.serve import listening
from tests.serve.scripted_model import ScriptedModel

SAID = {"model": "m", "messages": [{"role": "user", "content": "What?"}]}


def quintain(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "quintain", "gateway", *words], text=True, capture_output=True)
    assert done.returncode == code, done.stderr
    return done.stdout if not code else done.stderr


async def started(upstream: str, folder: Path, port: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "quintain", "gateway", "serve", upstream, "--folder", str(folder), "--port", str(port),
        stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    assert b"recording at" in await asyncio.wait_for(process.stderr.readline(), 60)
    return process


def test_an_agent_is_recorded_and_a_killed_gateway_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    mine = ("--folder", str(folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def play() -> ScriptedModel:
        model = ScriptedModel()
        async with listening(model.app, grace_seconds=1) as behind, httpx.AsyncClient(timeout=30) as client:
            process = await started(behind + "/v1", folder, port)
            try:
                base = (await asyncio.to_thread(quintain, "open", "a task#0", *mine)).strip()
                assert base.startswith(f"http://127.0.0.1:{port}/e/")
                assert (await client.post(base + "/chat/completions", json=SAID)).status_code == 200
                refused = await asyncio.to_thread(quintain, "open", "a task#0", *mine, code=1)
                assert "not open" in refused
                second = await asyncio.to_thread(
                    quintain, "serve", behind, *mine, "--port", "0", code=1)
                assert "somebody listens there" in second
                for odd in ("../..", "a/b?c=d#e&f", "žluťoučký 😀", "%2F", "x" * 2000):
                    await asyncio.to_thread(quintain, "open", odd, *mine)
                    assert json.loads(await asyncio.to_thread(quintain, "close", odd, *mine, "--json"))["replies"] == 0
                assert "empty one" in await asyncio.to_thread(quintain, "open", "", *mine, code=1)
                process.kill()
                await process.wait()
                process = await started(behind + "/v1", folder, port)
                assert (await client.post(base + "/chat/completions", json=SAID)).status_code == 200
                assert json.loads(await asyncio.to_thread(quintain, "list", *mine, "--json")) == {
                    "episodes": ["a task#0"]}
                closed = json.loads(await asyncio.to_thread(
                    quintain, "close", "a task#0", *mine, "--json", "--rows", str(tmp_path / "rows.jsonl"),
                    "--reward", "0.5"))
                assert (closed["replies"], closed["lost"], closed["sampled_tokens"]) == (2, 0, 10)
                assert (await client.post(base + "/chat/completions", json=SAID)).status_code == 401
                assert "expected an episode that is open" in await asyncio.to_thread(
                    quintain, "close", "a task#0", *mine, code=1)
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 30) == 0
            finally:
                if process.returncode is None:
                    process.kill()
        return model

    model = asyncio.run(play())
    rows = [msgspec.json.decode(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    sampled = [token for row in rows for token, yes in zip(row["token_ids"], row["loss_mask"], strict=True) if yes]
    assert sampled == [token for _, ids, _ in model.sampled for token in ids]
    assert {row["reward"] for row in rows} == {0.5}


def test_the_door_of_the_owner_is_closed_to_others_and_is_no_part_of_the_agents(tmp_path: Path) -> None:
    folder = tmp_path / "g"

    async def play() -> None:
        process = await started("http://127.0.0.1:9/v1", folder, 0)
        try:
            mode = os.stat(folder / "admin.sock").st_mode & 0o777
            assert mode == 0o600 and os.stat(folder).st_mode & 0o777 == 0o700
        finally:
            process.kill()
            await process.wait()

    asyncio.run(play())


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    assert "expected a gateway that listens" in quintain("open", "x", "--folder", str(tmp_path), code=1)
    assert "at most 107 bytes" in quintain(
        "serve", "http://127.0.0.1:9/v1", "--folder", str(tmp_path / ("x" * 120)), code=1)
    assert "address of a model server" in quintain("serve", "localhost:8000", "--folder", str(tmp_path), code=2)
