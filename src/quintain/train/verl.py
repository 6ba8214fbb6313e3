"""verl's agent loop over our episodes. Written against verl 0.9: `verl.experimental.agent_loop`.

In a module that verl's workers import: `Loop = verl_agent_loop(stage, items)`, named in verl's
`agent_loop_config_path` as `- name: quintain` / `_target_: your.module.Loop`; the dataset has the columns `agent_name`
("quintain") and `task`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from quintain.policy import Renderer
from quintain.tasks import Item
from quintain.train.driven import Talk, worth
from quintain.train.stage import Stage
from quintain.train.trl import sample_of


def verl_agent_loop(
    stage: Stage | Callable[[], Stage], items: Mapping[str, Item], *, name: str = "quintain", lost: float | None = 0.0,
) -> type[Any]:
    """The class, registered under a name with verl. `stage` is an open one, or makes one in verl's worker.

    verl has no word for "no reward": an episode that the house broke (after its retries) comes with a mask of zeros and
    the reward `lost`, and stays in its group's baseline; with `lost=None` it raises HouseError instead. `extra_fields`
    has `solved`, `house`, `rewards` and `turn_scores`.
    """
    from verl.experimental.agent_loop.agent_loop import (
        AgentLoopBase,
        AgentLoopMetrics,
        AgentLoopOutput,
        register,
    )

    opened: list[Stage] = []

    def here() -> Stage:
        if not opened:
            opened.append(stage if isinstance(stage, Stage) else stage())
        return opened[0]

    class QuintainAgentLoop(AgentLoopBase):
        async def run(self, sampling_params: dict[str, Any], **fields: Any) -> Any:
            talk = await Talk.begun(here(), items[str(fields["task"])], Renderer(self.tokenizer))
            first, longest = len(talk.prompt), int(self.rollout_config.response_length)
            turns, goes_on = 0, not talk.driven.over
            while goes_on and len(talk.prompt) - first < longest:
                output = await self.server_manager.generate(
                    request_id=uuid4().hex, prompt_ids=list(talk.prompt), sampling_params=sampling_params)
                turns += 1
                ended = bool(output.token_ids) and output.token_ids[-1] == self.tokenizer.eos_token_id
                goes_on = await talk.answered(
                    output.token_ids, output.log_probs, cut=not ended,
                    version=str(output.extra_fields.get("max_global_steps", 0)))
            episode = await talk.driven.afinish()
            sample = sample_of(episode, filler=self.tokenizer.eos_token_id, longest=longest)
            mask = sample.env_mask if sample.reward is not None else [0] * len(sample.env_mask)
            return AgentLoopOutput(
                prompt_ids=sample.prompt_ids, response_ids=sample.completion_ids, response_mask=mask,
                response_logprobs=sample.logprobs, reward_score=worth(episode, lost), num_turns=2 * turns,
                metrics=AgentLoopMetrics(), extra_fields={
                    "solved": sample.solved, "house": sample.house, "rewards": sample.rewards, "turn_scores": [],
                    "tool_rewards": [],
                })

    registered: type[Any] = register(name)(QuintainAgentLoop)
    return registered
