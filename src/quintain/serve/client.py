"""The API from Python: `Client` for everyone, `AsyncClient` for asyncio; the words are those of `quintain.serve`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import httpx
import msgspec

from quintain.serve.words import (
    CommandAsked,
    Done,
    Ended,
    EpisodePage,
    LeaseAsked,
    Listing,
    MoveAsked,
    Numbered,
    Offer,
    Piece,
    Problem,
    RunAsked,
    RunPage,
    RunView,
    SandboxAsked,
    SandboxView,
    StandingPage,
    StandingView,
    TasksetAsked,
    TasksetView,
    To,
    TrajectoryPage,
)
from quintain.types import Episode, Limits, Outcome

_T = TypeVar("_T")


class ApiError(Exception):
    """The server refused: `problem` says what was expected, what was found, and where. `retry_seconds` where it said
    when to come again."""

    def __init__(self, problem: Problem, retry_seconds: float | None = None) -> None:
        super().__init__(f"{problem.status} {problem.where}: expected {problem.expected}, found {problem.found}")
        self.problem = problem
        self.retry_seconds = retry_seconds


class _Ask(NamedTuple):
    """One request, and what to make of its reply."""

    method: str
    path: str
    kind: Any = None
    query: Mapping[str, object] = {}
    body: object = None

    def arguments(self) -> dict[str, Any]:
        query = {name: value for name, value in self.query.items() if value is not None}
        sent: dict[str, Any] = {"method": self.method, "url": self.path, "params": query}
        if isinstance(self.body, bytes):
            sent |= {"content": self.body, "headers": {"content-type": "application/octet-stream"}}
        elif self.body is not None:
            sent |= {"content": msgspec.json.encode(self.body), "headers": {"content-type": "application/json"}}
        return sent


def _reply(response: httpx.Response, kind: type[_T]) -> _T:
    """Raises ApiError."""
    _check(response)
    if kind is bytes:
        return response.content  # type: ignore[return-value]
    return None if kind is None else msgspec.json.decode(response.content, type=kind)  # type: ignore[return-value]


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:  # not our server: something in between
        problem = Problem(status=response.status_code, code="foreign", expected="an answer of Quintain's API",
                          found=response.text[:200], where="server")
    after = response.headers.get("retry-after", "")
    raise ApiError(problem, float(after) if after.isdigit() else None)


class _Events:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._name = ""

    def take(self, line: str) -> Numbered | Ended | Piece | Done | None:
        """Raises ApiError for an event that says a problem."""
        field, _, value = line.partition(": ")
        if field == "event":
            self._name = value
        if field != "data":
            return None
        if self._name == "problem":
            raise ApiError(msgspec.json.decode(value, type=Problem))
        kinds: dict[str, Any] = {"event": Numbered, "ended": Ended, "output": Piece, "done": Done}
        found: Numbered | Ended | Piece | Done = msgspec.json.decode(value, type=kinds[self._name])
        return found


def _submit(asked: RunAsked) -> _Ask:
    return _Ask("POST", "/v1/runs", RunView, body=asked)


def _command(sandbox: str, argv: Sequence[str], stream: bool, **more: Any) -> _Ask:
    asked = CommandAsked(argv=tuple(argv), stream=stream, **more)
    return _Ask("POST", f"/v1/sandboxes/{sandbox}/commands", Outcome, body=asked)


class Client:
    """`with Client(url, key) as client`. Every call raises ApiError for a refusal, and httpx.TransportError where there
    is no server."""

    def __init__(self, url: str, key: str = "", *, timeout_seconds: float = 120.0) -> None:
        self._http = httpx.Client(base_url=url, headers=_headers(key), timeout=timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def _do(self, ask: _Ask) -> Any:
        return _reply(self._http.request(**ask.arguments()), ask.kind)

    def submit(self, asked: RunAsked) -> RunView:
        found: RunView = self._do(_submit(asked))
        return found

    def runs(self, *, after: str | None = None, limit: int = 100) -> RunPage:
        found: RunPage = self._do(_Ask("GET", "/v1/runs", RunPage, {"after": after, "limit": limit}))
        return found

    def run(self, run: str) -> RunView:
        found: RunView = self._do(_Ask("GET", f"/v1/runs/{run}", RunView))
        return found

    def stop(self, run: str) -> RunView:
        found: RunView = self._do(_Ask("POST", f"/v1/runs/{run}/stop", RunView))
        return found

    def resume(self, run: str) -> RunView:
        found: RunView = self._do(_Ask("POST", f"/v1/runs/{run}/resume", RunView))
        return found

    def delete(self, run: str) -> None:
        self._do(_Ask("DELETE", f"/v1/runs/{run}"))

    def follow(self, run: str, *, start: int = 0) -> Iterator[Numbered | Ended]:
        """Events from number `start` on; the last is Ended. Where a stream ends before its run does, follow again from
        `Ended.number`."""
        for one in self._stream(_Ask("GET", f"/v1/runs/{run}/events", query={"start": start})):
            if isinstance(one, Numbered | Ended):
                yield one

    def episodes(self, run: str, *, after: int = 0, limit: int = 100) -> EpisodePage:
        found: EpisodePage = self._do(_Ask(
            "GET", f"/v1/runs/{run}/episodes", EpisodePage, {"after": after, "limit": limit}))
        return found

    def episode(self, run: str, episode: str) -> Episode:
        found: Episode = self._do(_Ask("GET", f"/v1/runs/{run}/episode", Episode, {"id": episode}))
        return found

    def trajectories(
        self, run: str, *, episode: str | None = None, after: int = 0, limit: int = 100,
    ) -> TrajectoryPage:
        found: TrajectoryPage = self._do(_Ask("GET", f"/v1/runs/{run}/trajectories", TrajectoryPage, {
            "episode": episode, "after": after, "limit": limit}))
        return found

    def blob(self, run: str, digest: str) -> bytes:
        found: bytes = self._do(_Ask("GET", f"/v1/runs/{run}/blobs/{digest}", bytes))
        return found

    def offer(self) -> Offer:
        found: Offer = self._do(_Ask("GET", "/v1/offer", Offer))
        return found

    def hand_in(self, name: str, files: Mapping[str, bytes]) -> TasksetView:
        found: TasksetView = self._do(_Ask(
            "POST", "/v1/tasksets", TasksetView, body=TasksetAsked(name=name, files=dict(files))))
        return found

    def standings(self, *, after: str | None = None, state: str | None = None, limit: int = 100) -> StandingPage:
        found: StandingPage = self._do(_Ask(
            "GET", "/v1/standings", StandingPage, {"after": after, "state": state, "limit": limit}))
        return found

    def move(self, task: str, to: To, evidence: str) -> StandingView:
        found: StandingView = self._do(_Ask(
            "POST", "/v1/standings", StandingView, body=MoveAsked(task=task, to=to, evidence=evidence)))
        return found

    def open_sandbox(self, *, lease_seconds: float = 300.0, limits: Limits | None = None) -> SandboxView:
        found: SandboxView = self._do(_Ask(
            "POST", "/v1/sandboxes", SandboxView, body=SandboxAsked(lease_seconds=lease_seconds, limits=limits)))
        return found

    def renew(self, sandbox: str, lease_seconds: float) -> SandboxView:
        found: SandboxView = self._do(_Ask(
            "POST", f"/v1/sandboxes/{sandbox}/lease", SandboxView, body=LeaseAsked(lease_seconds=lease_seconds)))
        return found

    def end_sandbox(self, sandbox: str) -> None:
        self._do(_Ask("DELETE", f"/v1/sandboxes/{sandbox}"))

    def command(self, sandbox: str, argv: Sequence[str], **more: Any) -> Outcome:
        """`more`: the other fields of CommandAsked."""
        found: Outcome = self._do(_command(sandbox, argv, False, **more))
        return found

    def command_streamed(self, sandbox: str, argv: Sequence[str], **more: Any) -> Iterator[Piece | Done]:
        """Its output as it is written, and at last Done. Who stops reading kills it."""
        for one in self._stream(_command(sandbox, argv, True, **more)):
            if isinstance(one, Piece | Done):
                yield one

    def read_file(self, sandbox: str, path: str) -> bytes:
        found: bytes = self._do(_Ask("GET", f"/v1/sandboxes/{sandbox}/files", bytes, {"path": path}))
        return found

    def write_file(self, sandbox: str, path: str, content: bytes) -> None:
        self._do(_Ask("PUT", f"/v1/sandboxes/{sandbox}/files", query={"path": path}, body=content))

    def list_files(self, sandbox: str, path: str = "/work", *, depth: int = 1) -> Listing:
        found: Listing = self._do(_Ask(
            "GET", f"/v1/sandboxes/{sandbox}/listing", Listing, {"path": path, "depth": depth}))
        return found

    def _stream(self, ask: _Ask) -> Iterator[Numbered | Ended | Piece | Done]:
        with self._http.stream(**ask.arguments()) as response:
            if not response.is_success:
                response.read()
            _check(response)
            yield from _said(response.iter_lines())


def _said(lines: Iterable[str]) -> Iterator[Numbered | Ended | Piece | Done]:
    events = _Events()
    for line in lines:
        one = events.take(line)
        if one is not None:
            yield one


class AsyncClient:
    """The same for asyncio, as far as many calls at a time need it: runs, their events, and sandboxes."""

    def __init__(self, url: str, key: str = "", *, timeout_seconds: float = 120.0) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(key), timeout=timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def _do(self, ask: _Ask) -> Any:
        return _reply(await self._http.request(**ask.arguments()), ask.kind)

    async def submit(self, asked: RunAsked) -> RunView:
        found: RunView = await self._do(_submit(asked))
        return found

    async def run(self, run: str) -> RunView:
        found: RunView = await self._do(_Ask("GET", f"/v1/runs/{run}", RunView))
        return found

    async def follow(self, run: str, *, start: int = 0) -> AsyncIterator[Numbered | Ended]:
        """See `Client.follow`."""
        async for one in self._stream(_Ask("GET", f"/v1/runs/{run}/events", query={"start": start})):
            if isinstance(one, Numbered | Ended):
                yield one

    async def trajectories(self, run: str, *, after: int = 0, limit: int = 100) -> TrajectoryPage:
        found: TrajectoryPage = await self._do(_Ask("GET", f"/v1/runs/{run}/trajectories", TrajectoryPage, {
            "after": after, "limit": limit}))
        return found

    async def open_sandbox(self, *, lease_seconds: float = 300.0, limits: Limits | None = None) -> SandboxView:
        found: SandboxView = await self._do(_Ask(
            "POST", "/v1/sandboxes", SandboxView, body=SandboxAsked(lease_seconds=lease_seconds, limits=limits)))
        return found

    async def end_sandbox(self, sandbox: str) -> None:
        await self._do(_Ask("DELETE", f"/v1/sandboxes/{sandbox}"))

    async def command(self, sandbox: str, argv: Sequence[str], **more: Any) -> Outcome:
        found: Outcome = await self._do(_command(sandbox, argv, False, **more))
        return found

    async def command_streamed(self, sandbox: str, argv: Sequence[str], **more: Any) -> AsyncIterator[Piece | Done]:
        """See `Client.command_streamed`."""
        async for one in self._stream(_command(sandbox, argv, True, **more)):
            if isinstance(one, Piece | Done):
                yield one

    async def read_file(self, sandbox: str, path: str) -> bytes:
        found: bytes = await self._do(_Ask("GET", f"/v1/sandboxes/{sandbox}/files", bytes, {"path": path}))
        return found

    async def write_file(self, sandbox: str, path: str, content: bytes) -> None:
        await self._do(_Ask("PUT", f"/v1/sandboxes/{sandbox}/files", query={"path": path}, body=content))

    async def _stream(self, ask: _Ask) -> AsyncIterator[Numbered | Ended | Piece | Done]:
        events = _Events()
        async with self._http.stream(**ask.arguments()) as response:
            if not response.is_success:
                await response.aread()
            _check(response)
            async for line in response.aiter_lines():
                one = events.take(line)
                if one is not None:
                    yield one


def _headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}
