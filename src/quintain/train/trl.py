"""TRL's GRPOTrainer fed by whole episodes: a `rollout_func`, `reward_funcs` that read what it played, and one that
judges the replies which TRL sampled itself.

TRL's own loop resets environments and calls tools one after another; here all episodes of a batch are played at once.
An episode that the house broke has the reward None, which TRL leaves out of loss and baseline (advantage 0). Nothing
here imports TRL. Written against TRL 1.16.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from quintain.policy import LocalPolicy, LocalSampling, Policy, turn_of
from quintain.tasks import Item
from quintain.train.driven import paid
from quintain.train.stage import Stage
from quintain.train.trajectory import rows_of
from quintain.types import Episode, Message, Task, Turn


class Asked:
    """The tasks as TRL asks them: `rows` are the dataset's (columns `prompt`, a conversation, and `task`), and `of`
    finds the task of a prompt, which is all that a rollout_func is given.

    `opening` is the environment's (what a policy sees first). Raises ValueError for two tasks that are asked alike.
    """

    def __init__(self, items: Iterable[Item], opening: Callable[[Task], Sequence[Message]]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.items: dict[str, Item] = {}
        self._by_prompt: dict[str, Item] = {}
        for item in items:
            prompt = [{"role": message.role.value, "content": message.text} for message in opening(item.task)]
            twin = self._by_prompt.setdefault(_key(prompt), item)
            if twin is not item:
                raise ValueError(
                    f"expected prompts that tell tasks apart, found {twin.task.id} and {item.task.id} alike")
            self.rows.append({"prompt": prompt, "task": item.task.id})
            self.items[item.task.id] = item

    def of(self, prompt: object) -> Item:
        """Raises ValueError for a prompt that is none of these tasks'."""
        item = self._by_prompt.get(_key(prompt))
        if item is None:
            raise ValueError(f"expected a prompt of one of {len(self.items)} tasks, found {_key(prompt)[:200]}")
        return item


class TrlRollouts:
    """TRL's `rollout_func`: `GRPOTrainer(..., rollout_func=TrlRollouts(stage, asked), reward_funcs=[episode_reward])`.

    `policy` answers; without one the trainer's own model samples in this process (`LocalPolicy`, with the temperature
    and the completion length of the trainer's arguments). A policy must record token ids and log-probabilities
    (`OpenAIPolicy` with vLLM's `return_token_ids` and `logprobs`). TRL wants one row for each prompt: of an episode
    that forks into several, the one with the most sampled tokens is trained. A completion longer than the trainer's
    `max_completion_length` is cut there.

    Besides what TRL requires it returns `env_mask`, `reward` (None where there is none), `rewards` (named), `solved`,
    `house` (its fault in words, or None), `episode` and `forked` (rows that are not trained).
    """

    def __init__(self, stage: Stage, asked: Asked, policy: Policy | None = None) -> None:
        self._stage = stage
        self._asked = asked
        self._policy = policy
        self._own: tuple[Any, LocalPolicy] | None = None

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        items = [self._asked.of(prompt) for prompt in prompts]
        policy = self._policy or self._of_trainer(trainer)
        # Part of a group may be played by another process: other rounds, so that it draws other seeds.
        accelerator = trainer.accelerator
        count, index = getattr(accelerator, "num_processes", 1), getattr(accelerator, "process_index", 0)
        episodes = self._stage.play(items, policy, round=self._stage.round() * count + index)
        longest = getattr(trainer, "max_completion_length", None)
        samples = [sample_of(episode, filler=trainer.processing_class.eos_token_id, longest=longest)
                   for episode in episodes]
        return {name: [getattr(sample, name) for sample in samples] for name in Sample.__struct_fields__}

    def _of_trainer(self, trainer: Any) -> LocalPolicy:
        model = trainer.accelerator.unwrap_model(trainer.model)
        if self._own is None or self._own[0] is not model:
            args = trainer.args
            sampling = LocalSampling(
                temperature=args.temperature, max_tokens=trainer.max_completion_length, window_seconds=0.01)
            self._own = model, LocalPolicy(model, trainer.processing_class, sampling=sampling)
        policy = self._own[1]
        policy.policy_version = str(trainer.state.global_step)
        return policy


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One episode as TRL takes it; `prompt_ids` [P], the other lists [C]."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    env_mask: list[int]
    reward: float | None
    rewards: dict[str, float | None]
    solved: bool
    house: str | None
    episode: str
    forked: int


def sample_of(episode: Episode, *, filler: int, longest: int | None = None) -> Sample:
    """The sample of an episode; of one without a single sampled token (the house broke it), `filler` behind `filler`,
    masked and without a reward. Raises ValueError as `rows_of`, and for an episode without log-probabilities."""
    rows = rows_of(episode) if any(turn.output_token_ids for turn in episode.turns) else ()
    broken = episode.broken
    house = None if episode.reward is not None or broken is None else str(broken)
    if not rows:
        return Sample(
            prompt_ids=[filler], completion_ids=[filler], logprobs=[0.0], env_mask=[0], reward=paid(episode),
            rewards={}, solved=False, house=house, episode=episode.id, forked=0)
    row = max(rows, key=lambda row: row.trained_tokens)
    if row.logprobs is None:
        raise ValueError(f"episode {episode.id}: expected log-probabilities for each token, found turns without")
    start, stop = row.prompt_length, len(row.token_ids)
    if longest is not None:
        stop = min(stop, start + longest)
    return Sample(
        prompt_ids=list(row.token_ids[:start]), completion_ids=list(row.token_ids[start:stop]),
        logprobs=list(row.logprobs[start:stop]), env_mask=[int(m) for m in row.loss_mask[start:stop]],
        reward=row.reward, rewards=row.rewards, solved=row.solved, house=house, episode=episode.id,
        forked=len(rows) - 1)


def episode_reward(
    prompts: list[Any], *, reward: list[float | None], solved: list[bool], house: list[str | None],
    log_metric: Callable[[str, float], None] | None = None, **columns: object,
) -> list[float | None]:
    """A reward function for `TrlRollouts`: the episodes' own rewards. Logs the share that is solved and the share that
    the house lost."""
    if log_metric is not None and solved:
        log_metric("quintain/solved", sum(solved) / len(solved))
        log_metric("quintain/house_failures", sum(fault is not None for fault in house) / len(house))
    return reward


def named_reward(name: str) -> Callable[..., list[float | None]]:
    """A reward function for `TrlRollouts`: one named score of each episode; several of them with
    `multi_objective_aggregation="normalize_then_sum"` are GDPO."""
    def of_episode(
        prompts: list[Any], *, reward: list[float | None], rewards: list[dict[str, float | None]], **columns: object,
    ) -> list[float | None]:
        return [
            None if total is None else named.get(name) for total, named in zip(reward, rewards, strict=True)
        ]

    of_episode.__name__ = name
    return of_episode


class TrlRewards:
    """A reward function for replies that TRL sampled itself: each is judged as the first and only turn of an episode,
    all at once. Needs the dataset's column `task`."""

    __name__ = "quintain"

    def __init__(self, stage: Stage, items: Mapping[str, Item]) -> None:
        self._stage = stage
        self._items = items

    def __call__(
        self, prompts: list[Any], completions: list[Any], *, task: list[str], **columns: object,
    ) -> list[float | None]:
        """Raises ValueError for a task that is not known."""
        if unknown := sorted(set(task) - set(self._items)):
            raise ValueError(f"expected tasks that were given, found {unknown}")
        replies = [_text(completion) for completion in completions]
        policy = _Once({name: [r for r, t in zip(replies, task, strict=True) if t == name] for name in set(task)})
        episodes = self._stage.play([self._items[name] for name in task], policy)
        left: dict[tuple[str, str], list[Episode]] = {}
        for episode in episodes:
            left.setdefault((episode.task, episode.turns[0].text if episode.turns else ""), []).append(episode)
        found: list[float | None] = []
        for name, reply in zip(task, replies, strict=True):
            same = left.get((name, reply))
            found.append(paid(same.pop(0)) if same else None)
        return found


class _Once:
    """Gives each sibling the next of the replies to its task, once, and gives up then."""

    name = "once"

    def __init__(self, replies: dict[str, list[str]]) -> None:
        self._replies = replies
        self._given: dict[tuple[str, int], str] = {}

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        if turn_of(conversation):
            return Turn(text="")
        key = (task, seed)
        if key not in self._given:  # the house's second attempt at an episode gets the same reply
            left = self._replies[task]
            self._given[key] = left.pop(0) if left else ""
        return Turn(text=self._given[key])

    async def aclose(self) -> None:
        """Holds nothing."""


def _key(prompt: object) -> str:
    return json.dumps(prompt, sort_keys=True, ensure_ascii=False)


def _text(completion: Any) -> str:
    """A completion as TRL has it: text, or a conversation of one message."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"] or "")

