"""Who opens and closes a gateway's episodes from another process: HTTP on a Unix socket of the owner's, where no agent
gets. What an agent reaches by TCP can neither open an episode nor read what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quintain.serve.capture import Captured
from quintain.serve.gateway import Gateway
from quintain.serve.seats import Allowance

_T = TypeVar("_T")


class ToOpen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An episode to be recorded, and the most that it may ask for."""

    episode: str
    seed: int = 0
    allowance: Allowance = Allowance()


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """`base_url` is all that the agent must be told; it is told once and kept nowhere."""

    episode: str
    base_url: str


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    episodes: tuple[str, ...]


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    error: str


def gateway_admin(gateway: Gateway, url: str) -> Starlette:
    """The ASGI application: POST and GET /episodes, GET and DELETE /episode?name=NAME. `url` is where agents find
    `gateway`. Whoever reaches this may do all: serve it on a socket that only the owner can open."""

    async def open_one(request: Request) -> Response:
        try:
            asked = msgspec.json.decode(await request.body(), type=ToOpen)
        except msgspec.MsgspecError as error:
            return _said(Wrong(error=f"expected an episode to open: {error}"), 422)
        if not asked.episode:
            return _said(Wrong(error="expected a name for the episode, found an empty one"), 422)
        try:
            path = gateway.open(asked.episode, seed=asked.seed, allowance=asked.allowance)
        except ValueError as error:
            return _said(Wrong(error=str(error)), 409)
        return _said(Opened(episode=asked.episode, base_url=url + path), 201)

    async def listed(request: Request) -> Response:
        return _said(Listed(episodes=gateway.episodes))

    async def one(request: Request) -> Response:
        name = request.query_params.get("name", "")
        try:
            return _said(gateway.close(name) if request.method == "DELETE" else gateway.captured(name))
        except KeyError:
            return _said(Wrong(error=f"expected an episode that is open, found {name!r}"), 404)

    return Starlette(routes=[
        Route("/episodes", open_one, methods=["POST"]), Route("/episodes", listed, methods=["GET"]),
        Route("/episode", one, methods=["GET", "DELETE"]),
    ])


class GatewayAdmin:
    """The other end of `gateway_admin`: a client of the socket at `path`.

    Every call raises ConnectionError where no gateway listens there, LookupError for an episode that is not open, and
    ValueError for one that is open already or cannot be.
    """

    def __init__(self, path: Path, *, seconds: float = 60.0) -> None:
        self._path = path
        self._seconds = seconds

    def open(self, episode: str, *, seed: int = 0, allowance: Allowance | None = None) -> Opened:
        asked = ToOpen(episode=episode, seed=seed, allowance=allowance or Allowance())
        return self._ask("POST", "/episodes", Opened, msgspec.json.encode(asked))

    def episodes(self) -> tuple[str, ...]:
        return self._ask("GET", "/episodes", Listed).episodes

    def captured(self, episode: str) -> Captured:
        """What was recorded so far."""
        return self._ask("GET", "/episode", Captured, name=episode)

    def close(self, episode: str) -> Captured:
        """End it."""
        return self._ask("DELETE", "/episode", Captured, name=episode)

    def _ask(
        self, method: Literal["GET", "POST", "DELETE"], place: str, kind: type[_T], content: bytes | None = None,
        *, name: str | None = None,
    ) -> _T:
        try:
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(self._path)), timeout=self._seconds) as client:
                answer = client.request(method, "http://gateway" + place, content=content,
                                        params=None if name is None else {"name": name})
        except httpx.TransportError as error:
            raise ConnectionError(f"expected a gateway that listens at {self._path}, found none: {error}") from error
        if answer.status_code >= 400:
            wrong = msgspec.json.decode(answer.content, type=Wrong).error
            raise LookupError(wrong) if answer.status_code == 404 else ValueError(wrong)
        return msgspec.json.decode(answer.content, type=kind)


def _said(what: Opened | Listed | Wrong | Captured, status: int = 200) -> Response:
    return Response(msgspec.json.encode(what), status, media_type="application/json")
