"""A real HTTP server on 127.0.0.1 that answers, or misbehaves, as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Endpoint:
    """Each request gets the next of `replies`; the last one again and again. `requests` are (headers, body)."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:]) if k}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.requests.append(({**headers, ":start": head[0]}, body))
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            await reply(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(*replies)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    endpoint.url = f"http://127.0.0.1:{port}/v1"
    async with server:
        yield endpoint


def respond(status: int, body: bytes, *headers: str, content_type: str = "application/json") -> Reply:
    async def reply(writer: asyncio.StreamWriter) -> None:
        lines = [
            f"HTTP/1.1 {status} Status", f"content-type: {content_type}", f"content-length: {len(body)}",
            "connection: close", *headers,
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return reply


def completion(text: str, *, finish: str = "stop", **more: object) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return respond(200, json.dumps({"choices": [choice], "usage": usage}).encode())


def chunk(**delta: object) -> bytes:
    return data({"choices": [{"index": 0, "delta": delta}]})


def data(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def stream(*pieces: bytes, promised: int | None = None, pause_seconds: float = 0.0) -> Reply:
    """Server-sent events in these pieces. With `promised` more bytes are announced than come: the line drops."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        length = f"content-length: {promised}\r\n" if promised else ""
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{length}connection: close\r\n\r\n".encode(),
        )
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_seconds)

    return reply


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close without a word."""


async def say_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)
