"""The dashboard as an application: its pages, what they ask for, and the stream that tells them of changes."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from quintain.serve.dashboard.asking import Asking, Unwell, page_of, query_of
from quintain.serve.dashboard.fence import LOCAL_HOSTS, Fence, has_token
from quintain.serve.dashboard.looking import Looking
from quintain.serve.dashboard.views import Alarms, Declined, Replays, Reviews, Standings
from quintain.types import HouseError

STATIC = Path(__file__).parent / "static"
#: So many pages may listen at once, each told at most so often; without news a sign of life comes every 15 s.
MOST_LISTENERS = 64
STREAM_SECONDS = 0.5
BREATH_SECONDS = 15.0
_BODY_BYTES = 64 * 1024
_LONGEST_SILENCE_SECONDS = 7 * 86_400.0
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

_T = TypeVar("_T")
_Endpoint = Callable[[Request], Awaitable[Response]]


def board(
    runs: Path, *, token: str | None = None, reviews: Reviews | None = None, replays: Replays | None = None,
    alarms: Alarms | None = None, standings: Standings | None = None, hosts: Iterable[str] = LOCAL_HOSTS,
) -> Starlette:
    """The dashboard of the runs in `runs`, to be served or mounted below a path without a slash at its end. To decide
    reviews or start replays needs `token` (made here where it is `None`; it is `app.state.token`). A part that is
    `None` is absent, and its page says so. Requests by other names than `hosts` are refused."""
    secret = token if token is not None else secrets.token_urlsafe(24)
    room = _Room(Looking(runs, alarms=alarms, standings=standings), alarms, reviews, replays, secret)
    get: dict[str, _Endpoint] = {
        "/api/house": room.house, "/api/runs": room.runs, "/api/overview": room.overview,
        "/api/episodes": room.episodes, "/api/episode": room.episode, "/api/text": room.text, "/api/tasks": room.tasks,
        "/api/compare": room.compare, "/api/alerts": room.alerts, "/api/reviews": room.review_stats,
        "/api/stream": room.stream,
    }
    post: dict[str, _Endpoint] = {
        "/api/reviews/next": room.review_next, "/api/reviews/decide": room.review_decide,
        "/api/reviews/undo": room.review_undo, "/api/replay": room.replay,
        "/api/alerts/silence": room.silence, "/api/alerts/unsilence": room.unsilence,
        "/api/alerts/release": room.release,
    }
    app = Starlette(
        routes=[
            Route("/", _page), Route("/static/{name:path}", _static),
            *(Route(path, _answered(endpoint)) for path, endpoint in get.items()),
            *(Route(path, _answered(_with_token(endpoint, secret)), methods=["POST"])
              for path, endpoint in post.items()),
        ],
        middleware=[Middleware(Fence, hosts=tuple(hosts)),
                    Middleware(GZipMiddleware, minimum_size=1024, compresslevel=3)],
    )
    app.state.token = secret
    return app


class _Room:
    """The answers. What reads files runs off the event loop."""

    def __init__(
        self, looking: Looking, alarms: Alarms | None, reviews: Reviews | None, replays: Replays | None, token: str,
    ) -> None:
        self._looking = looking
        self._alarms = alarms
        self._reviews = reviews
        self._replays = replays
        self._token = token
        self._listeners = 0
        self._replaying = asyncio.Semaphore(1)

    async def house(self, request: Request) -> Response:
        """Which parts there are, and whether the token is right."""
        return _json({
            "runs": str(self._looking.runs), "reviews": self._reviews is not None, "replays": self._replays is not None,
            "token": has_token(request, self._token),
        })

    async def runs(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._looking.lines))

    async def overview(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._looking.overview, query_of(request, "run")))

    async def compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")
        if not 1 <= len(names) <= 6:
            raise Unwell(f"expected one to six runs (run=…&run=…), found {len(names)}")
        return _json([await asyncio.to_thread(self._looking.overview, name) for name in names])

    async def episodes(self, request: Request) -> Response:
        asking = Asking.of(request)
        return _json(await asyncio.to_thread(page_of, self._looking, query_of(request, "run"), asking))

    async def episode(self, request: Request) -> Response:
        from quintain.serve.dashboard.timeline import timeline

        run, episode = query_of(request, "run"), query_of(request, "episode")
        events = await asyncio.to_thread(self._looking.events, run, episode)
        line = await asyncio.to_thread(self._looking.episode, run, episode)
        steps = await asyncio.to_thread(timeline, events)
        return _json({"run": run, "line": line, "steps": steps,
                      "folder": str(self._looking.path(run))})

    async def text(self, request: Request) -> Response:
        from quintain.serve.dashboard.timeline import text_of

        events = await asyncio.to_thread(
            self._looking.events, query_of(request, "run"), query_of(request, "episode"))
        at = query_of(request, "event")
        found = text_of(events, int(at), query_of(request, "field")) if at.isdecimal() and len(at) < 10 else None
        if found is None:
            raise Unwell("expected the place of a text, found none there", status=404)
        return PlainTextResponse(found.encode("utf-8", "replace"))

    async def tasks(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._looking.tasks, query_of(request, "run")))

    async def alerts(self, request: Request) -> Response:
        """Of one run, or of all."""
        run = request.query_params.get("run")
        names = [run] if run else list(await asyncio.to_thread(self._looking.paths))[:50]
        found = [await asyncio.to_thread(self._looking.alarms, name) for name in names]
        return _json({
            "on": [one for view in found for one in view.on],
            "history": sorted((one for view in found for one in view.history), key=lambda one: -one.unix_seconds)[:200],
            "holds": [one for view in found for one in view.holds],
            "silences": [one for view in found for one in view.silences],
        })

    async def silence(self, request: Request) -> Response:
        asked = await _body(request, _Silence)
        if not 0 < asked.seconds <= _LONGEST_SILENCE_SECONDS or not asked.rule:
            raise Unwell(f"expected a rule, and up to {_LONGEST_SILENCE_SECONDS:.0f} seconds of silence")
        room = self._watched()
        await asyncio.to_thread(room.silence, self._looking.path(asked.run), asked.rule, asked.labels, asked.seconds,
                                asked.reason[:500])
        return _json({"silenced": asked.rule})

    async def unsilence(self, request: Request) -> Response:
        asked = await _body(request, _Unsilence)
        await asyncio.to_thread(self._watched().unsilence, self._looking.path(asked.run), asked.id)
        return _json({"ended": asked.id})

    async def release(self, request: Request) -> Response:
        asked = await _body(request, _Release)
        await asyncio.to_thread(self._watched().release, self._looking.path(asked.run), asked.scope, asked.key)
        return _json({"released": f"{asked.scope}:{asked.key}"})

    async def review_stats(self, request: Request) -> Response:
        reviewer = request.query_params.get("reviewer", "")
        return _json(await asyncio.to_thread(self._queue().stats, reviewer))

    async def review_next(self, request: Request) -> Response:
        asked = await _body(request, _Reviewer)
        return _json({"case": await asyncio.to_thread(self._queue().next, asked.reviewer)})

    async def review_decide(self, request: Request) -> Response:
        asked = await _body(request, _Decision)
        await asyncio.to_thread(self._queue().decide, asked.reviewer, asked.case, asked.decision, asked.note)
        return _json({"case": asked.case, "decision": asked.decision})

    async def review_undo(self, request: Request) -> Response:
        asked = await _body(request, _Reviewer)
        return _json({"case": await asyncio.to_thread(self._queue().undo, asked.reviewer)})

    async def replay(self, request: Request) -> Response:
        asked = await _body(request, _Replay)
        if self._replays is None:
            raise Unwell("nothing here can replay an episode", status=404)
        if self._replaying.locked():
            raise Unwell("another replay is going on: one at a time", status=409)
        path = await asyncio.to_thread(self._looking.path, asked.run)
        await asyncio.to_thread(self._looking.events, asked.run, asked.episode)  # refuses what is not there
        async with self._replaying:
            return _json({"told": await self._replays.replay(path, asked.episode, asked.step)})

    async def stream(self, request: Request) -> Response:
        """Server-sent events: `overview` of a run, or `runs` where none is named; only what has changed."""
        run = request.query_params.get("run")
        if run:
            await asyncio.to_thread(self._looking.path, run)
        if self._listeners >= MOST_LISTENERS:
            raise Unwell(f"{MOST_LISTENERS} pages listen already", status=503)
        return StreamingResponse(self._news(run), media_type="text/event-stream",
                                 headers={"cache-control": "no-store", "x-accel-buffering": "no"})

    async def _news(self, run: str | None) -> AsyncIterator[bytes]:
        self._listeners += 1
        told, breathed = b"", time.monotonic()
        try:
            yield b"retry: 2000\n\n"
            while True:
                value = await (asyncio.to_thread(self._looking.overview, run) if run
                               else asyncio.to_thread(self._looking.lines))
                text = msgspec.json.encode(value)
                digest = hashlib.blake2b(text, digest_size=16).digest()
                if digest != told:
                    told, breathed = digest, time.monotonic()
                    yield b"event: " + (b"overview" if run else b"runs") + b"\ndata: " + text + b"\n\n"
                elif time.monotonic() - breathed > BREATH_SECONDS:
                    breathed = time.monotonic()
                    yield b": still here\n\n"
                await asyncio.sleep(STREAM_SECONDS)
        except HouseError:  # the run was taken away: the page asks again, and is told so
            return
        finally:
            self._listeners -= 1

    def _watched(self) -> Alarms:
        if self._alarms is None:
            raise Unwell("nothing here knows of alerts", status=404)
        return self._alarms

    def _queue(self) -> Reviews:
        if self._reviews is None:
            raise Unwell("there is no review queue here: quintain audit add RUN makes one", status=404)
        return self._reviews


class _Reviewer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reviewer: str


class _Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reviewer: str
    case: str
    decision: str
    note: str = ""


class _Silence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    rule: str
    labels: dict[str, str] = {}
    seconds: float = 3600.0
    reason: str = ""


class _Unsilence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    id: str


class _Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    scope: str
    key: str


class _Replay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    episode: str
    step: int = 0


async def _body(request: Request, kind: type[_T]) -> _T:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Unwell("expected a body of application/json", status=415)
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_BYTES:
            raise Unwell(f"expected at most {_BODY_BYTES} bytes", status=413)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Unwell(f"expected another body: {error}")


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _answered(endpoint: _Endpoint) -> _Endpoint:
    """What cannot be is an answer that says why."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Unwell as error:
            return Response(msgspec.json.encode({"error": str(error)}), status_code=error.status,
                            media_type="application/json")
        except Declined as error:
            return Response(msgspec.json.encode({"error": str(error)}), status_code=409, media_type="application/json")
        except HouseError as error:
            return Response(msgspec.json.encode({"error": error.message}), status_code=404,
                            media_type="application/json")

    return answer


def _with_token(endpoint: _Endpoint, token: str) -> _Endpoint:
    async def answer(request: Request) -> Response:
        if not has_token(request, token):
            raise Unwell("to change anything needs the token: open the address that `quintain watch` printed",
                         status=401)
        return await endpoint(request)

    return answer


async def _page(request: Request) -> Response:
    if not request.url.path.endswith("/"):
        return RedirectResponse(request.url.path + "/")
    return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


async def _static(request: Request) -> Response:
    """A file of ours, by its name: anything else is not found."""
    found = _FILES.get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("no such file\n", status_code=404)
    tag = f'"{found[1]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = _KINDS[Path(request.path_params["name"]).suffix]
    return Response(found[0], headers=headers, media_type=kind + "; charset=utf-8")


def _files() -> dict[str, tuple[bytes, str]]:
    found = {}
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in _KINDS:
            content = path.read_bytes()
            found[path.relative_to(STATIC).as_posix()] = content, hashlib.blake2b(content, digest_size=8).hexdigest()
    return found


_FILES = _files()
