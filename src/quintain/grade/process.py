"""Rewards for the steps of an episode that no sequence of steps can farm: potential-based shaping, a fold of its log.

The reward of a step is how far it raised a potential: γ·Φ(after) − Φ(before), with Φ = 0 at the end (Ng, Harada and
Russell 1999). Over an episode that sums to −Φ(start), whatever was done: breaking and fixing again, or turning in
circles, earns nothing. So it moves credit between the steps of an episode, for step-level advantages, and none between
episodes: for advantages of whole trajectories use the reward alone. It is computed on the verifier's side from what was
built and run, never from what the policy says of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from quintain.types import Broke, Built, Closed, Event, Graded, Opened, Program, Ran, Rejected, Sampled, Verdict


class StepState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of the work at one moment. `compiles`: the latest reply became a program; `visible` in [0, 1] is
    the share of the visible tests that passes; `edited` in [0, 1] the share of suspicion that lies on edited lines."""

    compiles: bool = False
    visible: float = 0.0
    edited: float = 0.0


class Potential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How promising a state is: a weighted sum, called with a `StepState`."""

    visible: float = 0.25
    compiles: float = 0.10
    edited: float = 0.05

    def __call__(self, state: StepState) -> float:
        return self.visible * state.visible + self.compiles * state.compiles + self.edited * state.edited


_START = StepState()
_POTENTIAL = Potential()


class StepRewards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value per turn each, shapes [T]. `shaping_T` sums to −Φ(start) for gamma = 1. `rewards_T` adds the episode's
    total at the last turn, `to_go_T` is their discounted sum from each turn on: total − Φ(before the turn) for gamma =
    1. `potentials` [T] are Φ before each turn."""

    potentials: tuple[float, ...]
    shaping_T: tuple[float, ...]
    rewards_T: tuple[float, ...]
    to_go_T: tuple[float, ...]


def shaping(potentials: Sequence[float], *, gamma: float = 1.0) -> tuple[float, ...]:
    """The shaping of each step of an episode from the potentials before each of them, shape [T] → [T]: the last step
    leads to the end, where the potential is 0. Raises ValueError for a gamma outside (0, 1]."""
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"expected gamma in (0, 1], found {gamma!r}")
    if not all(map(math.isfinite, potentials)):
        raise ValueError(f"expected finite potentials, found {potentials!r}")
    after = (*potentials[1:], 0.0) if potentials else ()
    return tuple(gamma * later - now for now, later in zip(potentials, after, strict=True))


def returns_to_go(rewards: Sequence[float], *, gamma: float = 1.0) -> tuple[float, ...]:
    """From each step on, the discounted sum of the rewards: shape [T] → [T]."""
    left, found = 0.0, []
    for reward in reversed(rewards):
        left = reward + gamma * left
        found.append(left)
    return tuple(reversed(found))


def step_rewards(
    events: Iterable[Event], *, potential: Callable[[StepState], float] = _POTENTIAL, start: StepState = _START,
    edited: Callable[[Program], float] | None = None, gamma: float = 1.0,
) -> StepRewards | None:
    """The step rewards of an episode's log. None for an episode that has no reward, or has not ended.

    `start` is the state of the task as given. `edited` measures a program's share of suspicion on edited lines
    (`edited_share` of this room); without it that part is 0. Only the last attempt in the log counts, from its Opened.
    """
    before: list[StepState] = []  # each turn
    total: float | None = None
    state, program, closed = start, None, False
    for event in events:
        match event:
            case Opened():
                before, total, state, program, closed = [], None, start, None, False
            case Sampled():
                before.append(state)
            case Built(program=built):
                known = state if built == program else StepState()  # the same program again is not run again
                state = msgspec.structs.replace(
                    known, compiles=True, edited=_share(edited(built)) if edited is not None else 0.0)
                program = built
            case Rejected():
                state, program = StepState(), None
            case Ran(verdict=Verdict() as verdict):
                state = msgspec.structs.replace(state, visible=verdict.share)
            case Graded(reward=reward, final=True):
                total = reward.total
            case Broke():
                total = None
            case Closed():
                closed = True
    if total is None or not closed:
        return None
    return _rewarded([potential(s) for s in before], total, gamma)


def _rewarded(potentials: Sequence[float], total: float, gamma: float) -> StepRewards:
    shaped = shaping(potentials, gamma=gamma)
    rewards = [*shaped[:-1], shaped[-1] + total] if shaped else []
    return StepRewards(
        potentials=tuple(potentials), shaping_T=shaped, rewards_T=tuple(rewards),
        to_go_T=returns_to_go(rewards, gamma=gamma),
    )


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
