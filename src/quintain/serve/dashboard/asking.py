"""What a page asks for by the query of its address: which episodes, in which order."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Self

import msgspec
from starlette.requests import Request

from quintain.serve.dashboard.fold import Known
from quintain.serve.dashboard.looking import Looking
from quintain.serve.dashboard.views import EpisodePage, State

MOST = 200
ORDERS: dict[str, Callable[[Known], float | str | int]] = {
    "opened": attrgetter("opened_unix_seconds"), "reward": lambda one: -9.0 if one.reward is None else one.reward,
    "turns": attrgetter("turns"), "seconds": attrgetter("seconds"), "task": attrgetter("task"),
}


class Unwell(Exception):
    """A request that cannot be answered: the message says what was expected and found."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is looked for in ids, tasks and faults; empty lets everything through."""

    states: frozenset[State] = frozenset()
    owner: str = ""
    kind: str = ""
    fault: str = ""
    flag: str = ""
    text: str = ""
    order: str = "opened"
    falling: bool = True
    offset: int = 0
    limit: int = 50

    @classmethod
    def of(cls, request: Request) -> Self:
        """Raises Unwell for a state or an order that there is none of."""
        query = request.query_params
        try:
            states = frozenset(State(word) for word in query.getlist("state") if word)
        except ValueError as error:
            raise Unwell(f"expected states among {', '.join(State)}: {error}")
        order = query.get("order", "opened")
        if order not in ORDERS:
            raise Unwell(f"expected an order among {', '.join(ORDERS)}, found {order[:40]!r}")
        return cls(
            states=states, owner=query.get("owner", ""), kind=query.get("kind", ""), fault=query.get("fault", ""),
            flag=query.get("flag", ""), text=query.get("text", "").casefold()[:200], order=order,
            falling=query.get("falling", "1") != "0", offset=_whole(query.get("offset", "0"), 10**9),
            limit=max(1, _whole(query.get("limit", "50"), MOST)),
        )

    @property
    def lets(self) -> list[Callable[[Known], bool]]:
        """All that an episode must be like, what is cheap to see first."""
        wanted: list[Callable[[Known], bool]] = []
        if self.states:
            wanted.append(lambda one: one.state in self.states)
        if self.owner:
            wanted.append(lambda one: one.owner is not None and one.owner.value == self.owner)
        if self.kind:
            wanted.append(lambda one: one.kind == self.kind)
        if self.fault:
            wanted.append(lambda one: one.fault == self.fault)
        if self.flag:
            wanted.append(lambda one: self.flag in one.flags)
        if self.text:
            wanted.append(lambda one: self.text in (one.words or one.searched))
        return wanted


def page_of(looking: Looking, run: str, asking: Asking) -> EpisodePage:
    """The episodes that are asked for. Raises HouseError for a run that is not there."""
    return looking.page(run, asking.lets, ORDERS[asking.order], falling=asking.falling, offset=asking.offset,
                        limit=asking.limit)


def query_of(request: Request, name: str) -> str:
    """Raises Unwell where it is not given."""
    value = request.query_params.get(name, "")
    if not value:
        raise Unwell(f"expected {name}=… in the address, found none")
    return value


def _whole(text: str, most: int) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise Unwell(f"expected a whole number, found {text[:40]!r}")
    return min(int(text), most)
