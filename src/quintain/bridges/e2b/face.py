"""E2B's two interfaces on one address: the API that makes sandboxes, and the envd inside each of them.

The SDK tells which sandbox it speaks to in the header `E2b-Sandbox-Id`, once E2B_SANDBOX_URL names this address.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quintain.bridges.e2b import files, words
from quintain.bridges.e2b.connect import STREAM, ConnectError, Envelopes, ending, envelope, seconds_of, single
from quintain.bridges.e2b.held import Held, Holding
from quintain.sandbox import Backend
from quintain.types import MEBIBYTE, Limits, Network

#: Of each sandbox: it lives longer and does more than one program of an exercise.
LIMITS = Limits(
    wall_seconds=86_400.0, cpu_seconds=86_400.0, memory_bytes=1024 * MEBIBYTE, disk_bytes=512 * MEBIBYTE,
    inodes=65_536, processes=256,
)
_MESSAGE_BYTES = 4 * MEBIBYTE
_DEFAULT_SECONDS = 300.0
_MOST_SECONDS = 86_400.0
_IDLE_SECONDS = 90.0
_KILL_SECONDS = 5.0
_Answer = Callable[[Held, bytes], Awaitable[object]]


class E2bFace:
    """Serve `app` while `open()` lasts; then `Sandbox.create(api_url=url, sandbox_url=url, api_key=…)` of the e2b SDK,
    or the variables E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY, make sandboxes of `backend`.

    `keys` are the API keys that are let in; with none, whoever reaches the address is: keep it on the loopback then.
    `images` says which image a template is. A sandbox has the network that `network` and `allow` say, whatever a
    client asks. Every call inside a sandbox needs the token that its maker was given.
    """

    def __init__(
        self, backend: Backend, *, keys: Sequence[str] = (), images: Mapping[str, str] | None = None,
        limits: Limits = LIMITS, network: Network = Network.NONE, allow: Sequence[str] = (), sandboxes: int = 64,
    ) -> None:
        self._keys = tuple(key.encode() for key in keys)
        self._images = dict(images or {"base": "host"})
        self._holding = Holding(backend, limits=limits, network=network, allow=allow, most=sandboxes)
        self.app = Starlette(
            routes=[
                Route("/sandboxes", self._create, methods=["POST"]),
                Route("/v2/sandboxes", self._create, methods=["POST"]),
                Route("/sandboxes", self._list, methods=["GET"]), Route("/v2/sandboxes", self._list, methods=["GET"]),
                Route("/sandboxes/{id}", self._one, methods=["GET", "DELETE"]),
                Route("/sandboxes/{id}/timeout", self._timeout, methods=["POST"]),
                Route("/sandboxes/{id}/connect", self._connect, methods=["POST"]),
                Route("/v2/sandboxes/{id}/connect", self._connect, methods=["POST"]),
                Route("/health", self._health, methods=["GET"]),
                Route("/files", self._files, methods=["GET", "POST"]),
                Route("/process.Process/{method}", self._process, methods=["POST"]),
                Route("/filesystem.Filesystem/{method}", self._filesystem, methods=["POST"]),
            ],
            exception_handlers={ConnectError: _failed})

    def open(self) -> AbstractAsyncContextManager[None]:
        """Sandboxes can be had as long as the block lasts; then every one of them ends."""
        return self._holding.open()

    def _admit(self, request: Request) -> None:
        given = request.headers.get("x-api-key", "").encode()
        if self._keys and not any(hmac.compare_digest(given, key) for key in self._keys):
            raise ConnectError("unauthenticated", "expected an API key that is known in X-API-Key")

    def _inside(self, request: Request) -> Held:
        try:
            held = self._holding.get(request.headers.get("e2b-sandbox-id", ""))
        except ConnectError as error:  # by this code and these words the SDK knows that it has ended
            raise ConnectError("unavailable", str(error)) from None
        given = request.headers.get("x-access-token", "")
        if not hmac.compare_digest(given.encode(), held.token.encode()):
            raise ConnectError("unauthenticated", "expected the sandbox's own token in X-Access-Token")
        return held

    # --- the API ---

    async def _create(self, request: Request) -> Response:
        self._admit(request)
        asked = words.read(await files.whole(request, _MESSAGE_BYTES), words.NewSandbox)
        for name in ("network", "mcp", "volume_mounts", "auto_pause"):
            if getattr(asked, name):
                raise ConnectError("invalid_argument", f"expected no {name}: this server offers none")
        image = self._images.get(asked.template_i_d)
        if image is None:
            known = ", ".join(sorted(self._images))
            raise ConnectError("not_found", f"expected a template of {known}, found {asked.template_i_d!r}")
        held = await self._holding.create(asked, image, _seconds(asked.timeout))
        return JSONResponse(held.created(), 201)

    async def _list(self, request: Request) -> Response:
        self._admit(request)
        wanted = dict(parse_qsl(request.query_params.get("metadata", "")))
        found = [held.view() for held in self._holding.held.values()
                 if wanted.items() <= held.asked.metadata.items() and not held.over.is_set()]
        return JSONResponse([{name: value for name, value in view.items() if name != "envdAccessToken"}
                             for view in found])

    async def _one(self, request: Request) -> Response:
        self._admit(request)
        held = self._holding.get(request.path_params["id"])
        if request.method == "GET":
            return JSONResponse(held.view())
        await self._holding.end(held)
        return Response(status_code=204)

    async def _timeout(self, request: Request) -> Response:
        self._renew(await self._asked(request), await files.whole(request, _MESSAGE_BYTES))
        return Response(status_code=204)

    async def _connect(self, request: Request) -> Response:
        held = await self._asked(request)
        self._renew(held, await files.whole(request, _MESSAGE_BYTES))
        return JSONResponse(held.created())

    async def _asked(self, request: Request) -> Held:
        self._admit(request)
        return self._holding.get(request.path_params["id"])

    def _renew(self, held: Held, body: bytes) -> None:
        held.ends = time.time() + _seconds(words.read(body, words.Timeout).timeout)

    # --- inside a sandbox ---

    async def _health(self, request: Request) -> Response:
        try:
            self._holding.get(request.headers.get("e2b-sandbox-id", ""))
        except ConnectError as error:
            return JSONResponse({"message": str(error)}, 502)
        return Response(status_code=204)

    async def _files(self, request: Request) -> Response:
        held = self._inside(request)
        with files.said():
            return await (files.download if request.method == "GET" else files.upload)(held, request)

    async def _filesystem(self, request: Request) -> Response:
        held, answer = self._inside(request), _FILESYSTEM.get(request.path_params["method"])
        if answer is None:
            raise ConnectError("unimplemented", f"there is no {request.path_params['method']} here")
        with files.said():
            return JSONResponse(await answer(held, await files.whole(request, _MESSAGE_BYTES)))

    async def _process(self, request: Request) -> Response:
        held, method = self._inside(request), request.path_params["method"]
        if method in ("Start", "Connect"):  # read first: while a response streams, its request cannot be read
            return _streamed(self._telling(held, method, request.headers, await files.whole(request, _MESSAGE_BYTES)))
        if method == "StreamInput":
            return Response(await _fed(held, request), media_type=STREAM)
        answer = _PROCESS.get(method)
        if answer is None:
            raise ConnectError("unimplemented", f"there is no {method} here")
        with files.said():
            return JSONResponse(await answer(held, await files.whole(request, _MESSAGE_BYTES)))

    async def _telling(
        self, held: Held, method: str, headers: Mapping[str, str], body: bytes,
    ) -> AsyncGenerator[bytes, None]:
        message, interval = single(body), headers.get("keepalive-ping-interval", "")
        idle = float(max(1, int(interval))) if interval.isdigit() and len(interval) < 6 else _IDLE_SECONDS
        with files.said():
            if method == "Start":
                seconds = seconds_of(headers.get("connect-timeout-ms"))
                told = held.commands.start(words.read(message, words.Start), seconds=seconds, idle_seconds=idle)
            else:
                told = held.commands.connect(words.read(message, words.Selected).process, idle_seconds=idle)
            async with aclosing(told):
                async for content in told:
                    yield content


def _streamed(telling: AsyncGenerator[bytes, None]) -> Response:
    """A stream's errors are told in the stream, with status 200."""
    async def contents() -> AsyncIterator[bytes]:
        try:
            async with aclosing(telling):
                async for content in telling:
                    yield content
        except ConnectError as error:
            yield ending(error)

    return StreamingResponse(contents(), media_type=STREAM)


async def _fed(held: Held, request: Request) -> bytes:
    """What a stream brings goes to a command's input, in order."""
    envelopes, command = Envelopes(_MESSAGE_BYTES), None
    try:
        async for piece in request.stream():
            for message in envelopes.feed(piece):
                asked = words.read(message, words.StreamInput)
                if asked.start is not None:
                    command = held.commands.find(asked.start.process)
                elif asked.data is not None and command is not None:
                    await command.process.send(asked.data.input.data())
    except ConnectError as error:
        return ending(error)
    return envelope({}) + ending()


async def _running(held: Held, body: bytes) -> object:
    return {"processes": held.commands.views()}


async def _input(held: Held, body: bytes) -> object:
    asked = words.read(body, words.SendInput)
    await held.commands.find(asked.process).process.send(asked.input.data())
    return {}


async def _close_input(held: Held, body: bytes) -> object:
    await held.commands.find(words.read(body, words.Selected).process).process.end_input()
    return {}


async def _signal(held: Held, body: bytes) -> object:
    asked = words.read(body, words.SendSignal)
    number, process = asked.number(), held.commands.find(asked.process).process
    if number != 9:
        await process.signal(number)
        return {}
    await process.kill()
    with contextlib.suppress(TimeoutError):  # who is told that it was killed finds it gone
        async with asyncio.timeout(_KILL_SECONDS):
            await process.wait()
    return {}


async def _resize(held: Held, body: bytes) -> object:
    asked = words.read(body, words.Update)
    await held.commands.find(asked.process).process.resize(asked.pty.size.rows, asked.pty.size.cols)
    return {}


_PROCESS: dict[str, _Answer] = {
    "List": _running, "SendInput": _input, "CloseStdin": _close_input, "SendSignal": _signal, "Update": _resize,
}
_FILESYSTEM: dict[str, _Answer] = {
    "Stat": files.stat, "ListDir": files.list_dir, "MakeDir": files.make_dir, "Move": files.move,
    "Remove": files.remove,
}


def _seconds(asked: float | None) -> float:
    seconds = _DEFAULT_SECONDS if asked is None else asked
    if not 0 < seconds <= _MOST_SECONDS:
        raise ConnectError("invalid_argument", f"expected a timeout of up to {_MOST_SECONDS:g} s, found {seconds:g}")
    return seconds


async def _failed(request: Request, error: Exception) -> Response:
    known = error if isinstance(error, ConnectError) else ConnectError("internal", "the server failed")
    if request.url.path.startswith(("/process.", "/filesystem.")):
        return Response(known.content(), known.status, media_type="application/json")
    status = 502 if known.code == "unavailable" and request.url.path == "/files" else known.status
    return JSONResponse({"code": status, "message": str(known)}, status)
