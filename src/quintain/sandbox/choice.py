"""Which backend a task gets: the cheapest whose walls are at least as strong as it asks."""

from __future__ import annotations

from collections.abc import Sequence

from quintain.sandbox.base import Backend
from quintain.types import FaultKind, HouseError, Isolation, Network

STRENGTH = {level: place for place, level in enumerate(Isolation)}  # weakest first, and weaker is cheaper


def choose(
    backends: Sequence[Backend], minimum: Isolation = Isolation.NAMESPACE, network: Network = Network.NONE
) -> Backend:
    """The first of the weakest available level that satisfies both; among equals the caller's order decides.

    Never falls below `minimum`. Raises HouseError(SANDBOX_CREATE_FAILED) saying of each backend why it does not do.
    """
    found: list[tuple[int, int, Backend]] = []
    refused: list[str] = []
    for place, backend in enumerate(backends):
        can = backend.probe()
        if not can.available:
            refused.append(f"{can.name} is missing {'; '.join(f'{k}: {v}' for k, v in can.missing.items())}")
        elif STRENGTH[can.isolation] < STRENGTH[minimum]:
            refused.append(f"{can.name} isolates as {can.isolation.value} only")
        elif network not in can.networks:
            refused.append(f"{can.name} offers network {' or '.join(repr(n.value) for n in can.networks)} only")
        else:
            found.append((STRENGTH[can.isolation], place, backend))
    if not found:
        raise HouseError(
            FaultKind.SANDBOX_CREATE_FAILED,
            f"expected a backend with isolation {minimum.value} or stronger and network {network.value!r}, found "
            f"{' | '.join(refused) or 'no backend at all'}",
        )
    return min(found, key=lambda entry: entry[:2])[2]
