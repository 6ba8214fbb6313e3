"""What Prometheus scrapes: a text at `/metrics`, made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def metrics_app(text: Callable[[], str], *, content_type: str) -> Starlette:
    """For `listening`. `text` is called on the event loop for each scrape: it must be quick."""

    async def scrape(request: Request) -> Response:
        return PlainTextResponse(text(), headers={"content-type": content_type})

    async def healthy(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/metrics", scrape), Route("/healthz", healthy)])
