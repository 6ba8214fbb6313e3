"""The words of a simulated fleet: what is asked of it, what goes wrong in it, and what came of it."""

from __future__ import annotations

import msgspec

from quintain.fleet.plan_words import Room

_GIBIBYTE = 1024**3


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One sort of episodes. Durations are Pareto distributed, at least `least_seconds` with exponent `tail` (1.5: the
    longest hundredth is a fifth of all the work), cut at the deadline. `share` is how much of all episodes is of this
    sort; `gang` how many begin together or not at all."""

    kind: str
    tenant: str = "lab"
    need: Room = Room(cpus=0.5, memory_bytes=_GIBIBYTE // 2)
    share: float = 1.0
    least_seconds: float = 20.0
    tail: float = 1.5
    priority: int = 0
    gang: int = 1


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong. A host is lost (with all that runs there, back empty after `repair_seconds`) or cut off (what
    runs goes on, and nobody hears of it) every so many hours of its life; `inf` for never. Of all episodes a share is
    poison (its worker dies at it every time); of all attempts a share fails by the house's fault, and a share takes
    `straggler_factor` times as long."""

    hours_to_loss: float = 6.0
    repair_seconds: float = 120.0
    hours_to_cut: float = 6.0
    cut_seconds: float = 45.0
    poison: float = 0.0005
    faults: float = 0.01
    stragglers: float = 0.01
    straggler_factor: float = 8.0


class Flood(msgspec.Struct, frozen=True, kw_only=True):
    """So many episodes more, all at once, whatever waits already."""

    at_seconds: float
    load: Load
    count: int


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet and what it is to do. Work comes in bursts of `burst` episodes, `episodes` in all, whenever no more than
    `backlog` would wait then; `floods` come besides.

    `fine` is the share of episodes that are played turn by turn through `rollout.Machine`, with a journal from which
    the next worker goes on; the others are one span of time that begins anew after a loss. `start_seconds` is what a
    decision takes to become a running sandbox, messages included.
    """

    hosts: int = 500
    room: Room = Room(cpus=54.0, memory_bytes=128 * _GIBIBYTE)
    slots: int = 128
    episodes: int = 1_000_000
    loads: tuple[Load, ...]
    floods: tuple[Flood, ...] = ()
    burst: int = 5_000
    backlog: int = 10_000
    deadline_seconds: float = 600.0
    lease_seconds: float = 30.0
    beat_seconds: float = 10.0
    deliveries: int = 5
    start_seconds: float = 0.1
    hold_seconds: float = 30.0
    ageing_seconds: float = 15.0
    fine: float = 0.0
    weather: Weather = Weather()
    weights: dict[str, float] = {}
    seed: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `lost` have neither a result nor a reason, `doubled` more than one result; `violations` are
    invariants that did not hold, in words. `utilisation` is useful CPU seconds (those of accepted results) over what an
    ideal would have had in use: at each moment all of the living hosts' CPU, or all that was asked for where that is
    less. Waits are from the first offer to the first start."""

    episodes: int
    done: int
    dead: int
    lost: int
    doubled: int
    late: int  # results of attempts that had been taken away: refused
    redelivered: int
    resumed: int  # episodes that went on in their middle
    refused_events: int  # journal lines of a worker that had lost its lease
    losses: int
    cuts: int
    violations: tuple[str, ...]
    checks: int
    fairness_checks: int
    steps: int
    utilisation: float
    wait_p50_s: float
    wait_p99_s: float
    wait_max_s: float
    per_second: float  # episodes done, until the last burst came
    peak: int
    seconds: float  # of virtual time, until the last one ended
    first_wait_s: dict[str, float]  # by kind: how long its first episode waited
    longest_wait_s: dict[str, float]  # by kind and priority, as in `code/2`


def usual_loads() -> tuple[Load, ...]:
    """Two tenants, six sorts of work, four sizes; one comes in gangs."""
    small = Room(cpus=0.25, memory_bytes=_GIBIBYTE // 4)
    medium = Room(cpus=0.5, memory_bytes=_GIBIBYTE)
    large = Room(cpus=1.0, memory_bytes=2 * _GIBIBYTE)
    return (
        Load(kind="code", need=medium, share=0.35),
        Load(kind="math", need=small, share=0.30),
        Load(kind="eval", need=medium, share=0.05, priority=2),
        Load(kind="code", tenant="course", need=medium, share=0.15),
        Load(kind="repo", need=large, share=0.14, least_seconds=30.0),
        Load(kind="crew", tenant="course", need=medium, share=0.01, gang=4),
    )
