"""Where a worker goes on that takes an episode over from another: read from its log alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quintain.rollout.effect import Again, again
from quintain.rollout.machine import Machine, Point, Rules
from quintain.store import Standing, last_attempt, standing
from quintain.types import Broke, Event, FaultKind, HouseError, Opened, Task


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done about an episode. `turns` are those that are kept: replies that are in the log and will not be
    asked for again. `due` names the effect that comes next, `again` what it means if it was done once already (`None`
    unless the episode goes on). `reason` says all of it in words."""

    standing: Standing
    turns: int = 0
    due: str | None = None
    again: Again | None = None
    reason: str

    @property
    def goes_on(self) -> bool:
        return self.standing is Standing.UNFINISHED


def resumption(rules: Rules, task: Task, log: Sequence[Event]) -> Resumption:
    """What a log means for whoever finds it. An attempt at another version of the task cannot be gone on with, whatever
    is left of it: it is `BROKEN`, and a new one follows. Raises HouseError(STORE_ERROR) for a log that no episode can
    have."""
    stands = standing(log)
    attempt = last_attempt(log)
    if stands is Standing.NEW:
        return Resumption(standing=stands, reason="nothing is known of it: it begins")
    if stands is Standing.FINISHED:
        return Resumption(standing=stands, reason="it is finished: left alone")
    if stands is Standing.BROKEN:
        fault = next(event.fault for event in reversed(attempt) if isinstance(event, Broke))
        return Resumption(standing=stands, reason=f"the house broke it ({fault.kind.value}): a new attempt")
    try:
        machine = Machine.replayed(rules, attempt)
    except ValueError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"no episode can have this log: {error}")
    state = machine.state
    first = attempt[0]
    is_open = state.point not in (Point.PAID, Point.BROKE)
    if is_open and isinstance(first, Opened) and first.task_version != task.version:
        return Resumption(standing=Standing.BROKEN, reason=(
            f"opened on version {first.task_version} of {first.task}, resumed on {task.version}: a new attempt"
        ))
    effect = machine.effect(state.at_seconds)
    assert effect is not None, "what is not closed has an effect that is due"
    mark, name, turns = again(effect, network=task.network), type(effect).__name__, state.spent.turns
    reason = f"goes on after {turns} turns ({len(attempt)} events) with {name}, {mark.value} if done before"
    return Resumption(standing=stands, turns=turns, due=name, again=mark, reason=reason)
