"""Queues by their address: the path of a file, or nats://[TOKEN@]HOST[:PORT][/NAME]."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from quintain.fleet._card import Terms
from quintain.fleet.base import Queue
from quintain.fleet.nats import NatsQueue
from quintain.fleet.sqlite import SqliteQueue


async def open_queue(where: str | Path, terms: Terms | None = None) -> Queue:
    """The queue at an address, made where there is none; close it with `aclose`. Raises ValueError for an address of
    another sort, HouseError(STORE_ERROR) where it cannot be reached."""
    text = str(where)
    if "://" not in text:
        return await SqliteQueue.open(Path(where), terms)
    parts = urlsplit(text)
    if parts.scheme not in ("nats", "tls"):
        raise ValueError(f"expected the path of a file or nats://[TOKEN@]HOST[:PORT][/NAME], found {parts.scheme}://…")
    name = parts.path.strip("/") or "quintain"
    return await NatsQueue.open(urlunsplit(parts._replace(path="")), terms, name=name)
