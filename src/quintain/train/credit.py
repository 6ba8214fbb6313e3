"""Which token gets which advantage: by episode, by turn, or by the state that a turn was taken in.

Rows of a batch go in, as `sift` leaves them, and come out with advantages. An episode of several rows is one sibling. A
row without a reward has no advantage and moves nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from quintain.train.advantage import Step, discounted, gigpo, grpo, spread
from quintain.train.trajectory import Trajectory

#: The rows of one episode, in order.
_Sibling = list[Trajectory]


def by_episode(
    rows_B: Sequence[Trajectory], advantage: Callable[[Sequence[float | None]], list[float | None]] = grpo,
) -> tuple[Trajectory, ...]:
    """Each sampled token has its episode's advantage within its group: `grpo`, `dr_grpo`, `rloo`."""
    def of_group(siblings: list[_Sibling]) -> list[list[float] | None]:
        values = advantage([_reward(sibling) for sibling in siblings])
        return [
            None if value is None else [value] * _turns(sibling)
            for value, sibling in zip(values, siblings, strict=True)
        ]

    return _assigned(rows_B, of_group)


def by_batch(
    rows_B: Sequence[Trajectory], advantage: Callable[[Sequence[Trajectory]], list[float | None]],
) -> tuple[Trajectory, ...]:
    """Each sampled token has its episode's advantage within the batch: `advantage` gets one row of each episode
    and gives one number each, as `reinforce_plus_plus` and `gdpo` do:
    `by_batch(rows, lambda rows: gdpo([r.rewards for r in rows], [r.group for r in rows]))`."""
    siblings = [sibling for group in _groups(rows_B).values() for sibling in group.values()]
    values = advantage([next((row for row in sibling if row.reward is not None), sibling[0]) for sibling in siblings])
    pairs = zip(siblings, values, strict=True)
    given = {sibling[0].episode: value for sibling, value in pairs}
    return tuple(row.with_advantage(None if row.reward is None else given[row.episode]) for row in rows_B)


def by_turn(
    rows_B: Sequence[Trajectory], *, gamma: float = 1.0, scale: bool = True, epsilon: float = 1e-6,
) -> tuple[Trajectory, ...]:
    """Each turn has what it still brought, Σ γ^k of the step rewards from it on, less the mean of what the siblings
    brought in all, over their std.

    Step rewards are those of `grade.step_rewards(events).rewards_T`: with γ = 1 a turn's return is R − Φ(before it), so
    a turn that was already in a good place is credited less with a good end, and no sequence of steps earns by going
    round in circles (Ng, Harada and Russell 1999). Raises ValueError for a rewarded turn without a step reward.
    """
    def of_group(siblings: list[_Sibling]) -> list[list[float] | None]:
        returns = [
            None if _reward(sibling) is None else discounted(_step_rewards(sibling), gamma=gamma)
            for sibling in siblings
        ]
        mean, deviation = spread([values[0] for values in returns if values])
        divisor = deviation + epsilon if scale else 1.0
        return [
            None if values is None else [(v - mean) / divisor if deviation else 0.0 for v in values]
            for values in returns
        ]

    return _assigned(rows_B, of_group)


def by_state(
    rows_B: Sequence[Trajectory], *, gamma: float = 0.95, step_weight: float = 1.0, epsilon: float = 1e-6,
    scale: bool = True,
) -> tuple[Trajectory, ...]:
    """Each turn has its episode's advantage and how it did among all turns of the group that answered the same state:
    `gigpo`. Raises ValueError for a rewarded turn without a state or a step reward."""
    def of_group(siblings: list[_Sibling]) -> list[list[float] | None]:
        rewards = [_reward(sibling) for sibling in siblings]
        steps = [
            [] if reward is None else _steps(sibling) for reward, sibling in zip(rewards, siblings, strict=True)
        ]
        return gigpo(rewards, steps, gamma=gamma, step_weight=step_weight, epsilon=epsilon, scale=scale)

    return _assigned(rows_B, of_group)


def _assigned(
    rows_B: Sequence[Trajectory], of_group: Callable[[list[_Sibling]], list[list[float] | None]],
) -> tuple[Trajectory, ...]:
    """The rows with the advantages that `of_group` has for the turns of each sibling."""
    left: dict[str, list[float] | None] = {}
    for group in _groups(rows_B).values():
        siblings = list(group.values())
        for episode, values in zip(group, of_group(siblings), strict=True):
            left[episode] = values
    found = []
    for row in rows_B:
        values = left[row.episode]
        if values is None:
            found.append(row.with_advantage(None))
            continue
        mine, left[row.episode] = values[:len(row.turns)], values[len(row.turns):]
        found.append(row.with_advantage(None if row.reward is None else mine))  # this row of it may be left out
    return tuple(found)


def _groups(rows_B: Iterable[Trajectory]) -> dict[str, dict[str, _Sibling]]:
    groups: dict[str, dict[str, _Sibling]] = {}
    for row in rows_B:
        groups.setdefault(row.group, {}).setdefault(row.episode, []).append(row)
    return groups


def _reward(sibling: _Sibling) -> float | None:
    """Of the rows that are left of an episode, one with a reward speaks for it."""
    return next((row.reward for row in sibling if row.reward is not None), None)


def _turns(sibling: _Sibling) -> int:
    return sum(len(row.turns) for row in sibling)


def _step_rewards(sibling: _Sibling) -> list[float]:
    return [step.reward for step in _steps(sibling, stateless=True)]


def _steps(sibling: _Sibling, *, stateless: bool = False) -> list[Step]:
    found = []
    for row in sibling:
        for span in row.turns:
            if span.reward is None or (span.state is None and not stateless):
                missing = "step reward" if span.reward is None else "state"
                raise ValueError(
                    f"episode {row.episode}, turn {span.nth}: expected a {missing}, found none "
                    "(give rows_of the states and step_rewards)")
            found.append(Step(state=span.state, reward=span.reward))
    return found


def with_rewards(rows_B: Sequence[Trajectory], rewards: Callable[[Trajectory], float | None]) -> tuple[Trajectory, ...]:
    """The rows with other rewards: what a control or a user's own scalar makes of them. A row without a reward keeps
    none, whatever `rewards` says: nothing turns a failure of the house into one."""
    return tuple(
        row if row.reward is None else msgspec.structs.replace(row, reward=rewards(row)) for row in rows_B)
