"""tinker-cookbook's environments over our episodes. Written against tinker-cookbook 0.5.8: `rl.types`.

    builder = tinker_group(stage, item, tokenizer, size=8)      # an EnvGroupBuilder

It holds an open stage, so its rollouts run in this process: it cannot be pickled to another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quintain.policy import Renderer
from quintain.tasks import Item
from quintain.train.driven import Talk, worth
from quintain.train.stage import Stage
from quintain.types import Episode


def tinker_group(stage: Stage, item: Item, tokenizer: Any, *, size: int) -> Any:
    """An EnvGroupBuilder of `size` siblings at one task. The reward comes with the last step.

    An episode that the house broke raises HouseError in its last step: tinker's error-tolerant rollout strategies leave
    that sibling out of the group, which is what a house failure means; its FailFast ends the run. Every next
    observation begins with all the tokens before it, so an episode is one datum.
    """
    import tinker
    from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

    renderer = Renderer(tokenizer)
    stops = sorted(renderer.end_ids)

    class QuintainEnv(Env):
        def __init__(self) -> None:
            self._talk: Talk | None = None

        async def initial_observation(self) -> Any:
            self._talk = await Talk.begun(stage, item, renderer)
            return tinker.ModelInput.from_ints(list(self._talk.prompt)), stops

        async def step(self, action: list[int], *, extra: Any = None) -> Any:
            if self._talk is None:
                raise RuntimeError("expected initial_observation before step")
            cut = extra["stop_reason"] == "length" if extra and "stop_reason" in extra else action[-1:] != stops[-1:]
            if await self._talk.answered(action, None, cut=cut):
                return StepResult(
                    reward=0.0, episode_done=False, next_stop_condition=stops,
                    next_observation=tinker.ModelInput.from_ints(list(self._talk.prompt)))
            episode = await self._talk.driven.afinish()
            return StepResult(
                reward=worth(episode, None), episode_done=True, next_stop_condition=stops, metrics=_metrics(episode),
                next_observation=tinker.ModelInput.from_ints([]))

        async def left(self) -> None:
            """Give up an episode that nobody asks on."""
            if self._talk is not None and not self._talk.driven.over:
                await self._talk.driven.afinish()

    class QuintainGroup(EnvGroupBuilder):
        def __init__(self) -> None:
            self._made: list[QuintainEnv] = []

        async def make_envs(self) -> Sequence[Any]:
            self._made = [QuintainEnv() for _ in range(size)]
            return self._made

        async def cleanup(self) -> None:
            for made in self._made:
                await made.left()

        def logging_tags(self) -> list[str]:
            return ["quintain", item.task.kind]

    return QuintainGroup()


def _metrics(episode: Episode) -> dict[str, float]:
    """Numbers for tinker's logs; of the stops only those that it has a name for."""
    stop = {"submitted": "completed", "solved": "completed", "gave_up": "completed", "turns": "max_turns",
            "tokens": "max_tokens", "wall_time": "rollout_timeout", "malformed": "parse_error"}
    found = {"solved": float(episode.solved), "turns": float(len(episode.turns))}
    if episode.stop is not None and episode.stop.value in stop:
        found[f"stop/{stop[episode.stop.value]}"] = 1.0
    return found
