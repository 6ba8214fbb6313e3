"""The gateway when agents hang up, ask too much at once, or send too much, and when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")
pytest.importorskip("aiohttp", reason="the gateway needs aiohttp: pip install quintain[serve]")

from quintain.serve import Allowance, ChatUpstream, Gateway, listening
from quintain.types import Finish
from tests.serve.scripted_model import ScriptedModel

ASKED = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


@asynccontextmanager
async def played(folder: Path | None = None) -> AsyncIterator[tuple[ScriptedModel, Gateway, str]]:
    """A model, a gateway before it, and its address."""
    model = ScriptedModel()
    async with listening(model.app, grace_seconds=1) as behind:
        upstream = ChatUpstream(behind + "/v1")
        gateway = Gateway(upstream, folder=folder)
        async with listening(gateway.app, grace_seconds=1) as url:
            yield model, gateway, url
        await upstream.aclose()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for is told by nobody
            await asyncio.sleep(0.01)


def kept_in(folder: Path) -> Path:
    [kept] = folder.iterdir()
    return kept


@pytest.mark.parametrize("stream", [True, False])
def test_an_agent_that_hangs_up_stops_the_model_and_what_was_sampled_is_cut(stream: bool) -> None:
    async def play() -> None:
        async with played() as (model, gateway, url), httpx.AsyncClient() as client:
            base = url + gateway.open("e")
            body = {**ASKED, "model": "waiting" if stream else "slow", "stream": stream}
            asking = asyncio.create_task(client.post(base + "/chat/completions", json=body, timeout=60))
            await until(lambda: model.asked)
            await asyncio.sleep(0.1)
            asking.cancel()
            await until(lambda: gateway.captured("e").lost)
            if stream:
                await until(lambda: model.hung_up)
            captured = gateway.close("e")
            assert captured.turns == () and captured.rows(task="t", group="g", reward=None) == ()
            assert [(one.turn.output_token_ids, one.turn.finish) for one in captured.cut] == (
                [((0, 1), Finish.LENGTH)] if stream else [])

    asyncio.run(play())


def test_one_request_too_many_at_once_is_told_to_come_again() -> None:
    async def play() -> None:
        async with played() as (model, gateway, url), httpx.AsyncClient() as client:
            path = url + gateway.open("e", allowance=Allowance(at_once=1)) + "/chat/completions"
            first = asyncio.create_task(client.post(path, json={**ASKED, "model": "waiting", "stream": True}))
            await until(lambda: model.asked)
            answer = await client.post(path, json=ASKED)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            model.go_on.set()
            assert (await first).status_code == 200
            assert (await client.post(path, json=ASKED)).status_code == 200
            assert len(gateway.close("e").turns) == 2

    asyncio.run(play())


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes() -> None:
    async def play() -> None:
        async with played() as (_, gateway, url):
            place = httpx.URL(url)
            reader, writer = await asyncio.open_connection(place.host, place.port)
            path = gateway.open("e") + "/chat/completions"
            writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {10**9}\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == b"413"
            writer.close()

    asyncio.run(play())


SERVES = """
import asyncio, sys
from pathlib import Path
from quintain.serve import ChatUpstream, Gateway, listening

async def main():
    gateway = Gateway(ChatUpstream(sys.argv[1]), folder=Path(sys.argv[2]))
    async with listening(gateway.app) as url:
        if len(sys.argv) > 3:
            print(url + gateway.open(sys.argv[3], seed=5), flush=True)
        else:
            print(url, gateway.episodes, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_gateway_that_was_killed_goes_on_with_its_episodes_under_the_same_keys(tmp_path: Path) -> None:
    def started(*words: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([sys.executable, "-c", SERVES, *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    async def play() -> None:
        model = ScriptedModel()
        async with listening(model.app, grace_seconds=1) as behind, httpx.AsyncClient(timeout=30) as client:
            process, base = started(behind + "/v1", str(tmp_path), "e")
            try:
                assert (await client.post(base + "/chat/completions", json=ASKED)).status_code == 200
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            kept = kept_in(tmp_path)
            assert base.split("/")[-2] not in kept.read_text()
            with kept.open("a") as file:  # a record that was being written
                file.write('{"type":"answered","exch')
            process, told = started(behind + "/v1", str(tmp_path))
            try:
                url = told.split()[0]
                assert "'e'" in told
                path = url + "/" + base.split("/", 3)[3] + "/chat/completions"
                assert (await client.post(path, json=ASKED)).status_code == 200
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        assert [body["seed"] for body in model.asked] == [5, 6]
        gateway = Gateway(ChatUpstream("http://127.0.0.1:9/v1"), folder=tmp_path)
        turns = gateway.close("e").turns
        assert [(list(turn.prompt_token_ids or ()), list(turn.output_token_ids or ()), list(turn.logprobs or ()))
                for turn in turns] == model.sampled
        assert gateway.episodes == () and Gateway(ChatUpstream("http://x/v1"), folder=tmp_path).episodes == ()
        assert all(json.loads(line) for line in kept_in(tmp_path).read_text().splitlines())

    asyncio.run(play())
