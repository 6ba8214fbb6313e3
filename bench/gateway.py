"""Claim: with 1,000 sessions streaming at once the gateway adds 3 ms to the first token (median), and loses no token.

A model server of the bench's own (raw sockets, in vLLM's words: token ids and log-probabilities in each chunk) answers
each session with `--tokens` chunks, the first 50 ms after it was asked, then one each `--pace` seconds. `--sessions`
streams begin evenly over the time that one takes, so that all of them are open at once for a while; first straight to
the model server, then through `Gateway` (an episode each, with a file on the disk). Model server, gateway and load are
a process each, on the same cores. `added_first_token_ms` is the difference of the medians, `tokens_lost` counts what
the agent did not get or what was not recorded bit for bit. `gateway_cpu_us_per_token` is the gateway's CPU for a chunk,
all in. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from _machine import finish

from quintain.serve import ChatUpstream, Gateway, listening

FIRST_SECONDS = 0.05


def ids_of(session: int, tokens: int) -> list[int]:
    return [session * 1000 + nth for nth in range(tokens)]


def event(content: bytes) -> bytes:
    data = b"data: " + content + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


async def model_server(tokens: int, pace: float) -> None:
    """Answers until its standard input ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                asked = time.monotonic()
                body = json.loads(await reader.readexactly(length))
                await stream(writer, int(body["messages"][-1]["content"].split()[-1]), asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def stream(writer: asyncio.StreamWriter, session: int, asked: float) -> None:
        top = {"id": f"c{session}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for nth, token in enumerate(ids_of(session, tokens)):
            await asyncio.sleep(max(0.0, asked + FIRST_SECONDS + nth * pace - time.monotonic()))
            score = {"content": [{"token": "t", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
            choice = {"index": 0, "delta": {"content": f" {token}"}, "finish_reason": None, "token_ids": [token],
                      "logprobs": score}
            more = {"prompt_token_ids": [session, 1, 2]} if nth == 0 else {}
            writer.write(event(json.dumps({**top, **more, "choices": [choice]}).encode()))
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        writer.write(event(json.dumps({**top, "choices": [end]}).encode()) + event(b"[DONE]") + b"0\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**20, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


async def gateway(upstream: str, sessions: int, tokens: int, folder: Path) -> None:
    """Serves an episode for each session; with the end of its standard input it says what was recorded of them."""
    behind = ChatUpstream(upstream, connections=2 * sessions)
    door = Gateway(behind, folder=folder)
    paths = [door.open(f"s{nth}") for nth in range(sessions)]
    async with listening(door.app) as url:
        print(json.dumps([url + path for path in paths]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        whole = 0
        for nth in range(sessions):
            turns = door.close(f"s{nth}").turns
            good = len(turns) == 1 and list(turns[0].output_token_ids or ()) == ids_of(nth, tokens)
            whole += good and turns[0].logprobs == (-0.5,) * tokens
        print(json.dumps({"whole": whole, "cpu_seconds": time.process_time()}), flush=True)
    await behind.aclose()


async def session(base: str, nth: int) -> tuple[float, int]:
    """Seconds to the first token, and how many came."""
    place = urlsplit(base)
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": f"session {nth}"}]})
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=2**20)
    asked = time.monotonic()
    writer.write(f"POST {place.path}/chat/completions HTTP/1.1\r\nhost: {place.netloc}\r\n"
                 f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    first, tokens = 0.0, 0
    while b"[DONE]" not in (line := await reader.readline()):
        if not line:
            break
        if b'"content":"' in line.replace(b'": "', b'":"'):
            first = first or time.monotonic() - asked
            tokens += 1
    writer.close()
    return first, tokens


async def load(bases: list[str], over_seconds: float) -> tuple[list[float], int]:
    """All sessions, their beginnings spread evenly over a time."""
    began = time.monotonic()

    async def one(nth: int, base: str) -> tuple[float, int]:
        await asyncio.sleep(max(0.0, began + nth * over_seconds / len(bases) - time.monotonic()))
        return await session(base, nth)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(nth, base)) for nth, base in enumerate(bases)]
    found = [task.result() for task in tasks]
    return [first for first, _ in found], sum(tokens for _, tokens in found)


def started(*words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__, *words], stdin=pipe, stdout=pipe, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    sizes = ("--sessions", str(options.sessions), "--tokens", str(options.tokens), "--pace", str(options.pace))
    lasts = FIRST_SECONDS + options.tokens * options.pace
    model = started("--role", "model", *sizes)
    behind = said(model).strip()
    door = started("--role", "gateway", "--upstream", behind, "--folder", str(folder), *sizes)
    try:
        bases = json.loads(said(door))
        asyncio.run(load([behind] * 20, 0.5))
        direct, straight = asyncio.run(load([behind] * options.sessions, lasts))
        before = cpu_seconds(door.pid)
        through, got = asyncio.run(load(bases, lasts))
        used = cpu_seconds(door.pid) - before
        recorded = json.loads(door.communicate("")[0])
    finally:
        for process in (door, model):
            process.stdin.close() if process.stdin and not process.stdin.closed else None
            process.wait(30)
    wanted = options.sessions * options.tokens
    medians = [statistics.median(values) * 1000 for values in (direct, through)]
    return {
        "sessions": options.sessions, "tokens": wanted, "tokens_per_second": round(options.sessions / options.pace),
        "first_token_ms": round(medians[1], 2), "first_token_direct_ms": round(medians[0], 2),
        "added_first_token_ms": round(medians[1] - medians[0], 2),
        "added_first_token_p99_ms": round(1000 * (p99(through) - p99(direct)), 2),
        "tokens_lost": wanted - got, "tokens_lost_direct": wanted - straight,
        "sessions_not_recorded_exactly": options.sessions - recorded["whole"],
        "gateway_cpu_us_per_token": round(used / wanted * 1e6, 1),
    }


def p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between the tokens of a session")
    parser.add_argument("--quick", action="store_true", help="100 sessions of 10 tokens, 10 a second")
    for name in ("--role", "--upstream", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sessions, options.tokens, options.pace = 100, 10, 0.1
    if options.role == "model":
        asyncio.run(model_server(options.tokens, options.pace))
    elif options.role == "gateway":
        asyncio.run(gateway(options.upstream, options.sessions, options.tokens, Path(options.folder)))
    else:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(options, Path(folder))
        added, lost = float(str(figures["added_first_token_ms"])), figures["tokens_lost"]
        missed = [*(["added_first_token_ms"] if added > 3.0 else []), *(["tokens_lost"] if lost else []),
                  *(["recorded"] if figures["sessions_not_recorded_exactly"] else [])]
        finish(bench="gateway", **figures, missed=missed)
        raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
