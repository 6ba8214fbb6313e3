"""OpenRLHF's multi-turn agent over our episodes. Written against OpenRLHF 0.11: `openrlhf.utils.agent`.

In the file that `--agent_func_path` names: `AgentExecutor = openrlhf_agent(stage, items, tokenizer)`; the dataset's
label is the task's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quintain.policy import Renderer
from quintain.tasks import Item
from quintain.train.driven import Driven, worth
from quintain.train.stage import Stage
from quintain.types import Message, Role


def openrlhf_agent(
    stage: Stage, items: Mapping[str, Item], tokenizer: Any, *, lost: float | None = None,
) -> type[Any]:
    """The executor class. OpenRLHF has no word for "no reward": an episode that the house broke raises HouseError, or
    is worth `lost` where that is given (and `extra_logs` says `house_failure`)."""
    import torch
    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

    renderer = Renderer(tokenizer)

    class QuintainAgent(AgentInstanceBase):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._driven: Driven | None = None

        async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            label = states["label"]
            if label not in items:
                raise ValueError(f"expected a label that is a known task, found {label!r}")
            self._driven = Driven(stage, items[label])
            return {"observation": renderer.text(await self._driven.aopening())}

        async def step(self, state_dict: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            if self._driven is None:
                raise RuntimeError("expected reset before step")
            action = str(state_dict["action_text"])
            end = str(tokenizer.eos_token)
            told = await self._driven.asaid(action.removesuffix(end))
            if told is not None:
                feedback = renderer.text_after([Message(role=Role.USER, text=told)], ended=action.endswith(end))
                return _step(torch.tensor(0.0), feedback or "", done=False, logs={})
            episode = await self._driven.afinish()
            reward = torch.tensor(worth(episode, lost))
            logs = {"solved": float(episode.solved), "house_failure": float(episode.reward is None)}
            return _step(reward, "", done=True, logs=logs)

    class QuintainExecutor(MultiTurnAgentExecutor):
        def __init__(self) -> None:
            super().__init__(QuintainAgent)

    return QuintainExecutor


def _step(reward: Any, feedback: str, *, done: bool, logs: dict[str, float]) -> dict[str, Any]:
    return {"rewards": reward, "scores": reward, "environment_feedback": feedback, "done": done, "extra_logs": logs}
