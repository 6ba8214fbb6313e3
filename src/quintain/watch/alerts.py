"""Alerts: which are pending, which fire, and what is to be done about it. A pure machine over a history of meters.

    quiet → pending → firing → resolved (quiet again)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from quintain.watch.evaluate import evaluate
from quintain.watch.history import History
from quintain.watch.rules import Action, Rule, Severity

#: A gap between two looks counts for no more than this: a machine that slept has seen nothing.
_LONGEST_STEP_SECONDS = 120.0
#: So many alerts of one rule are followed at once.
_MOST = 200


class State(StrEnum):
    PENDING = "pending"
    FIRING = "firing"


class Alert(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule for one set of labels. `held_seconds` is how long it has been true, by the watch's own clock; `told`
    whether its receivers were told of it."""

    rule: str
    labels: dict[str, str]
    state: State
    value: float
    text: str
    severity: Severity
    held_seconds: float = 0.0
    since_unix_seconds: float = 0.0
    told: bool = False

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.rule, tuple(sorted(self.labels.items()))


class Silence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts of rules whose name is like `rule` (`*` and `?` stand for anything) and that have these labels do nothing
    until then, but are shown and logged."""

    id: str
    rule: str
    until_unix_seconds: float
    labels: dict[str, str] = {}
    reason: str = ""
    by: str = ""

    def covers(self, alert: Alert, now_unix_seconds: float) -> bool:
        return (
            now_unix_seconds < self.until_unix_seconds and fnmatchcase(alert.rule, self.rule)
            and all(alert.labels.get(name) == value for name, value in self.labels.items())
        )


class Turn(StrEnum):
    """What became of an alert at a look."""

    FIRED = "fired"
    RESOLVED = "resolved"


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`actions` are those that are due now; none while it is silenced, or for what was told before."""

    turn: Turn
    alert: Alert
    at_unix_seconds: float
    silenced: bool = False
    actions: tuple[Action, ...] = ()


class Alerts:
    """Look at a history now and then. `known` is what was on when the process before this one ended: what it has told
    is not told again."""

    def __init__(self, rules: Sequence[Rule], *, known: Iterable[Alert] = ()) -> None:
        self.rules = tuple(rules)
        names = {rule.name for rule in rules}
        self._on: dict[tuple[str, tuple[tuple[str, str], ...]], Alert] = {
            alert.key: alert for alert in known if alert.rule in names
        }
        self._last: float | None = None

    @property
    def on(self) -> tuple[Alert, ...]:
        """Those that are pending or fire."""
        return tuple(self._on[key] for key in sorted(self._on))

    def look(
        self, history: History, *, at_seconds: float, now_unix_seconds: float, silences: Sequence[Silence] = (),
    ) -> tuple[Change, ...]:
        """What has changed by the latest moment. `at_seconds` may be of any clock; one that goes back, or leaps, holds
        the waiting times still and does nothing else."""
        step = 0.0 if self._last is None else min(max(0.0, at_seconds - self._last), _LONGEST_STEP_SECONDS)
        self._last = at_seconds
        changes: list[Change] = []
        for rule in self.rules:
            true = evaluate(rule.tree, history, rule.by)
            changes += self._follow(rule, true, step, now_unix_seconds, silences)
        return tuple(changes)

    def _follow(
        self, rule: Rule, true: Mapping[tuple[str, ...], float], step: float, now: float, silences: Sequence[Silence],
    ) -> Iterable[Change]:
        seen = set()
        for values, number in sorted(true.items())[:_MOST]:
            labels = dict(zip(rule.by, values, strict=False))
            alert = self._grown(rule, labels, number, step, now)
            silenced = any(silence.covers(alert, now) for silence in silences)
            fires = alert.state is State.FIRING
            due = fires and not alert.told and not silenced
            before = self._on.get(alert.key)
            began = fires and (before is None or before.state is State.PENDING)
            if due:
                alert = msgspec.structs.replace(alert, told=True)
            self._on[alert.key] = alert
            seen.add(alert.key)
            if began or due:
                yield Change(turn=Turn.FIRED, alert=alert, at_unix_seconds=now, silenced=silenced,
                             actions=rule.actions if due else ())
        for key in [key for key in self._on if key[0] == rule.name and key not in seen]:
            alert = self._on.pop(key)
            if alert.state is State.FIRING:
                told = (Action.NOTIFY,) if alert.told and Action.NOTIFY in rule.actions else ()
                yield Change(turn=Turn.RESOLVED, alert=alert, at_unix_seconds=now, actions=told)

    def _grown(self, rule: Rule, labels: dict[str, str], number: float, step: float, now: float) -> Alert:
        fresh = Alert(rule=rule.name, labels=labels, state=State.PENDING, value=number, severity=rule.severity,
                      text="", since_unix_seconds=now)
        known = self._on.get(fresh.key)
        held = 0.0 if known is None else known.held_seconds + step
        fires = held >= rule.for_seconds or (known is not None and known.state is State.FIRING)
        return msgspec.structs.replace(
            known or fresh, value=number, text=rule.text(labels, number), held_seconds=held, severity=rule.severity,
            state=State.FIRING if fires else State.PENDING,
        )
