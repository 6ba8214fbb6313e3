"""Hosts that are kept clear for one bid that smaller ones would pass over for ever."""

from __future__ import annotations

from quintain.fleet.plan_rooms import Host, Rooms, pack
from quintain.fleet.plan_turns import Bid
from quintain.fleet.plan_words import Room, Shape


class Clearing:
    """For one bid at a time, so that no two can wait for each other. Nothing else begins on these hosts, so at the
    latest when what runs there is over, the bid fits."""

    def __init__(self, rooms: Rooms) -> None:
        self.bid: Bid | None = None
        self.hosts: list[Host] = []
        self._rooms = rooms
        self._tried = -1  # the state of the rooms in which the bid was found not to fit

    @property
    def tokens(self) -> int:
        """Tokens of inference that are kept for the bid."""
        return self.bid.lane.tokens if self.bid is not None else 0

    def begin(self, bid: Bid) -> bool:
        """`False` where the whole fleet would not do."""
        hosts = self._rooms.clearance(bid.lane.shapes)
        if hosts is None:
            return False
        self.bid, self.hosts, self._tried = bid, hosts, -1
        for host in hosts:
            host.held = True
        return True

    def end(self) -> None:
        hosts, self.hosts, self.bid = self.hosts, [], None
        for host in hosts:
            host.held = False
            self._rooms.open(host)

    def again(self) -> None:
        """Something else changed than the rooms: look again."""
        self._tried = -1

    def places(self, tokens_left: int) -> list[Host] | None:
        """One of the hosts for each shape of the bid, if all fit now: by the order in which they were found to."""
        if self.bid is None or self._tried == self._rooms.version:
            return None
        self._tried = self._rooms.version
        if self.bid.lane.tokens > tokens_left:
            return None
        left = list(enumerate(self.bid.lane.shapes))
        found: dict[int, Host] = {}
        for host in self.hosts:
            scratch = _copy(host)
            over: list[tuple[int, Shape]] = []
            for n, shape in left:
                if pack(scratch, [shape]):
                    over.append((n, shape))
                else:
                    found[n] = host
            left = over
        return None if left else [found[n] for n in range(len(self.bid.lane.shapes))]


def _copy(host: Host) -> Host:
    scratch = Host("", Room(), host.slots, 0)
    scratch.cpu, scratch.memory, scratch.disk = host.cpu, host.memory, host.disk
    return scratch
