"""Telling somebody: notices to receivers, in bounded time and room, without holding anybody up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from quintain.watch.alerts import Change, Turn
from quintain.watch.rules import Form, Receiver, Severity

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)
_RANK = {Severity.INFO: 0, Severity.WARN: 1, Severity.PAGE: 2}
_ROOM = 100
_TRIES = 3
_SECONDS = 5.0
_PAUSE_SECONDS = 1.0
_TEXT = 2000


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver of the form `json` is sent."""

    run: str
    turn: Turn
    rule: str
    severity: Severity
    labels: dict[str, str]
    value: float
    text: str
    at_unix_seconds: float


class Notifier:
    """`tell` puts notices into a bounded row and returns; `deliver` sends them, until it is cancelled, each to every
    receiver side by side, with a few tries of a few seconds. What is given up, or finds no room, is counted in
    `dropped`. A receiver's address never comes into a log: it may be a secret. Raises ValueError for a receiver whose
    address the environment does not have."""

    def __init__(
        self, receivers: Sequence[Receiver], *, run: str, seconds: float = _SECONDS,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._receivers = [(one, _address(one)) for one in receivers]
        self._run = run
        self._seconds = seconds
        self._pause_seconds = pause_seconds
        self._row: asyncio.Queue[Change] = asyncio.Queue(maxsize=_ROOM)
        self.dropped = 0
        self.sent = 0

    def tell(self, change: Change) -> None:
        if not self._receivers:
            return
        try:
            self._row.put_nowait(change)
        except asyncio.QueueFull:
            self.dropped += 1

    async def deliver(self) -> None:
        """For ever."""
        import httpx  # takes a while, and most runs tell nobody

        async with httpx.AsyncClient(timeout=self._seconds, follow_redirects=False) as client:
            while True:
                change = await self._row.get()
                async with asyncio.TaskGroup() as group:
                    for receiver, address in self._receivers:
                        if _RANK[change.alert.severity] >= _RANK[receiver.least]:
                            group.create_task(self._send(client, receiver, address, change))
                self._row.task_done()

    async def flush(self, seconds: float = 2.0) -> None:
        """Wait until all was sent or given up, but no longer than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._row.join()
        except TimeoutError:
            pass

    async def _send(self, client: httpx.AsyncClient, receiver: Receiver, address: str, change: Change) -> None:
        import httpx

        body = msgspec.json.encode(self._body(receiver, change))
        why = ""
        for nth in range(_TRIES):
            if nth:
                await asyncio.sleep(self._pause_seconds * 2 ** (nth - 1))
            try:
                async with asyncio.timeout(self._seconds):
                    # the answer is not read: it may be endless
                    async with client.stream("POST", address, content=body,
                                             headers={"content-type": "application/json"}) as answer:
                        status = answer.status_code
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
                why = type(error).__name__
                continue
            if status < 300:
                self.sent += 1
                return
            why = f"status {status}"
            if 300 <= status < 500 and status not in (408, 429):
                break
        self.dropped += 1
        _log.warning("the receiver %s was not told of %s: %s", receiver.name, change.alert.rule, why)

    def _body(self, receiver: Receiver, change: Change) -> object:
        alert = change.alert
        if receiver.form is Form.SLACK:
            mark = "resolved" if change.turn is Turn.RESOLVED else alert.severity.value
            return {"text": _plain(f"[{mark}] {alert.rule} ({self._run}): {alert.text}")[:_TEXT]}
        return Notice(
            run=self._run, turn=change.turn, rule=alert.rule, severity=alert.severity, labels=alert.labels,
            value=alert.value, text=alert.text[:_TEXT], at_unix_seconds=change.at_unix_seconds,
        )


def _plain(text: str) -> str:
    """Without what a chat would take for a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _address(receiver: Receiver) -> str:
    if receiver.url:
        return receiver.url
    found = os.environ.get(receiver.url_env, "")
    if not found.startswith(("https://", "http://")):
        state = "is not set" if not found else "is no address https://… or http://…"
        raise ValueError(f"receiver {receiver.name}: the environment's {receiver.url_env} {state}")
    return found
