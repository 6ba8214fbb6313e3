"""An ASGI application that listens on a port as long as a block lasts (uvicorn, in the same event loop)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def listening(
    app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0, most_at_once: int | None = 4096, grace_seconds: int = 5,
    protocol: type[asyncio.Protocol] | None = None,
) -> AsyncIterator[str]:
    """`async with listening(app) as url`. Port 0 takes a free one. Beyond `most_at_once` connections the answer is 503
    (None: whoever made `protocol`, uvicorn's protocol for HTTP, counts them). At the end open requests have
    `grace_seconds`. Raises OSError for a port that is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol by its number asyncio leaves Nagle on, and every answer waits 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen(1024)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", limit_concurrency=most_at_once,
            timeout_graceful_shutdown=grace_seconds, timeout_keep_alive=60, http=protocol or "auto",
            proxy_headers=False, server_header=False)
        server = _Server(config)
        async with asyncio.TaskGroup() as crew:
            serving = crew.create_task(server.serve(sockets=[door]))
            try:
                shown = f"[{host}]" if ":" in host else host
                yield f"http://{shown}:{door.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving


class _Server(uvicorn.Server):
    """Signals are its owner's affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
