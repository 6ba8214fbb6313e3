"""The hosts of a fleet, what is free on each, and which of them can take a shape: found without looking at all."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from quintain.fleet.plan_words import Room, Shape


class Host:
    """One host as the planner sees it: what it has, what is free, what runs there. `held` is kept clear of others."""

    __slots__ = ("capacity", "cpu", "disk", "gone", "held", "memory", "name", "number", "running", "slots", "most")

    def __init__(self, name: str, room: Room, slots: int, number: int) -> None:
        self.name = name
        self.number = number
        self.running: set[str] = set()
        self.held = False
        self.gone = False
        self.cpu = self.memory = self.disk = self.slots = 0
        self.capacity: Shape = (0, 0, 0, 0)
        self.most = 0
        self.resize(room, slots)

    def resize(self, room: Room, slots: int) -> None:
        """Have more or less than before; what runs stays, so that what is free may fall below nothing."""
        shape = room.shape
        self.cpu += shape[0] - self.capacity[0]
        self.memory += shape[1] - self.capacity[1]
        self.disk += shape[2] - self.capacity[2]
        self.slots += slots - self.most
        self.capacity, self.most = shape, slots

    def fits(self, shape: Shape) -> bool:
        return self.slots > 0 and self.cpu >= shape[0] and self.memory >= shape[1] and self.disk >= shape[2]

    def times(self, shape: Shape) -> int:
        """How often a shape would fit; at most 0 where it does not fit at all."""
        times = self.slots
        cpu, memory, disk, _ = shape
        if cpu and (n := self.cpu // cpu) < times:
            times = n
        if memory and (n := self.memory // memory) < times:
            times = n
        if disk and (n := self.disk // disk) < times:
            times = n
        return times if self.cpu >= 0 and self.memory >= 0 and self.disk >= 0 else 0

    def could_hold(self, shape: Shape) -> bool:
        return self.most > 0 and all(has >= needs for has, needs in zip(self.capacity[:3], shape[:3], strict=True))

    def take(self, shape: Shape) -> None:
        self.cpu -= shape[0]
        self.memory -= shape[1]
        self.disk -= shape[2]
        self.slots -= 1

    def give(self, shape: Shape) -> None:
        self.cpu += shape[0]
        self.memory += shape[1]
        self.disk += shape[2]
        self.slots += 1


class _Index:
    """The hosts that may take a shape, roughly the emptiest first; those that were found not to are `shut` until
    something leaves them."""

    __slots__ = ("heap", "shape", "shut")

    def __init__(self, shape: Shape, hosts: Iterable[Host]) -> None:
        self.shape = shape
        self.heap = [(-host.times(shape), host.number, host) for host in hosts]
        heapq.heapify(self.heap)
        self.shut: set[Host] = set()

    def first(self) -> Host | None:
        heap = self.heap
        while heap:
            times, number, host = heap[0]
            if host.gone:
                heapq.heappop(heap)
                continue
            now = -host.times(self.shape)
            if now >= 0 or host.held:
                heapq.heappop(heap)
                self.shut.add(host)
            elif now > times:
                heapq.heapreplace(heap, (now, number, host))
            else:
                return host
        return None


class Rooms:
    """All hosts. `version` changes whenever something becomes free that was not."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.total: Shape = (0, 0, 0, 0)  # the last is unused: tokens belong to the fleet
        self.slots = 0
        self.version = 0
        self._indexes: dict[Shape, _Index] = {}
        self._number = 0

    def set(self, name: str, room: Room, slots: int) -> Host:
        """A host joins, or has more or less than before."""
        host = self.hosts.get(name)
        if host is None:
            self._number += 1
            host = self.hosts[name] = Host(name, room, slots, self._number)
            for index in self._indexes.values():
                index.shut.add(host)
        else:
            self._sum(host, -1)
            host.resize(room, slots)
        self._sum(host, 1)
        self.open(host)
        return host

    def remove(self, name: str) -> Host:
        host = self.hosts.pop(name)
        host.gone = True
        for index in self._indexes.values():
            index.shut.discard(host)
        self._sum(host, -1)
        return host

    def find(self, shape: Shape) -> Host | None:
        """A host that is not held and fits: roughly the emptiest. O(log hosts) on average."""
        index = self._indexes.get(shape)
        if index is None:
            index = self._indexes[shape] = _Index(shape, self.hosts.values())
        return index.first()

    def give(self, host: Host, shape: Shape) -> None:
        host.give(shape)
        self.open(host)

    def open(self, host: Host) -> None:
        """A host has more free than before, or is held no more."""
        self.version += 1
        if host.held or host.gone:
            return
        for index in self._indexes.values():
            if host in index.shut and (times := host.times(index.shape)) > 0:
                index.shut.remove(host)
                heapq.heappush(index.heap, (-times, host.number, host))

    def together(self, shapes: tuple[Shape, ...]) -> list[Host] | None:
        """Take places for all, largest first, or none of them. The hosts, one for each shape."""
        taken: list[tuple[Host, Shape]] = []
        version = self.version
        for shape in shapes:
            host = self.find(shape)
            if host is None:
                for other, given in taken:
                    self.give(other, given)
                self.version = version  # all is as it was
                return None
            host.take(shape)
            taken.append((host, shape))
        return [host for host, _ in taken]

    def clearance(self, shapes: tuple[Shape, ...]) -> list[Host] | None:
        """The hosts to be kept clear so that all shapes fit together one day: those with most free, as few as do;
        `None` if the whole fleet would not do."""
        order = sorted(self.hosts.values(), key=lambda host: (-_free(host), host.number))
        chosen: list[Host] = []
        left = list(shapes)
        for host in order:
            empty = Host(host.name, Room(), host.most, host.number)
            empty.cpu, empty.memory, empty.disk, _ = host.capacity
            before = len(left)
            left = pack(empty, left)
            if len(left) < before:
                chosen.append(host)
            if not left:
                return chosen
        return None

    def forget(self, shape: Shape) -> None:
        """Nobody asks for this shape any more."""
        self._indexes.pop(shape, None)

    def _sum(self, host: Host, sign: int) -> None:
        cpu, memory, disk, _ = self.total
        more = host.capacity
        self.total = (cpu + sign * more[0], memory + sign * more[1], disk + sign * more[2], 0)
        self.slots += sign * host.most


def pack(host: Host, shapes: list[Shape]) -> list[Shape]:
    """Put what fits on a host, in order; what is left over."""
    left = []
    for shape in shapes:
        if host.fits(shape):
            host.take(shape)
        else:
            left.append(shape)
    return left


def _free(host: Host) -> float:
    return min(
        (free / has for free, has in zip((host.cpu, host.memory, host.disk), host.capacity, strict=False) if has),
        default=0.0,
    )
