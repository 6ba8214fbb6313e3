"""The words of the planner: what an episode needs, what a host has, who asks, and why somebody waits."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

#: (CPU in thousandths, memory bytes, disk bytes, tokens of inference): what asks are sorted by.
Shape = tuple[int, int, int, int]


class Room(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an episode needs while it runs, or what a host has. `inference_tokens` are those that it keeps in the
    memory of the inference servers; these serve the whole fleet, so a host's own count of them is ignored."""

    cpus: float = 0.0
    memory_bytes: int = 0
    disk_bytes: int = 0
    inference_tokens: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"room.{name} must be finite and at least 0, found {value!r}")

    @property
    def shape(self) -> Shape:
        """In whole numbers, CPU rounded up to a thousandth."""
        return (math.ceil(self.cpus * 1000 - 1e-6), self.memory_bytes, self.disk_bytes, self.inference_tokens)


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sandbox's worth of work that wants a place. A higher `priority` goes first among the asks of the same tenant
    and kind, until the others have aged; between tenants and kinds it is weights that decide."""

    id: str
    need: Room = Room()
    kind: str = ""
    tenant: str = ""
    priority: int = 0


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A decision: this ask runs on this host. `gang` names what it was admitted together with, or is empty."""

    id: str
    host: str
    gang: str = ""


class Fairness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By what the planner decides.

    `ageing_seconds`: what one step of priority is worth in waiting time. `hold_seconds`: how long an ask that does not
    fit may be passed over by ones that do before hosts are kept clear for it. A tenant or kind that is not named has
    the weight 1.
    """

    ageing_seconds: float = 15.0
    hold_seconds: float = 30.0
    tenant_weights: dict[str, float] = {}
    kind_weights: dict[str, float] = {}

    def __post_init__(self) -> None:
        for name in ("ageing_seconds", "hold_seconds"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, found {getattr(self, name)!r}")
        for table in (self.tenant_weights, self.kind_weights):
            for name, weight in table.items():
                if not 0.0 < weight < math.inf:
                    raise ValueError(f"the weight of {name!r} must be finite and greater than 0, found {weight!r}")

    def rank(self, at: float, priority: int) -> float:
        """What asks of one tenant and kind are ordered by, least first; fixed when they are offered. So an ask is
        overtaken only by those offered at most (their priority - its own) * ageing_seconds after it."""
        return at - priority * self.ageing_seconds


class Why(StrEnum):
    """Why an ask has not begun."""

    RUNNING = "running"  # it has
    UNKNOWN = "unknown"  # never offered, or over
    TOO_BIG = "too big"  # no host of the fleet could hold it, or all of them together not the gang
    STOPPED = "kind stopped"
    LIMITED = "tenant or kind at its limit"
    TOKENS = "no tokens of inference left"
    NO_ROOM = "no room"  # nothing free is large enough
    HELD_FOR = "hosts are being cleared for it"
    TURN = "others come first"  # it would fit; the next decisions give it or others the place
