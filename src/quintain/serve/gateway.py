"""The capture gateway: an address for each episode, at which an agent that we did not write talks to a model, and a
record of every id that was read and sampled there.

The agent is told a base address, `…/e/KEY/v1`, and needs to know nothing else. KEY cannot be guessed, so that no agent
reaches another's episode; nothing that was recorded can be read or changed by HTTP.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quintain.policy import Answer, EndpointFailed, Malformed
from quintain.serve.base import Asked, Exchange, Refused, Upstream
from quintain.serve.capture import Captured
from quintain.serve.chat import as_wanted, event, problem, read_request
from quintain.types import Turn

_MOST_BYTES = 64 * 1024 * 1024


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one episode may ask for: a loop that never ends must not sample for ever. None: no bound."""

    turns: int | None = 1000
    sampled_tokens: int | None = None


class Gateway:
    """Serve `app` (`async with listening(gateway.app) as url`), `open` an episode, let the agent play with
    `url + path` as its base address, `close` it and train on `Captured.rows`.

    `policy_version` is recorded with replies of an upstream that tells none, as of when they were asked for. A reply
    that nobody waited for is not recorded: who asks again gets another one. An upstream that gives no ids is an error
    for the agent too (502): an episode that cannot be trained on should not be paid for.
    """

    def __init__(self, upstream: Upstream, *, policy_version: str = "0") -> None:
        self.policy_version = policy_version
        self._upstream = upstream
        self._seats: dict[str, _Seat] = {}
        self._keys: dict[str, str] = {}
        self.app = Starlette(routes=[
            Route("/e/{key}/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/e/{key}/v1/models", self._models, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
        ])

    def open(self, episode: str, *, seed: int = 0, allowance: Allowance | None = None) -> str:
        """Begin to record; the path of the episode's base address. The n-th request that brings no seed is asked with
        `seed` + n. Raises ValueError for an episode that is open."""
        if episode in self._keys:
            raise ValueError(f"expected an episode that is not open, found {episode!r}")
        key = secrets.token_urlsafe(24)
        self._keys[episode] = key
        self._seats[key] = _Seat(episode, seed, allowance or Allowance())
        return f"/e/{key}/v1"

    def captured(self, episode: str) -> Captured:
        """What was recorded so far. Raises KeyError for an episode that is not open."""
        return self._seats[self._keys[episode]].captured()

    def close(self, episode: str) -> Captured:
        """End it: what still asks gets 404, what is not answered yet is lost. Raises KeyError as `captured`."""
        seat = self._seats.pop(self._keys.pop(episode))
        seat.closed = True
        return seat.captured()

    async def _chat(self, request: Request) -> Response:
        seat = self._seats.get(request.path_params["key"])
        try:
            if seat is None:
                raise Refused(404, "there is no such episode, or it is over")
            asked = read_request(await _body(request))
            seat.check()
        except Refused as refused:
            return Response(problem(refused), refused.status, media_type="application/json")
        if asked.stream:
            return await self._streamed(seat, asked, request)
        try:
            whole = [piece async for piece in self._recorded(seat, asked, request)]
        except Refused as refused:
            return Response(problem(refused), refused.status, media_type="application/json")
        return Response("".join(whole), media_type="application/json")

    async def _streamed(self, seat: _Seat, asked: Asked, request: Request) -> Response:
        """A stream begins only when its first piece is there: until then a refusal has a status of its own."""
        pieces = self._recorded(seat, asked, request)
        try:
            first = await anext(pieces)
        except Refused as refused:
            return Response(problem(refused), refused.status, media_type="application/json")
        except StopAsyncIteration:  # nobody waits any more
            return Response(b"")

        async def events() -> AsyncIterator[bytes]:
            yield event(first)
            try:
                async for piece in pieces:
                    yield event(piece)
            except Refused as refused:
                yield event(problem(refused).decode("utf-8", "replace"))
                return
            finally:
                await pieces.aclose()
            yield event("[DONE]")

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-cache"})

    async def _recorded(self, seat: _Seat, asked: Asked, request: Request) -> AsyncGenerator[str, None]:
        """What the agent is to be told, piece by piece; recorded before its last piece goes out."""
        version, began = self.policy_version, time.time()
        answer, kept = Answer(), False
        seat.asked += 1
        answering = self._upstream.pieces(asked, tuple(seat.exchanges), seed=seat.seed + seat.asked - 1)
        try:
            async with aclosing(answering) as pieces:
                async for piece in pieces:
                    turn = _taken(answer, piece, version)
                    if turn is not None and not kept:
                        if await request.is_disconnected():
                            return
                        seat.keep(asked, turn, began)
                        kept = True
                    wanted = as_wanted(piece, asked)
                    if wanted is not None:
                        yield wanted
            if not kept:
                raise Refused(502, "the upstream's reply ended before it was whole")
        finally:
            seat.lost += not kept

    async def _models(self, request: Request) -> Response:
        if request.path_params["key"] not in self._seats:
            refused = Refused(404, "there is no such episode, or it is over")
            return Response(problem(refused), 404, media_type="application/json")
        return JSONResponse({"object": "list", "data": [{"id": "policy", "object": "model", "owned_by": "quintain"}]})

    async def _health(self, request: Request) -> Response:
        return Response(b"")


class _Seat:
    """One open episode."""

    def __init__(self, episode: str, seed: int, allowance: Allowance) -> None:
        self.episode = episode
        self.seed = seed
        self.asked = 0
        self.lost = 0
        self.closed = False
        self.exchanges: list[Exchange] = []
        self._allowance = allowance
        self._sampled_tokens = 0

    def check(self) -> None:
        """Raises Refused(403) for an episode that has used up what it may."""
        turns, tokens = self._allowance.turns, self._allowance.sampled_tokens
        if turns is not None and self.asked >= turns:
            raise Refused(403, f"the episode is over: it may ask {turns} times")
        if tokens is not None and self._sampled_tokens >= tokens:
            raise Refused(403, f"the episode is over: it may sample {tokens} tokens")

    def keep(self, asked: Asked, turn: Turn, began: float) -> None:
        if self.closed:
            raise Refused(404, "the episode is over")
        self._sampled_tokens += len(turn.output_token_ids or ())
        self.exchanges.append(
            Exchange(conversation=asked.conversation, turn=turn, began_seconds=began, ended_seconds=time.time()))

    def captured(self) -> Captured:
        return Captured(episode=self.episode, exchanges=tuple(self.exchanges), lost=self.lost)


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


async def _body(request: Request) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > _MOST_BYTES:
            raise Refused(413, f"expected a body of at most {_MOST_BYTES} bytes, found more")
    return bytes(content)
