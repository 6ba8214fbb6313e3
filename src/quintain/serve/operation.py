"""What the HTTP API can be asked for: one table, of which the routes, the checks and the OpenAPI document are made."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from quintain.curate import HealthLedger
from quintain.serve.homes import JOURNAL, Home, Homes
from quintain.serve.keys import KeyRing
from quintain.serve.leases import Leases
from quintain.serve.playing import Plays
from quintain.serve.tail import Tail
from quintain.serve.words import Scope

_T = TypeVar("_T")
_TAILS = 64
_LEDGERS = 64
MEBIBYTE = 1024 * 1024
JSON, SSE, BYTES = "application/json", "text/event-stream", "application/octet-stream"


class House:
    """What the operations work on."""

    def __init__(self, homes: Homes, ring: KeyRing, plays: Plays, leases: Leases) -> None:
        self.homes = homes
        self.ring = ring
        self.plays = plays
        self.leases = leases
        self.draining = False
        self._tails: OrderedDict[Path, Tail] = OrderedDict()
        self._ledgers: OrderedDict[Path, HealthLedger] = OrderedDict()

    def tail(self, tenant: str, run: str) -> Tail:
        """Raises Refusal(404)."""
        path = self.plays.folder(tenant, run) / JOURNAL
        return _kept(self._tails, path, lambda: Tail(path), _TAILS)

    def ledger(self, tenant: str) -> HealthLedger:
        """As it is on the disk now; blocks. Raises HouseError(STORE_ERROR)."""
        path = self.homes.of(tenant).ledger
        ledger = _kept(self._ledgers, path, lambda: HealthLedger(path), _LEDGERS)
        ledger.refresh()
        return ledger


def _kept(cache: OrderedDict[Path, _T], path: Path, make: Callable[[], _T], most: int) -> _T:
    found = cache.pop(path, None)
    cache[path] = made = make() if found is None else found
    if len(cache) > most:
        cache.popitem(last=False)
    return made


class Call(NamedTuple):
    """One request, checked: who asks, and what. `headers` are in lower case."""

    tenant: str
    path: Mapping[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]

    def home(self, house: House) -> Home:
        return house.homes.of(self.tenant)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to ask for. `scope` is what a key needs, `None` for what anybody may ask; `body` and `query` are what
    msgspec checks and the document shows; a reply that is no Struct is a Response. `seconds` is its deadline."""

    id: str
    method: str
    path: str
    scope: Scope | None
    says: str
    answer: Callable[[House, Call], Awaitable[object]]
    body: type | None = None
    query: type | None = None
    reply: Any = None
    media: str = JSON
    status: int = 200
    example: object = None
    refusals: tuple[int, ...] = ()
    seconds: float = 30.0
    most_bytes: int = MEBIBYTE
    is_stream: bool = False
