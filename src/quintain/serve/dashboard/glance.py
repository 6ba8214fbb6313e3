"""A run at a glance: counts, distributions and curves over time of what its fold holds. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from quintain.serve.dashboard.fold import Known, counted, fares_of, means
from quintain.serve.dashboard.views import Curve, FaultLine, Moment, Overview, RunLine, State
from quintain.types import Owner, Trainable

BINS = 20
MOMENTS = 60
FAULTS = 8
VERSIONS = 200
#: Lengths of a moment, in seconds: the shortest that shows all of a run in at most 60 of them is taken.
STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


def overview(episodes: Sequence[Known], line: RunLine) -> Overview:
    """All but what lies in other files than the journal."""
    closed = [one for one in episodes if one.stop is not None]
    rewards = [one.reward for one in closed if one.reward is not None]
    step = step_of(closed)
    last = max((one.closed_unix_seconds for one in closed), default=0.0)
    return Overview(
        line=line, states={state.value: 0 for state in State} | counted(one.state.value for one in episodes),
        owners={owner.value: 0 for owner in Owner} | counted(
            one.owner.value for one in closed if one.owner is not None and not one.solved),
        faults=_faults(closed), rewards=histogram(rewards), moments=moments(closed, step), step_seconds=step,
        per_minute=sum(one.closed_unix_seconds > last - 60.0 for one in closed),
        masked=sum(one.trainable is Trainable.MASK for one in closed),
        turns=sum(one.turns for one in closed) / len(closed) if closed else None, components=means(closed),
        flags=counted(flag for one in closed for flag in one.flags), tasks=fares(closed), versions=versions(closed),
    )


def summed(episodes: Sequence[Known], line: RunLine) -> RunLine:
    """The line of a run, with what its fold knows."""
    closed = [one for one in episodes if one.stop is not None]
    rewards = [one.reward for one in closed if one.reward is not None]
    began = min((one.opened_unix_seconds for one in episodes), default=0.0)
    return RunLine(
        name=line.name, pace=line.pace, taskset=line.taskset, policy=line.policy, is_training=line.is_training,
        created_unix_seconds=line.created_unix_seconds, episodes=len(episodes), open=len(episodes) - len(closed),
        solved=sum(one.solved for one in closed),
        faults={owner.value: 0 for owner in Owner} | counted(
            one.owner.value for one in closed if one.owner is not None and not one.solved),
        reward=sum(rewards) / len(rewards) if rewards else None,
        seconds=max((one.closed_unix_seconds for one in episodes), default=began) - began,
    )


def histogram(rewards: Sequence[float]) -> tuple[int, ...]:
    """Counts in 20 equal bins over [-1, 1]; what lies beyond is counted in the outermost."""
    bins = [0] * BINS
    for reward in rewards:
        bins[max(0, min(BINS - 1, math.floor((reward + 1.0) * BINS / 2)))] += 1
    return tuple(bins)


def step_of(closed: Sequence[Known]) -> float:
    """How long a moment is, so that all of them fit."""
    if not closed:
        return float(STEPS[0])
    times = [one.closed_unix_seconds for one in closed]
    whole = max(times) - min(times)
    return float(next((step for step in STEPS if whole <= step * (MOMENTS - 1)), STEPS[-1]))


def moments(closed: Sequence[Known], step: float) -> tuple[Moment, ...]:
    """The run cut into stretches of `step` seconds; those in which nothing closed are there too, but not more than 60
    in all (the latest)."""
    if not closed:
        return ()
    parts: dict[int, list[Known]] = defaultdict(list)
    for one in closed:
        parts[math.floor(one.closed_unix_seconds / step)].append(one)
    last = max(parts)
    first = max(min(parts), last - MOMENTS + 1)
    return tuple(_moment((at + 1) * step, parts.get(at, [])) for at in range(first, last + 1))


def _moment(until: float, closed: Sequence[Known]) -> Moment:
    rewards = [one.reward for one in closed if one.reward is not None]
    return Moment(unix_seconds=until, closed=len(closed), solved=sum(one.solved for one in closed),
                  reward=round(sum(rewards) / len(rewards), 4) if rewards else None)


def _faults(closed: Sequence[Known]) -> tuple[FaultLine, ...]:
    found = Counter((one.owner.value, one.fault) for one in closed if one.owner and one.fault and not one.solved)
    return tuple(FaultLine(owner=owner, fault=fault, count=count)
                 for (owner, fault), count in found.most_common(FAULTS))


def fares(closed: Sequence[Known]) -> dict[str, int]:
    """How many tasks fare how."""
    tallies: dict[str, list[int]] = {}
    for one in closed:
        tally = tallies.setdefault(one.task, [0, 0, 0])
        tally[0] += 1
        tally[1] += one.solved
        tally[2] += one.state is State.BROKEN
    return counted(fares_of(*tally) for tally in tallies.values())


def versions(closed: Sequence[Known]) -> tuple[Curve, ...]:
    """Mean reward and share solved by the policy's version, where there are several and they are numbers."""
    parts: dict[int, list[Known]] = defaultdict(list)
    for one in closed:
        if one.version.isdecimal() and one.reward is not None:
            parts[int(one.version)].append(one)
    if len(parts) < 2:
        return ()
    chosen = sorted(parts.items())[-VERSIONS:]
    return (
        Curve(name="mean reward", points=tuple(
            (float(at), round(sum(one.reward or 0.0 for one in of) / len(of), 4)) for at, of in chosen)),
        Curve(name="share solved", points=tuple(
            (float(at), round(sum(one.solved for one in of) / len(of), 4)) for at, of in chosen)),
    )
