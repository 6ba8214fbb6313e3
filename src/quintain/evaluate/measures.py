"""What a policy's attempts at a set of tasks add up to: completion, reliability, cost, recovery, honesty. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from quintain.evaluate.attempt import Attempted, Facts
from quintain.evaluate.intervals import Range, bootstrap, mean_share, pass_all, pass_any, wilson
from quintain.types import Owner

#: What an attempt takes, by name: the same names in reports, JSON and comparisons.
UNITS: dict[str, Callable[[Facts], float | None]] = {
    "turns": lambda facts: facts.turns,
    "tokens": lambda facts: facts.tokens,
    "tool_calls": lambda facts: facts.tool_calls,
    "wall_seconds": lambda facts: facts.wall_seconds,
    "cpu_seconds": lambda facts: facts.cpu_seconds,
}


class Curve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """pass@k (any) and pass^k (all) for one k, over the tasks that have at least k episodes."""

    k: int
    tasks: int
    any: Range
    all: Range


class Unit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it takes to solve: the mean over solved tasks (each the mean of its solved episodes), and how many tasks
    that rests on."""

    name: str
    mean: Range
    tasks: int


class Measures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`episodes` counts those that say something of the policy; `lost` those that the task or the house broke, which
    are in no figure. `completion` is the mean over tasks of the share solved; `sometimes` counts the tasks that were
    solved, but not always. `recovery` is the share of the `failed_once` episodes that were solved in the end, `None`
    where no turn ever failed; `hack_rate` the share of episodes with hard evidence of a hack, `suspect_rate` with soft
    evidence."""

    policy: str
    tasks: int
    episodes: int
    solved: int
    lost: dict[str, int]
    completion: Range
    curves: tuple[Curve, ...]
    sometimes: int
    to_solve: tuple[Unit, ...]
    failed_once: int
    recovery: Range | None
    hacked: int
    hack_rate: Range
    suspect_rate: Range
    by_kind: dict[str, Range]


def by_task(attempts: Sequence[Attempted]) -> dict[str, list[Attempted]]:
    """The attempts that say something of the policy, by task."""
    found: dict[str, list[Attempted]] = {}
    for one in attempts:
        if one.owner is None:
            found.setdefault(one.task, []).append(one)
    return found


def measures_of(attempts: Sequence[Attempted], *, policy: str, seed: int = 0) -> Measures:
    """Raises ValueError where no attempt says anything of the policy."""
    groups = by_task(attempts)
    counted = [one for group in groups.values() for one in group]
    if not counted:
        raise ValueError(f"expected at least one episode that was played to its end, found none of {len(attempts)}")
    failed = [one for one in counted if one.failed_once]
    kinds = sorted({one.kind for one in counted})
    return Measures(
        policy=policy, tasks=len(groups), episodes=len(counted), solved=sum(one.solved for one in counted),
        lost={owner.value: sum(one.owner is owner for one in attempts) for owner in (Owner.TASK, Owner.HOUSE)},
        completion=completion_of(list(groups.values())), curves=_curves(list(groups.values())),
        sometimes=sum(0 < sum(one.solved for one in group) < len(group) for group in groups.values()),
        to_solve=tuple(_units(list(groups.values()), seed)), failed_once=len(failed),
        recovery=wilson(sum(one.solved for one in failed), len(failed)) if failed else None,
        hacked=sum(one.hacked for one in counted),
        hack_rate=wilson(sum(one.hacked for one in counted), len(counted)),
        suspect_rate=wilson(sum(one.suspect for one in counted), len(counted)),
        by_kind={kind: completion_of([g for g in groups.values() if g[0].kind == kind]) for kind in kinds},
    )


def completion_of(groups: Sequence[Sequence[Attempted]]) -> Range:
    return mean_share([sum(one.solved for one in group) / len(group) for group in groups], [len(g) for g in groups])


def _curves(groups: Sequence[Sequence[Attempted]]) -> tuple[Curve, ...]:
    found = []
    for k in range(1, max(map(len, groups)) + 1):
        counts = [(len(group), sum(one.solved for one in group)) for group in groups if len(group) >= k]
        sizes = [1] * len(counts)
        found.append(Curve(
            k=k, tasks=len(counts), any=mean_share([pass_any(n, c, k) for n, c in counts], sizes),
            all=mean_share([pass_all(n, c, k) for n, c in counts], sizes)))
    return tuple(found)


def _units(groups: Sequence[Sequence[Attempted]], seed: int) -> list[Unit]:
    found = []
    for name, value_of in UNITS.items():
        means = [mean for group in groups if (mean := mean_to_solve(group, value_of)) is not None]
        if means:
            found.append(Unit(name=name, mean=bootstrap(means, seed=seed), tasks=len(means)))
    return found


def mean_to_solve(group: Sequence[Attempted], value_of: Callable[[Facts], float | None]) -> float | None:
    """The mean over the solved episodes of a task; `None` where none was solved or was measured."""
    values = [value for one in group if one.solved and (value := value_of(one.facts)) is not None]
    return sum(values) / len(values) if values else None
