"""Whether a training is well: what its numbers say when they are read together. Pure functions over readings.

A reward that rises is no proof of anything. It is read beside what the reward cannot see: the audit's hack rate, hidden
tests against visible ones, held-out tasks; and beside what dies first when a policy does: entropy, lengths, groups
whose members are all rewarded alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from quintain.train.advantage import spread
from quintain.train.control import Control
from quintain.types import Reward


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of one update; `None` = not measured. Shares are in [0, 1].

    `solved` of the training tasks, `held_out` of tasks that are never trained on. `visible` and `hidden` are the shares
    of visible and hidden tests that pass. `useless` is the share of groups without a difference. `contributions` are
    the means of what each component added to the reward.
    """

    step: int
    reward: float | None = None
    solved: float | None = None
    held_out: float | None = None
    visible: float | None = None
    hidden: float | None = None
    hack_rate: float | None = None
    entropy_nats: float | None = None
    length_tokens: float | None = None
    truncated: float | None = None
    useless: float | None = None
    house_failures: float | None = None
    contributions: dict[str, float] = {}


class Illness(StrEnum):
    """What an alarm is about."""

    COLLAPSE = "collapse"  # what it could do is lost again
    NO_SIGNAL = "no_signal"  # nearly all groups are rewarded alike
    ENTROPY = "entropy"  # it always says the same, or anything
    LENGTH = "length"  # it says more for nothing, or is cut
    HACKS = "hacks"  # the audit finds hacks among what was rewarded
    GAP = "gap"  # it solves what is shown and not what is hidden
    COMPONENT = "component"  # a part of the reward rises and nothing is solved for it
    CONTROL = "control"  # it learns from a reward that says nothing
    HOUSE = "house"  # too much of what is played is lost by the house


class Alarm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`says` has the numbers: found, and the bound."""

    illness: Illness
    step: int
    says: str


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where on it is an alarm. `window` readings in a row are averaged, and compared with the first `window`, or
    with the best; nothing is said before there are two windows, except of what is wrong by itself."""

    window: int = 5
    lost_solved: float = 0.15  # below the best window
    useless: float = 0.90
    least_entropy_share: float = 0.20  # of what it was at first
    most_entropy_share: float = 3.0
    longer: float = 2.0  # times as long as at first, with no more solved
    truncated: float = 0.25
    hack_rate: float = 0.02
    gap: float = 0.20
    component: float = 0.05  # rise of a contribution, in reward
    control: float = 0.10  # rise of the held-out share under a control
    house_failures: float = 0.10

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window must be at least 1, found {self.window}")


def alarms(
    readings: Sequence[Reading], bounds: Bounds | None = None, *, control: Control = Control.NONE,
) -> tuple[Alarm, ...]:
    """The alarms that are on after the last reading, each illness at most once (each component once)."""
    if not readings:
        return ()
    limits = bounds or Bounds()
    history = _History(readings, limits.window)
    found = [*_at_once(history, limits), *_since_then(history, limits, control)]
    return tuple(Alarm(illness=illness, step=readings[-1].step, says=says) for illness, says in found)


class _History:
    """Means of windows of readings, of what was measured in them."""

    def __init__(self, readings: Sequence[Reading], window: int) -> None:
        self._readings = readings
        self._window = window
        self.long_enough = len(readings) >= 2 * window

    def now(self, of: Callable[[Reading], float | None]) -> float | None:
        return _mean(of(reading) for reading in self._readings[-self._window:])

    def first(self, of: Callable[[Reading], float | None]) -> float | None:
        return _mean(of(reading) for reading in self._readings[:self._window])

    def best(self, of: Callable[[Reading], float | None]) -> float | None:
        starts = range(len(self._readings) - self._window + 1)
        means = (_mean(of(reading) for reading in self._readings[at:at + self._window]) for at in starts)
        return max((mean for mean in means if mean is not None), default=None)

    def rise(self, of: Callable[[Reading], float | None]) -> float | None:
        before, after = self.first(of), self.now(of)
        return None if before is None or after is None else after - before

    @property
    def components(self) -> list[str]:
        return sorted({name for reading in self._readings for name in reading.contributions})


_Found = list[tuple[Illness, str]]


def _at_once(history: _History, limits: Bounds) -> _Found:
    """What is wrong whatever was before."""
    found: _Found = []

    def check(illness: Illness, name: str, bound: float, value: float | None) -> None:
        if value is not None and value > bound:
            found.append((illness, f"{name} {value:.3g} is above {bound:g}"))

    check(Illness.NO_SIGNAL, "share of groups without a difference", limits.useless, history.now(lambda r: r.useless))
    check(Illness.HACKS, "hack rate among rewarded attempts", limits.hack_rate, history.now(lambda r: r.hack_rate))
    check(Illness.HOUSE, "share lost by the house", limits.house_failures, history.now(lambda r: r.house_failures))
    check(Illness.LENGTH, "share of truncated episodes", limits.truncated, history.now(lambda r: r.truncated))
    visible, hidden = history.now(lambda r: r.visible), history.now(lambda r: r.hidden)
    if visible is not None and hidden is not None:
        check(Illness.GAP, "visible minus hidden pass share", limits.gap, visible - hidden)
    return found


def _since_then(history: _History, limits: Bounds, control: Control) -> _Found:
    """What became of it since the beginning."""
    if not history.long_enough:
        return []
    found: _Found = []
    best, solved = history.best(_truth), history.now(_truth)
    if best is not None and solved is not None and best - solved > limits.lost_solved:
        found.append((
            Illness.COLLAPSE, f"solved fell from {best:.3g} to {solved:.3g}, by more than {limits.lost_solved:g}"))
    entropy, at_first = history.now(lambda r: r.entropy_nats), history.first(lambda r: r.entropy_nats)
    if entropy is not None and at_first and not (
        limits.least_entropy_share <= entropy / at_first <= limits.most_entropy_share
    ):
        found.append((Illness.ENTROPY, f"{entropy:.3g} nats, {entropy / at_first:.3g} times the first {at_first:.3g}"))
    gained = history.rise(_truth)
    length, long_at_first = history.now(lambda r: r.length_tokens), history.first(lambda r: r.length_tokens)
    if length is not None and long_at_first and length / long_at_first > limits.longer and not (gained or 0.0) > 0.01:
        found.append((
            Illness.LENGTH, f"{length:.0f} tokens, {length / long_at_first:.3g} times as many, and no more solved"))
    for name in history.components:
        rise = history.rise(lambda r, name=name: r.contributions.get(name))  # type: ignore[misc]
        if rise is not None and rise > limits.component and gained is not None and gained <= 0.0:
            found.append((Illness.COMPONENT, f"{name} rose by {rise:.3g} and solved by {gained:.3g}"))
    learnt = history.rise(lambda r: r.held_out)
    if control is not Control.NONE and learnt is not None and learnt > limits.control:
        found.append((Illness.CONTROL, f"held-out rose by {learnt:.3g} under the control {control.value}"))
    return found


def _truth(reading: Reading) -> float | None:
    """What is solved of tasks that it is not trained on, where that is known."""
    return reading.held_out if reading.held_out is not None else reading.solved


class Share(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One component of a batch's rewards: the mean of what it added, its deviation, and the share of the total's
    variance that is due to it (all components together: 1; `None` where the total does not vary). `measured` is the
    share in [0, 1] of the rewards in which it was measured at all."""

    mean: float
    deviation: float
    variance_share: float | None
    measured: float


def contributions(rewards_B: Iterable[Reward]) -> dict[str, Share]:
    """What each component of a batch's rewards contributed. A component with a large mean and no variance teaches
    nothing; the one with the largest share of the variance is what the policy is being taught."""
    rewards = list(rewards_B)
    rows = [_added(reward) for reward in rewards]
    names = sorted({name for row in rows for name in row})
    mean_total, deviation_total = spread([reward.total for reward in rewards])
    found = {}
    for name in names:
        column = [row.get(name, 0.0) for row in rows]
        mean, deviation = spread(column)
        together = sum((c - mean) * (r.total - mean_total) for c, r in zip(column, rewards, strict=True))
        measured = sum(any(s.name == name and s.value is not None for s in r.scores) for r in rewards)
        found[name] = Share(
            mean=mean, deviation=deviation, measured=measured / len(rewards),
            variance_share=together / (deviation_total**2 * (len(rewards) - 1)) if deviation_total else None,
        )
    return found


def _added(reward: Reward) -> Mapping[str, float]:
    added: dict[str, float] = {}
    for score in reward.scores:
        if score.contribution is not None:
            added[score.name] = added.get(score.name, 0.0) + score.contribution
    return added


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
