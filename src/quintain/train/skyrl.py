"""skyrl-gym's text environment over our episodes. Written against skyrl-gym 0.4.

    skyrl_gym.register(id="quintain", entry_point=skyrl_environment(stage, items))

and `env_class: quintain`, with the task's id in the extras (`{"task": "add"}`), in SkyRL's dataset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quintain.tasks import Item
from quintain.train.driven import Driven, worth
from quintain.train.stage import Stage


def skyrl_environment(
    stage: Stage, items: Mapping[str, Item], *, lost: float | None = None,
) -> type[Any]:
    """The class. The whole reward comes with the last step. skyrl-gym has no word for "no reward": an episode that the
    house broke raises HouseError, or is worth `lost` where that is given (and its metadata says `house`)."""
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

    class QuintainTextEnv(BaseTextEnv):
        def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
            super().__init__()
            given = dict(extras or {})
            if given.get("task") not in items:
                raise ValueError(f"expected extras with a task that is known, found {given.get('task')!r}")
            item = items[given["task"]]
            self.max_turns = item.task.limits.episode.turns
            self._driven = Driven(stage, item)
            self._metrics: dict[str, Any] = {}

        def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
            """The conversation as the environment opens it, whatever the dataset's prompt says."""
            opening = self._driven.opening()
            return [{"role": message.role.value, "content": message.text} for message in opening], {}

        def step(self, action: str) -> Any:
            self.turns += 1
            told = self._driven.said(action)
            if told is not None:
                observations = [{"role": "user", "content": told}]
                return BaseTextEnvStepOutput(observations=observations, reward=0.0, done=False, metadata={})
            episode = self._driven.finish()
            reward, broken = worth(episode, lost), episode.broken
            self._metrics = {"solved": float(episode.solved), "turns": self.turns}
            metadata = {"solved": episode.solved, "house": str(broken) if broken is not None else None}
            return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata=metadata)

        def close(self) -> None:
            self._driven.give_up()

        def get_metrics(self) -> dict[str, Any]:
            return self._metrics

    return QuintainTextEnv
