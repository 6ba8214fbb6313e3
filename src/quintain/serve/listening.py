"""An ASGI application that listens on a port as long as a block lasts (uvicorn, in the same event loop)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

#: The most bytes that Linux takes for the path of a Unix socket (unix(7)).
_LONGEST = 107


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
        shown = f"[{host}]" if ":" in host else host
        async with _serving(app, door, most_at_once, grace_seconds, protocol):
            yield f"http://{shown}:{door.getsockname()[1]}"


@asynccontextmanager
async def listening_at(app: ASGIApp, path: Path, *, grace_seconds: int = 5) -> AsyncIterator[None]:
    """The same on a Unix socket that only its owner can open. A socket that nobody listens on any more is replaced.
    Raises OSError for one that somebody does, and for a path of more than about 100 bytes."""
    refuse_another(path)
    with _own_socket(path) as door:
        async with _serving(app, door, None, grace_seconds, None):
            yield


def refuse_another(path: Path) -> None:
    """Raises OSError where somebody listens on this Unix socket, and for a path that can be none."""
    if (size := len(os.fsencode(path))) > _LONGEST:
        raise OSError(errno.ENAMETOOLONG, f"{path}: expected a path of at most {_LONGEST} bytes for a Unix socket, "
                      f"found {size}: choose a folder with a shorter one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise OSError(errno.EADDRINUSE, f"{path}: somebody listens there")


@contextlib.contextmanager
def _own_socket(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            door.bind(str(path))
        finally:
            os.umask(before)
        try:
            yield door
        finally:
            path.unlink(missing_ok=True)


@asynccontextmanager
async def _serving(
    app: ASGIApp, door: socket.socket, most_at_once: int | None, grace_seconds: int,
    protocol: type[asyncio.Protocol] | None,
) -> AsyncIterator[None]:
    door.listen(1024)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", limit_concurrency=most_at_once,
        timeout_graceful_shutdown=grace_seconds, timeout_keep_alive=60, http=protocol or "auto",
        proxy_headers=False, server_header=False)
    server = _Server(config)
    async with asyncio.TaskGroup() as crew:
        serving = crew.create_task(server.serve(sockets=[door]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """Signals are its owner's affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
