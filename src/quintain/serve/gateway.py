"""The capture gateway: an address for each episode, at which an agent that we did not write talks to a model, and a
record of every id that was read and sampled there.

The agent is told a base address, `…/e/KEY/v1`, and needs to know nothing else; or `…/v1`, with KEY for an API key. KEY
cannot be guessed, so that no agent reaches another's episode; nothing that was recorded can be read or changed by HTTP.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from quintain.policy import Answer, EndpointFailed, Malformed
from quintain.serve.base import Asked, Refused, Upstream
from quintain.serve.capture import Captured
from quintain.serve.dialect import Chat, Dialect, Memory, NoMemory
from quintain.serve.messages import Messages
from quintain.serve.responses import Responses
from quintain.serve.seats import GONE, Allowance, Seat, Seats
from quintain.types import Finish, Turn

_MOST_BYTES = 64 * 1024 * 1024
#: One address does for all SDKs: Anthropic's adds a `/v1` of its own to the base address that it is told.
_BASES = ("/e/{key}/v1", "/e/{key}/v1/v1", "/e/{key}", "/v1")
_DIALECTS: dict[str, Callable[[Memory], Dialect]] = {
    "/chat/completions": Chat, "/responses": Responses, "/messages": Messages}
_ASKED = re.compile(rf"(?:/e/(?P<key>[^/]+)(?:/v1){{0,2}}|/v1)(?P<what>{'|'.join(_DIALECTS)})")


class Gateway:
    """Serve `app` (`async with listening(gateway.app) as url`), `open` an episode, let the agent play with
    `url + path` as its base address, `close` it and train on `Captured.rows`.

    OpenAI's Chat Completions and Responses and Anthropic's Messages are understood, streamed or not; the upstream is
    asked in the first of them. `policy_version` is recorded with replies of an upstream that tells none, as of when
    they were asked for. A reply that nobody waited for to its end is no reply of the episode, the upstream is told to
    stop, and what was sampled stands in `Captured.cut`: who asks again gets another one. An upstream that gives no ids
    is an error for the agent too (502): an episode that cannot be trained on should not be paid for. With `folder` all
    is kept in files there too, and a gateway that was killed goes on with its open episodes (`quintain.serve.seats`).
    """

    def __init__(self, upstream: Upstream, *, policy_version: str = "0", folder: Path | None = None) -> None:
        self.policy_version = policy_version
        self._upstream = upstream
        self._seats = Seats(folder)
        self._others = Starlette(routes=[
            *(Route(base + "/models", self._models, methods=["GET"]) for base in _BASES),
            Route("/health", self._health, methods=["GET"]),
        ])

        async def app(scope: Scope, receive: Receive, send: Send) -> None:  # a function: what servers take for ASGI 3
            await self._serve(scope, receive, send)

        self.app = app

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What asks for a reply goes past the framework, whose layers cost as much as the rest: a thousand streams wait
        for each other here."""
        place = _ASKED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if place is None:
            await self._others(scope, receive, send)
            return
        request, kind = Request(scope, receive), _DIALECTS[place["what"]]
        if scope["method"] != "POST":
            await _refuse(send, kind(NoMemory()), Refused(405, f"expected POST, found {scope['method']}"))
            return
        seat = self._seats.at(place["key"] or _key(request))
        if seat is None:
            await _refuse(send, kind(NoMemory()), Refused(401, GONE))
        else:
            await self._answer(seat, kind(seat), request, send)

    @property
    def episodes(self) -> tuple[str, ...]:
        """Those that are open."""
        return self._seats.episodes

    def open(self, episode: str, *, seed: int = 0, allowance: Allowance | None = None) -> str:
        """Begin to record; the path of the episode's base address. The n-th request that brings no seed is asked with
        `seed` + n. Raises ValueError for an episode that is open."""
        return f"/e/{self._seats.open(episode, seed, allowance or Allowance())}/v1"

    def captured(self, episode: str) -> Captured:
        """What was recorded so far. Raises KeyError for an episode that is not open."""
        return self._seats.of(episode).captured()

    def close(self, episode: str) -> Captured:
        """End it: what still asks gets 401, what is not answered yet is lost. Raises KeyError as `captured`."""
        return self._seats.close(episode).captured()

    async def _answer(self, seat: Seat, dialect: Dialect, request: Request, send: Send) -> None:
        try:
            seat.enter()
        except Refused as refused:
            await _refuse(send, dialect, refused)
            return
        try:
            asked = dialect.read(await _body(request))
            seed = seat.begin()
            await _unless_gone(request, lambda gone: _replied(
                self._recorded(seat, asked, gone, seed), dialect, asked, send))
        except Refused as refused:
            await _refuse(send, dialect, refused)
        finally:
            seat.leave()

    async def _recorded(
        self, seat: Seat, asked: Asked, gone: asyncio.Task[None], seed: int,
    ) -> AsyncGenerator[str, None]:
        """What the upstream says, piece by piece; recorded before its last piece goes out."""
        version, began = self.policy_version, time.time()
        answer, kept = Answer(), False
        answering = self._upstream.pieces(asked, tuple(seat.exchanges), seed=seed)
        try:
            async with aclosing(answering) as pieces:
                async for piece in pieces:
                    turn = _taken(answer, piece, version)
                    if turn is not None and not kept:
                        if gone.done():
                            return
                        seat.keep(asked, turn, began)
                        kept = True
                    yield piece
            if not kept:
                raise Refused(502, "the upstream's reply ended before it was whole")
        finally:
            if not kept:
                seat.lose(asked, _cut(answer, version), began)

    async def _models(self, request: Request) -> Response:
        if self._seats.at(_key(request)) is None:
            return Response(Chat(NoMemory()).problem(Refused(401, GONE)), 401, media_type="application/json")
        return JSONResponse({"object": "list", "data": [{"id": "policy", "object": "model", "owned_by": "quintain"}]})

    async def _health(self, request: Request) -> Response:
        return Response(b"")


async def _replied(pieces: AsyncGenerator[str, None], dialect: Dialect, asked: Asked, send: Send) -> None:
    """Say what comes. A stream begins only when its first piece is there: until then a refusal has a status of its
    own. However it ends, the upstream is let go."""
    began = False
    async with aclosing(pieces):
        try:
            if not asked.stream:
                found = [piece async for piece in pieces]
                await _say(send, 200, dialect.whole("".join(found)) if found else b"")
                return
            async for piece in pieces:
                out = dialect.piece(piece)
                if not began:
                    await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
                    began = True
                if out:
                    await send({"type": "http.response.body", "body": out, "more_body": True})
        except Refused as refused:
            if began:
                await send({"type": "http.response.body", "body": dialect.broken(refused)})
            else:
                await _refuse(send, dialect, refused)
            return
    if began:
        await send({"type": "http.response.body", "body": dialect.end()})
    else:  # nobody waits any more
        await _say(send, 200, b"")


async def _unless_gone(
    request: Request, work: Callable[[asyncio.Task[None]], Coroutine[None, None, None]],
) -> None:
    """Do it, but no further once nobody waits for it any more. The work is told of the task that is done then."""
    async with asyncio.TaskGroup() as crew:
        gone = crew.create_task(_gone(request))
        working = crew.create_task(work(gone))
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()  # no more than a word to one that is done
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


_JSON = [(b"content-type", b"application/json")]
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


async def _say(send: Send, status: int, content: bytes, *more: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*_JSON, length, *more]})
    await send({"type": "http.response.body", "body": content})


async def _refuse(send: Send, dialect: Dialect, refused: Refused) -> None:
    again = refused.retry_after
    more = [(b"retry-after", again.encode("latin-1", "replace"))] if again is not None else []
    await _say(send, refused.status, dialect.problem(refused), *more)


def _key(request: Request) -> str:
    """The episode's key: in the address, else where SDKs put an API key."""
    if "key" in request.path_params:
        return str(request.path_params["key"])
    bearer = request.headers.get("authorization", "")
    return request.headers.get("x-api-key") or bearer.removeprefix("Bearer ").strip()


def _taken(answer: Answer, piece: str, version: str) -> Turn | None:
    """The reply, once this piece makes it whole. Raises Refused(502) for what is no chat completion, and for a reply
    that cannot be trained on."""
    try:
        answer.take(piece)
        if not answer.is_finished:
            return None
        turn = answer.turn(version)
    except (Malformed, EndpointFailed) as error:
        raise Refused(502, str(error)) from error
    if turn.prompt_token_ids is None or turn.output_token_ids is None or turn.logprobs is None:
        raise Refused(502, "expected prompt_token_ids, token_ids and a log-probability for each from the upstream, "
                      "found a reply without (vLLM gives them from 0.10.2 on)")
    return turn


def _cut(answer: Answer, version: str) -> Turn | None:
    """What was sampled of a reply that nobody got whole; None where nothing was, or no ids came with it."""
    try:
        turn = answer.turn(version)
    except EndpointFailed:
        return None
    if turn.prompt_token_ids is None or turn.output_token_ids is None or turn.logprobs is None:
        return None
    return msgspec.structs.replace(turn, finish=Finish.LENGTH)


async def _body(request: Request) -> bytes:
    """Raises Refused(413) as soon as it is known to be too long."""
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > _MOST_BYTES:
        raise Refused(413, f"expected a body of at most {_MOST_BYTES} bytes, found {said}")
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > _MOST_BYTES:
            raise Refused(413, f"expected a body of at most {_MOST_BYTES} bytes, found more")
    return bytes(content)
