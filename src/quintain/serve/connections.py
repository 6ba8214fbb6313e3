"""Connections under watch: who opens many and says nothing, or speaks a letter at a time, keeps nobody out."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Doorkeeper:
    """Connections that wait for their request: each has `wait_seconds` to bring the whole head of it, and of more than
    `most` in all the one that has waited for the longest goes. So whoever opens many and says nothing keeps nobody
    out; of one address at most `most_of_one` are let in at all."""

    def __init__(self, *, most: int = 4096, most_of_one: int = 1024, wait_seconds: float = 10.0) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.wait_seconds = wait_seconds
        self.inside = 0
        self.turned_away = 0
        self._waiting: OrderedDict[_Watched, None] = OrderedDict()
        self._of: dict[str, int] = {}

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's HTTP protocol under these eyes."""
        return type("Watched", (_Watched,), {"doorkeeper": self})

    def enter(self, one: _Watched, host: str) -> bool:
        self.inside += 1
        self._of[host] = self._of.get(host, 0) + 1
        if self._of[host] > self.most_of_one:
            return False
        if self.inside > self.most and self._waiting:
            self._waiting.popitem(last=False)[0].turn_away()
            return True
        return self.inside <= self.most

    def leave(self, one: _Watched, host: str) -> None:
        self.inside -= 1
        self._waiting.pop(one, None)
        self._of[host] -= 1
        if not self._of[host]:
            del self._of[host]

    def waits(self, one: _Watched) -> None:
        self._waiting[one] = None
        self._waiting.move_to_end(one)

    def asks(self, one: _Watched) -> None:
        self._waiting.pop(one, None)


class _Watched(H11Protocol):
    doorkeeper: Doorkeeper

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._patience: asyncio.TimerHandle | None = None
        self._host: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._host = self.client[0] if self.client else ""
        if self.doorkeeper.enter(self, self._host):
            self._wait()
        else:
            self.turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._patience is not None and self.cycle is not None and not self.cycle.response_complete:
            self._patience.cancel()
            self._patience = None
            self.doorkeeper.asks(self)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete and self._patience is not None:
            self._patience.cancel()  # the next request had come already
            self._patience = None
            self.doorkeeper.asks(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._go()
        super().handle_websocket_upgrade(event)

    def turn_away(self) -> None:
        self.doorkeeper.turned_away += 1
        self.transport.abort()

    def _wait(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._host is not None:
            self.doorkeeper.waits(self)
            self._patience = self.loop.call_later(self.doorkeeper.wait_seconds, self.turn_away)

    def _go(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._host is not None:
            self.doorkeeper.leave(self, self._host)
            self._host = None
