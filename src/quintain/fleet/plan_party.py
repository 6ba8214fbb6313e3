"""Who shares a fleet: tenants and their kinds, what each of them uses, and whether it may begin more."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from quintain.fleet.plan_words import Fairness, Shape

_WHOLE = 10**12  # a share of one, fine enough for a million small asks


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of one tenant stands. `share` is of the fleet, in [0, 1]; see `Party` for how it is summed."""

    tenant: str
    kind: str
    running: int
    share: float


class Party:
    """A tenant, or a kind of one tenant: what it uses, as a share of the fleet in 1e-12ths, and what it is due.

    The share is the sum over what runs of the dominant share of each (Ghodsi et al., Dominant Resource Fairness,
    NSDI 2011; the sum is at least the dominant share of the sum, and equal where a party has one shape of asks).
    """

    __slots__ = ("key", "limit", "name", "running", "share", "stopped", "tenant", "uses", "weight")

    def __init__(self, name: str, weight: float, tenant: Party | None = None) -> None:
        self.name = name
        self.weight = weight
        self.tenant = tenant
        self.running = 0
        self.uses: dict[Shape, int] = {}  # of a kind: how many of each shape run
        self.share = 0
        self.limit: int | None = None
        self.stopped = False
        self.key = 0.0

    @property
    def barred(self) -> bool:
        return self.key == math.inf or (self.tenant is not None and self.tenant.key == math.inf)

    def change(self, by: int, charge: int) -> None:
        """One more (`by` = 1) or one less (-1) runs, of this charge."""
        self.running += by
        self.share += by * charge
        if self.limit is None and not self.stopped:
            self.key = self.share / self.weight
        else:
            self.settle()

    def settle(self) -> None:
        """Set the key anew: least goes first, and `inf` not at all."""
        barred = self.stopped or (self.limit is not None and self.running >= self.limit)
        self.key = math.inf if barred else self.share / self.weight


class Parties:
    """All tenants and kinds that were ever named, and what one ask of each shape is charged."""

    def __init__(self, fairness: Fairness) -> None:
        self.fairness = fairness
        self._tenants: dict[str, Party] = {}
        self._kinds: dict[tuple[str, str], Party] = {}
        self._stopped: set[str] = set()
        self._limits: dict[tuple[str, str | None], int] = {}
        self._charges: dict[Shape, int] = {}
        self._total: Shape = (0, 0, 0, 0)
        self._slots = 0

    def kind(self, tenant: str, name: str) -> Party:
        party = self._kinds.get((tenant, name))
        if party is None:
            party = Party(name, self.fairness.kind_weights.get(name, 1.0), self._tenant(tenant))
            party.limit = self._limits.get((tenant, name))
            party.stopped = name in self._stopped
            party.settle()
            self._kinds[tenant, name] = party
        return party

    def change(self, kind: Party, shape: Shape, by: int) -> None:
        charge = self._charges.get(shape) or self.charge(shape)
        uses = kind.uses
        uses[shape] = uses.get(shape, 0) + by
        kind.change(by, charge)
        assert kind.tenant is not None
        kind.tenant.change(by, charge)

    def charge(self, shape: Shape) -> int:
        """The dominant share of one ask, in 1e-12ths: at least one, and a whole where the fleet has nothing."""
        charge = self._charges.get(shape)
        if charge is None:
            parts = [
                _WHOLE * needs // has if has else _WHOLE for needs, has in zip(shape, self._total, strict=True) if needs
            ]
            charge = max(1, _WHOLE // self._slots if self._slots else _WHOLE, *parts)
            self._charges[shape] = charge
        return charge

    def resize(self, total: Shape, slots: int) -> None:
        """The fleet is another size: so is everybody's share of it. O(parties * shapes)."""
        self._total, self._slots = total, slots
        self._charges.clear()
        for party in self._tenants.values():
            party.share = 0
        for party in self._kinds.values():
            party.share = sum(count * self.charge(shape) for shape, count in party.uses.items() if count)
            assert party.tenant is not None
            party.tenant.share += party.share
        for party in (*self._kinds.values(), *self._tenants.values()):
            party.settle()

    def bar(self, kind: str, *, stopped: bool) -> list[Party]:
        """Stop or resume a kind for every tenant: those whose keys changed."""
        if stopped:
            self._stopped.add(kind)
        else:
            self._stopped.discard(kind)
        found = [party for (_, name), party in self._kinds.items() if name == kind]
        for party in found:
            party.stopped = stopped
            party.settle()
        return found

    def limit(self, tenant: str, kind: str | None, running: int | None) -> list[Party]:
        """Bound how many may run: the kinds whose turn may have changed."""
        if running is None:
            self._limits.pop((tenant, kind), None)
        else:
            self._limits[tenant, kind] = running
        party = self._tenant(tenant) if kind is None else self.kind(tenant, kind)
        party.limit = running
        party.settle()
        return [other for other in self._kinds.values() if other is party or other.tenant is party]

    def shares(self) -> Iterator[tuple[Party, Share]]:
        for (tenant, kind), party in sorted(self._kinds.items()):
            yield party, Share(tenant=tenant, kind=kind, running=party.running, share=party.share / _WHOLE)

    def _tenant(self, name: str) -> Party:
        party = self._tenants.get(name)
        if party is None:
            party = self._tenants[name] = Party(name, self.fairness.tenant_weights.get(name, 1.0))
            party.limit = self._limits.get((name, None))
            party.settle()
        return party
