"""A small model of this process behind an OpenAI-compatible face, with vLLM's words for token ids and for new weights.

For tests, small machines and models of a few hundred million weights; for more there is vLLM, which is asked the same.
Whoever reaches it may change its weights: it is for the trainer's side, an agent is given the gateway.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quintain.policy import LocalPolicy
from quintain.serve.base import Refused
from quintain.serve.chat import event, problem, read_request
from quintain.serve.upstream import TokenUpstream
from quintain.types import HouseError

T = TypeVar("T")


class _Prompted(msgspec.Struct, frozen=True):
    """The part of `/v1/completions` that takes token ids."""

    prompt: tuple[int, ...]
    model: str = ""
    seed: int = 0
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    n: int | None = None


class _Call(msgspec.Struct, frozen=True):
    method: str
    kwargs: dict[str, str] = {}


class _Version(msgspec.Struct, frozen=True):
    new_version: str


class ModelServer:
    """Serve `app`. `/v1/chat/completions` (whole or streamed, the text in one piece), `/v1/completions` with a prompt
    of ids, `/v1/models`, `/health`; `/pause`, `/collective_rpc` with `reload_weights`, `/update_weight_version`,
    `/reset_prefix_cache` and `/resume`, as `train.ServedWeights` calls them. While it is paused requests wait; `/pause`
    waits until what is being sampled is whole. Weights are read from folders below `weights` only."""

    def __init__(self, policy: LocalPolicy, *, model: str = "local", weights: Path | None = None) -> None:
        self._policy = policy
        self._model = model
        self._weights = weights.resolve() if weights is not None else None
        self._upstream = TokenUpstream(policy, policy.renderer, model=model)
        self._paused = False
        self._asked = 0
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/models", self._models), Route("/health", self._health),
                Route("/pause", self._pause, methods=["POST"]), Route("/resume", self._resume, methods=["POST"]),
                Route("/is_paused", self._is_paused),
                Route("/collective_rpc", self._call, methods=["POST"]),
                Route("/reset_prefix_cache", self._health, methods=["POST"]),  # there is none
                Route("/update_weight_version", self._version, methods=["POST"]),
            ],
            exception_handlers={Refused: _refused})

    async def _chat(self, request: Request) -> Response:
        asked = read_request(await request.body())
        self._asked += 1
        pieces = [piece async for piece in self._upstream.pieces(asked, (), seed=self._asked)]
        if not asked.stream:
            return Response(pieces[0], media_type="application/json")
        body = b"".join(event(piece) for piece in (*pieces, "[DONE]"))
        return StreamingResponse(iter([body]), media_type="text/event-stream")

    async def _completions(self, request: Request) -> Response:
        asked = _read(await request.body(), _Prompted)
        if not asked.prompt or asked.stream or asked.n not in (None, 1):
            raise Refused(400, "expected a prompt of token ids, no stream, one choice")
        try:
            turn = await self._policy.sampled(
                asked.prompt, seed=asked.seed, temperature=asked.temperature, max_tokens=asked.max_tokens)
        except HouseError as error:
            raise Refused(503, str(error)) from error
        return JSONResponse({
            "id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()),
            "model": self._model, "policy_version": turn.policy_version,
            "choices": [{"index": 0, "text": turn.text, "token_ids": list(turn.output_token_ids or ()),
                         "logprobs": {"token_logprobs": list(turn.logprobs or ())},
                         "finish_reason": turn.finish.value}],
        })

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [
            {"id": self._model, "object": "model", "owned_by": "quintain",
             "policy_version": self._policy.policy_version}]})

    async def _health(self, request: Request) -> Response:
        return Response(b"")

    async def _pause(self, request: Request) -> Response:
        mode = request.query_params.get("mode", "wait")
        if mode != "wait":
            raise Refused(400, f"expected mode=wait, found {mode!r}: a reply of this server has one version of weights")
        if not self._paused:
            self._paused = True
            await self._policy.paused.acquire()
        return JSONResponse({"status": "paused"})

    async def _resume(self, request: Request) -> Response:
        if self._paused:
            self._paused = False
            self._policy.paused.release()
        return JSONResponse({"status": "resumed"})

    async def _is_paused(self, request: Request) -> Response:
        return JSONResponse({"is_paused": self._paused})

    async def _call(self, request: Request) -> Response:
        call = _read(await request.body(), _Call)
        if call.method != "reload_weights" or set(call.kwargs) != {"weights_path"}:
            raise Refused(400, f"expected reload_weights with a weights_path, found {call.method} of "
                          f"{sorted(call.kwargs)}")
        if not self._paused:
            raise Refused(409, "expected a paused server: POST /pause first")
        await asyncio.to_thread(self._reload, Path(call.kwargs["weights_path"]))
        return JSONResponse({"results": [None]})

    def _reload(self, folder: Path) -> None:
        if self._weights is None or not folder.resolve().is_relative_to(self._weights):
            raise Refused(403, f"expected a folder below {self._weights}, found {folder}")
        try:
            self._policy.load_weights(folder.resolve())
        except (OSError, ValueError) as error:
            raise Refused(400, str(error)) from error

    async def _version(self, request: Request) -> Response:
        self._policy.policy_version = _read(await request.body(), _Version).new_version
        return JSONResponse({"success": True, "new_version": self._policy.policy_version})


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(400, str(error)) from error


async def _refused(request: Request, error: Exception) -> Response:
    refused = error if isinstance(error, Refused) else Refused(500, str(error))
    return Response(problem(refused), refused.status, media_type="application/json")
