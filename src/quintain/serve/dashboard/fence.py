"""Who may ask the dashboard, and what a browser may do with its answers.

Covered: requests of other sites (a foreign Host, Origin or Sec-Fetch-Site is refused, so a name that was bound anew to
this address reads nothing), changes without the token, scripts in what candidates wrote (nothing inline runs, nothing
foreign is loaded, nobody frames a page). Not covered: who may read on a host of many users; a reader with the token.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The header that carries the token: another site cannot set it without being asked first.
TOKEN_HEADER = "x-quintain-token"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                               "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
                               "frame-ancestors 'none'",
    "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}


class Fence:
    """Around the application: refuses what comes by another name than `hosts` (without ports), and adds the headers."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = LOCAL_HOSTS) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        complaint = self._complaint(Headers(scope=scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if complaint:
            await PlainTextResponse(complaint + "\n", status_code=403)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _complaint(self, headers: Headers) -> str:
        if _host(headers.get("host", "")) not in self._hosts:
            return f"expected one of {', '.join(sorted(self._hosts))} as the host, found another"
        origin = headers.get("origin")
        if origin is not None and _host(origin.partition("://")[2]) not in self._hosts:
            return "expected a page of this dashboard, found another site's"
        if headers.get("sec-fetch-site", "none") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "expected a page of this dashboard, found another site's"
        return ""


def _host(text: str) -> str:
    """Without the port."""
    host = text.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def has_token(request: Request, token: str) -> bool:
    """Whether a request carries the token; told in the same time for every wrong one."""
    given = request.headers.get(TOKEN_HEADER, "")
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())
