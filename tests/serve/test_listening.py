"""What listens for every server of the house."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from quintain.serve import listening


def test_no_answer_waits_for_an_acknowledgement_of_the_last_packet() -> None:
    seen: list[int] = []

    class Watched(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    async def ask() -> None:
        async with listening(PlainTextResponse("well"), protocol=Watched) as url, httpx.AsyncClient() as client:
            assert (await client.get(url)).text == "well"

    asyncio.run(ask())
    assert seen and all(seen)
