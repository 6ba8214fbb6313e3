"""A run at a glance: what its sums come to, as the page shows them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from quintain.serve.dashboard.sums import OWN_KEYS, Sums
from quintain.serve.dashboard.views import Curve, FaultLine, Moment, Overview, RunLine, State
from quintain.types import Owner

FAULTS = 8
VERSIONS = 200


def overview(sums: Sums, line: RunLine) -> Overview:
    """All but what lies in other files than the journal."""
    whole = sums.whole
    return Overview(
        line=line, states={state.value: sums.states.get(state.value, 0) for state in State}, owners=_owners(sums),
        faults=_faults(sums), rewards=tuple(sums.bins) if whole.rewarded else (0,) * len(sums.bins),
        moments=tuple(
            Moment(unix_seconds=until, closed=part.closed, solved=part.solved,
                   reward=None if part.mean is None else round(part.mean, 4)) for until, part in sums.moments()),
        step_seconds=sums.step_seconds, per_minute=sums.closed_within(60.0), masked=sums.masked,
        turns=sums.turns / whole.closed if whole.closed else None, components=sums.components(),
        flags=_commonest(sums.detectors), tasks=_commonest(sums.fares), versions=_versions(sums),
    )


def summed(sums: Sums, line: RunLine) -> RunLine:
    """The line of a run, with what its fold knows."""
    whole = sums.whole
    return msgspec.structs.replace(
        line, episodes=sums.episodes, open=sums.episodes - whole.closed, solved=whole.solved, faults=_owners(sums),
        reward=whole.mean, seconds=sums.latest_unix_seconds - sums.began_unix_seconds if sums.episodes else 0.0,
    )


def _owners(sums: Sums) -> dict[str, int]:
    return {owner.value: sums.owners.get(owner.value, 0) for owner in Owner}


def _commonest(counts: Mapping[str, int]) -> dict[str, int]:
    """The commonest first; at most 64 of them."""
    return dict(Counter(counts).most_common(OWN_KEYS))


def _faults(sums: Sums) -> tuple[FaultLine, ...]:
    return tuple(FaultLine(owner=owner, fault=fault, count=count)
                 for (owner, fault), count in Counter(sums.failures).most_common(FAULTS))


def _versions(sums: Sums) -> tuple[Curve, ...]:
    """Mean reward and share solved by the policy's version, where there are several and they are numbers."""
    if len(sums.versions) < 2:
        return ()
    chosen = sorted(sums.versions.items())[-VERSIONS:]
    return (
        Curve(name="mean reward", points=tuple((float(at), round(part.mean or 0.0, 4)) for at, part in chosen)),
        Curve(name="share solved", points=tuple((float(at), round(part.solved / part.closed, 4))
                                                for at, part in chosen)),
    )
