"""The door of the HTTP API: who may come in, how fast, with how much, and every refusal in one shape."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quintain.serve.bounds import AuditLog, Buckets, Entry
from quintain.serve.keys import LOCAL, Key, Quota
from quintain.serve.operation import BYTES, JSON, MEBIBYTE, Call, House, Operation
from quintain.serve.words import Refusal
from quintain.serve.words import Scope as KeyScope

#: Nobody who asks more slowly, or listens more slowly, is waited for.
BODY_SECONDS = 15.0
STALL_SECONDS = 30.0
#: Requests at a time of all tenants, and of one; bytes of bodies that are being read, of all and of one.
MOST_REQUESTS, MOST_OF_ONE = 256, 64
MOST_BODY_BYTES, MOST_BODY_BYTES_OF_ONE = 256 * MEBIBYTE, 64 * MEBIBYTE
_GUESSES_PER_SECOND, _GUESSES = 2.0, 20
_LOCAL_HOSTS = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE)
_EXPECTED = re.compile(r"Expected (?P<expected>.*?)(?:, got (?P<found>.*?))?(?: - at `(?P<where>.*)`)?", re.DOTALL)


class Share:
    """Something that there is so much of, for all and for each tenant."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._of: dict[str, int] = {}

    def of(self, tenant: str) -> int:
        return self._of.get(tenant, 0)

    def take(self, tenant: str, count: int) -> None:
        self.used += count
        left = self._of.get(tenant, 0) + count
        if left:
            self._of[tenant] = left
        else:
            self._of.pop(tenant, None)

    @contextmanager
    def held(self, tenant: str) -> Iterator[None]:
        self.take(tenant, 1)
        try:
            yield
        finally:
            self.take(tenant, -1)


class Door:
    """Around the routes. With `local` (it listens on the loopback alone, and no key was ever made) whoever is on this
    machine is the tenant `local`; a page of a browser is not, whatever name it calls us by."""

    def __init__(self, app: ASGIApp, house: House, audit: AuditLog, *, local: bool) -> None:
        self._app = app
        self.house = house
        self._audit = audit
        self._local = local
        self._buckets = Buckets()
        self.requests = Share(MOST_REQUESTS)
        self.bodies = Share(MOST_BODY_BYTES)
        self.streams = Share(4096)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        note: dict[str, Any] = {"request": secrets.token_hex(8), "status": 0, "sent": 0}
        scope["quintain"] = note
        began = time.monotonic()

        async def sending(message: Message) -> None:
            _take_note(note, message)
            async with asyncio.timeout(STALL_SECONDS):  # who does not listen is not waited for
                await send(message)

        try:
            await self._app(scope, receive, sending)
        except (TimeoutError, OSError):
            note["code"] = "stalled"
        finally:
            self._audit.write(Entry(
                at_unix_seconds=time.time(), request=note["request"], remote=(scope.get("client") or ("",))[0],
                method=scope.get("method", "WEBSOCKET"), path=scope["path"][:300], status=note["status"],
                seconds=round(time.monotonic() - began, 6), tenant=note.get("tenant", ""), key=note.get("key", ""),
                code=note.get("code", ""), sent_bytes=note["sent"]))

    def admitted(self, connection: HTTPConnection, scope: KeyScope) -> tuple[str, Quota]:
        """The tenant that asks, and what it may. Raises Refusal: 401, 403, 421, 429, 503."""
        note = connection.scope["quintain"]
        key = self._recognised(connection)
        tenant = key.tenant if key is not None else LOCAL
        note["tenant"], note["key"] = tenant, key.id if key is not None else ""
        quota = self.house.ring.quota(tenant)
        wait = self._buckets.take(f"tenant {tenant}", per_second=quota.requests_per_second, burst=quota.burst)
        if wait:
            raise Refusal(429, "rate", expected=f"at most {quota.requests_per_second:g} requests a second",
                          found="more", where="quota.requests_per_second", retry_seconds=wait)
        if key is not None and scope not in key.scopes:
            raise Refusal(403, "scope", expected=f"a key with the scope {scope.value}",
                          found=", ".join(key.scopes) or "none", where="header.authorization")
        if self.house.draining:
            raise Refusal(503, "draining", expected="a server that stays", found="one that is about to end",
                          where="server", retry_seconds=5)
        if self.requests.of(tenant) >= MOST_OF_ONE:
            raise Refusal(429, "busy", expected=f"at most {MOST_OF_ONE} requests at a time", found="more",
                          where="tenant", retry_seconds=1)
        if self.requests.used >= self.requests.most:
            raise Refusal(503, "busy", expected=f"at most {self.requests.most} requests at a time", found="more",
                          where="server", retry_seconds=1)
        return tenant, quota

    def _recognised(self, connection: HTTPConnection) -> Key | None:
        given = connection.headers.getlist("authorization")
        if self._local and not self.house.ring.keys:
            host, origin = connection.headers.get("host", ""), connection.headers.get("origin")
            if _LOCAL_HOSTS.fullmatch(host) is None or origin is not None:
                raise Refusal(421, "not_local", expected="a program of this machine (or keys: quintain keys create)",
                              found="a name that is not local, or a page", where="header.host")
            return None
        remote = connection.client.host if connection.client is not None else ""
        words = given[0].split(" ") if len(given) == 1 else []
        key = self.house.ring.known(words[1]) if len(words) == 2 and words[0].lower() == "bearer" else None
        if key is None:
            wait = self._buckets.take(f"guess {remote}", per_second=_GUESSES_PER_SECOND, burst=_GUESSES)
            if wait:
                raise Refusal(429, "rate", expected="fewer keys that are none", found="more", where="address",
                              retry_seconds=wait)
            found = "none" if not given else "one that opens nothing" if len(given) == 1 else "several"
            raise Refusal(401, "key", expected="a key: Authorization: Bearer qk_…", found=found,
                          where="header.authorization")
        return key

    async def body(self, request: Request, operation: Operation, tenant: str) -> bytes:
        """Raises Refusal: 408, 411, 413, 415, 429, 503."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = BYTES if operation.body is bytes else JSON
        if kind != wanted:
            raise Refusal(415, "media_type", expected=wanted, found=kind or "none", where="header.content-type")
        most = operation.most_bytes
        content = bytearray()
        taken = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.stream():
                    content += piece
                    self.bodies.take(tenant, len(piece))
                    taken += len(piece)
                    if taken > most:
                        raise Refusal(413, "too_big", expected=f"a body of at most {most} bytes", found="more",
                                      where="body")
                    if self.bodies.of(tenant) > MOST_BODY_BYTES_OF_ONE:
                        raise Refusal(429, "busy", expected="fewer big bodies at a time", found="more", where="tenant",
                                      retry_seconds=1)
                    if self.bodies.used > self.bodies.most:
                        raise Refusal(503, "busy", expected="fewer big bodies at a time", found="more", where="server",
                                      retry_seconds=1)
        except TimeoutError:
            raise Refusal(408, "slow", expected=f"a body within {BODY_SECONDS:g} s", found="a part of it",
                          where="body") from None
        finally:
            self.bodies.take(tenant, -taken)
        return bytes(content)


class Endpoint:
    """One operation as an ASGI application: everything is checked before it is asked."""

    def __init__(self, operation: Operation, house: House, door: list[Door]) -> None:
        self._operation = operation
        self._house = house
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, door, tenant = Request(scope, receive), self._door[0], ""
        try:
            if self._operation.scope is not None:
                tenant, quota = door.admitted(request, self._operation.scope)
            with door.requests.held(tenant):
                response = await self._answered(request, door, tenant)
            if isinstance(response, StreamingResponse) and door.streams.of(tenant) >= quota.streams:
                raise Refusal(429, "quota", expected=f"at most {quota.streams} open streams", found="more",
                              where="quota.streams", retry_seconds=1)
        except Refusal as refusal:
            response = problem_of(refusal, scope)
        if isinstance(response, StreamingResponse):
            with door.streams.held(tenant):
                await response(scope, receive, send)
        else:
            await response(scope, receive, send)

    async def _answered(self, request: Request, door: Door, tenant: str) -> Response:
        operation = self._operation
        query = query_of(request, operation.query)
        body: object = None
        if operation.body is not None:
            content = await door.body(request, operation, tenant)
            body = content if operation.body is bytes else decoded(content, operation.body)
        call = Call(tenant, request.path_params, query, body, request.headers)
        try:
            async with asyncio.timeout(operation.seconds):
                answer = await operation.answer(self._house, call)
        except TimeoutError:
            raise Refusal(503, "deadline", expected=f"an answer within {operation.seconds:g} s", found="none",
                          where="server", retry_seconds=5) from None
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=operation.status)
        return Response(msgspec.json.encode(answer), operation.status, media_type=JSON)


def problem_of(refusal: Refusal, scope: Mapping[str, Any]) -> Response:
    """The one shape of every refusal. The connection ends where a body may still be under way."""
    problem = msgspec.structs.replace(refusal.problem, request=scope["quintain"]["request"])
    scope["quintain"]["code"] = problem.code
    headers = {}
    if refusal.retry_seconds is not None:
        headers["retry-after"] = str(max(1, round(refusal.retry_seconds + 0.5)))
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (408, 413):
        headers["connection"] = "close"
    return Response(msgspec.json.encode(problem), problem.status, headers=headers, media_type=JSON)


def decoded(content: bytes, kind: type) -> object:
    """Raises Refusal: 400 for what is no JSON, 422 for JSON that means nothing here."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise unfit(error, "body") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise Refusal(400, "json", expected="JSON (RFC 8259)", found=str(error), where="body") from None


def query_of(connection: HTTPConnection, kind: type | None) -> Any:
    """Raises Refusal(422)."""
    pairs = connection.query_params.multi_items()
    given = dict(pairs)
    if len(given) < len(pairs):
        raise Refusal(422, "invalid", expected="each parameter once", found="one twice", where="query")
    if kind is None:
        if given:
            raise Refusal(422, "invalid", expected="no parameters", found=", ".join(given), where="query")
        return None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise unfit(error, "query") from None


def unfit(error: msgspec.ValidationError, where: str) -> Refusal:
    """In our words: expected, found, where."""
    text = str(error)
    match = _EXPECTED.fullmatch(text)
    if match is None:  # "Object missing required field `x`", "Invalid enum value 'y' - at `$.z`"
        said, _, at = text.partition(" - at `$")
        return Refusal(422, "invalid", expected="what the document of the API says", found=said,
                       where=where + at.rstrip("`"))
    return Refusal(422, "invalid", expected=match["expected"], found=match["found"] or "something else",
                   where=where + (match["where"] or "$").removeprefix("$"))


def _take_note(note: dict[str, Any], message: Message) -> None:
    if message["type"] in ("http.response.start", "websocket.http.response.start"):
        note["status"] = message["status"]
        message["headers"] = [*message.get("headers", ()), (b"x-request-id", note["request"].encode()),
                              (b"x-content-type-options", b"nosniff")]
    elif message["type"] == "websocket.accept":
        note["status"] = 101
    note["sent"] += len(message.get("body") or message.get("text") or b"")
