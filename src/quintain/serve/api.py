"""The HTTP API of the house, put together: its routes behind its door, and what lives as long as it is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Scoped
from starlette.websockets import WebSocket, WebSocketDisconnect

from quintain import __version__
from quintain.serve import of_runs, of_sandboxes, of_tasks
from quintain.serve.bounds import AuditLog
from quintain.serve.connections import Doorkeeper
from quintain.serve.door import Door, Endpoint, problem_of, query_of
from quintain.serve.homes import Homes
from quintain.serve.keys import KeyRing
from quintain.serve.leases import Leases
from quintain.serve.openapi import document
from quintain.serve.operation import JSON, Call, House, Operation
from quintain.serve.playing import Player, Plays
from quintain.serve.words import EventsAsked, Health, Refusal, Scope
from quintain.types import HouseError

if TYPE_CHECKING:  # told what makes sandboxes, it knows none itself
    from quintain.sandbox import Backend


async def _health(house: House, call: Call) -> object:
    return Health(state="draining" if house.draining else "serving", version=__version__)


OPERATIONS: tuple[Operation, ...] = (
    *of_runs.OPERATIONS, *of_tasks.OPERATIONS, *of_sandboxes.OPERATIONS,
    Operation(id="getHealth", method="GET", path="/healthz", scope=None, says="Whether it serves.", answer=_health,
              reply=Health),
)


class Api:
    """Everything below `root`: `keys.json`, `audit.jsonl`, and a folder for each tenant. `app` is what is served, as
    long as `async with api.open():` lasts; `doorkeeper.protocol()` is what listens for it.

    `local` is for a server that listens on the loopback alone: without keys it then serves whoever is on this machine.
    """

    def __init__(
        self, root: Path, player: Player, backend: Backend, *, local: bool = False, runs_at_once: int = 4,
        sandboxes: int = 64, drain_seconds: float = 30.0, doorkeeper: Doorkeeper | None = None,
    ) -> None:
        self.ring = KeyRing(root / "keys.json")
        self.doorkeeper = doorkeeper or Doorkeeper()
        self._audit = AuditLog(root / "audit.jsonl")
        homes = Homes(root / "tenants")
        plays = Plays(homes, player, self.ring.quota, at_once=runs_at_once, drain_seconds=drain_seconds)
        leases = Leases(backend, self.ring.quota, most=sandboxes)
        self.house = House(homes, self.ring, plays, leases)
        self._doors: list[Door] = []
        self.app: ASGIApp = Door(self._routes(), self.house, self._audit, local=local)
        self._doors.append(self.app)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Runs go on, sandboxes can be had. At the end runs are told to end and wait for the next server."""
        try:
            async with self.house.leases.open(), self.house.plays.open():
                try:
                    yield
                finally:
                    self.drain()
        finally:
            self._audit.close()

    def drain(self) -> None:
        """From now on: no new request, and streams end."""
        self.house.draining = True

    def _routes(self) -> Starlette:
        text = msgspec.json.encode(document(OPERATIONS))

        async def described(request: Request) -> Response:
            return Response(text, media_type=JSON)

        by_path: dict[str, dict[str, ASGIApp]] = {}
        for operation in OPERATIONS:
            endpoint = Endpoint(operation, self.house, self._doors)
            by_path.setdefault(operation.path, {})[operation.method] = endpoint
        routes = [Route(path, _Methods(methods)) for path, methods in by_path.items()]
        return Starlette(
            routes=[*routes, Route("/openapi.json", described, methods=["GET"]),
                    WebSocketRoute("/v1/runs/{run}/live", self._live)],
            exception_handlers={HTTPException: _refused, HouseError: _broken, Exception: _broken},
        )

    async def _live(self, socket: WebSocket) -> None:
        """`followRun` as a WebSocket of JSON texts."""
        door, run = self._doors[0], socket.path_params["run"]
        try:
            tenant, quota = door.admitted(socket, Scope.RUNS_READ)
            start = query_of(socket, EventsAsked).start
            self.house.plays.get(tenant, run)
            if door.streams.of(tenant) >= quota.streams:
                raise Refusal(429, "quota", expected=f"at most {quota.streams} open streams", found="more",
                              where="quota.streams", retry_seconds=1)
        except Refusal as refusal:
            await socket.send_denial_response(problem_of(refusal, socket.scope))
            return
        await socket.accept()
        with door.streams.held(tenant):
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(socket, tenant, run, start))
                hearing = group.create_task(_hear(socket))
                await asyncio.wait({telling, hearing}, return_when=asyncio.FIRST_COMPLETED)
                telling.cancel()
                hearing.cancel()

    async def _tell(self, socket: WebSocket, tenant: str, run: str, start: int) -> None:
        try:
            async with aclosing(of_runs.follow(self.house, tenant, run, start)) as following:
                async for one in following:
                    if one is not None:
                        await socket.send_text(msgspec.json.encode(one).decode())
            await socket.close()
        except Refusal:  # the run was deleted meanwhile
            await socket.close(code=1008)
        except WebSocketDisconnect:
            pass


async def _hear(socket: WebSocket) -> None:
    """Until it has gone. What it says is not listened to."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


class _Methods:
    """The operations of one path; any other method is refused, and told which there are."""

    def __init__(self, methods: dict[str, ASGIApp]) -> None:
        self._methods = methods

    async def __call__(self, scope: Scoped, receive: Receive, send: Send) -> None:
        endpoint = self._methods.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
            return
        allowed = ", ".join(sorted(self._methods))
        refusal = Refusal(405, "method", expected=allowed, found=scope["method"][:20], where="method")
        response = problem_of(refusal, scope)
        response.headers["allow"] = allowed
        await response(scope, receive, send)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = problem_of(Refusal(
        status, "not_found" if status == 404 else "refused", expected="a path of /openapi.json",
        found=request.url.path[:200], where="path"), request.scope)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _broken(connection: HTTPConnection, error: Exception) -> Response:
    """A flaw of ours, or a disk that fails: nothing of it is told, the log has it."""
    return problem_of(Refusal(
        500, "broken", expected="an answer", found="that the server failed: its log says how", where="server",
    ), connection.scope)
