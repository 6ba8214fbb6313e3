"""A language model that learns from executed work on this machine: first as it was shown, then by trial, error and
feedback, in episodes of several turns.

Each step plays a group of episodes of each of a few tasks; the groups' rewards, compared with each other, move the
upper layers (GRPO with PPO's clip). Tokens in, tokens out: the ids and log-probabilities are the sampler's own, and
`drift` tells how far the trainer's are from them before the update.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from quintain.policy import LocalPolicy, LocalSampling, turn_of
from quintain.tasks import Item
from quintain.train.control import with_control
from quintain.train.credit import by_episode
from quintain.train.filter import sift
from quintain.train.lm import LmSettings, Shown
from quintain.train.loop import TwoStages
from quintain.train.loss import ppo_clip
from quintain.train.packing import Packed, logits_of, packed
from quintain.train.stage import Player
from quintain.train.trajectory import Trajectory, rows_of
from quintain.types import Episode, Message, Turn

#: An evaluation's round, beyond that of any step.
_EVALUATION = 1 << 40


class LmLearner(TwoStages):
    """See `lm_learner`. Torch's threads are as they are found."""

    def __init__(
        self, model: Any, tokenizer: Any, player: Player, items: Sequence[Item],
        held_out: Mapping[str, Sequence[Item]], shown: Sequence[Shown], settings: LmSettings | None = None,
    ) -> None:
        self.settings: LmSettings = settings or LmSettings()
        self._model, self._tokenizer, self._player = model, tokenizer, player
        self._items, self._held_out, self._shown = list(items), held_out, list(shown)
        torch.manual_seed(self.settings.seed)
        asked = self.settings
        self._trained = _trained(model, asked.trained_layers)
        self._exact = self._trained  # as the optimiser moves them
        if asked.precision == "bfloat16":
            self._exact = {name: value.detach().clone() for name, value in self._trained.items()}
            model.to(torch.bfloat16)
        self._optimiser = self._fresh_optimiser(asked.sft_rate)
        dials = LocalSampling(
            temperature=asked.temperature, max_tokens=asked.max_tokens, batch=asked.batch * asked.group,
            window_seconds=0.02)
        self._sampler = LocalPolicy(model, tokenizer, sampling=dials)
        self._greedy = LocalPolicy(model, tokenizer, sampling=msgspec.structs.replace(dials, temperature=0.0))
        self._examples: list[tuple[list[int], list[bool]]] = []
        self.step = 0
        self.executions = 0

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self._model.parameters())

    @property
    def trained_parameters(self) -> int:
        return sum(p.numel() for p in self._trained.values())

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "trained": {name: value.detach() for name, value in self._exact.items()},
                "optimiser": self._optimiser.state_dict(), "executions": self.executions,
                "settings": self.told_settings}

    async def load(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError for a state of other settings."""
        self.expect_own(state)
        self.step, self.executions = state["step"], state["executions"]
        with torch.no_grad():
            for name, value in self._exact.items():
                value.copy_(state["trained"][name])
        self._take_over()
        self._optimiser.load_state_dict(state["optimiser"])

    def save(self, folder: Path) -> None:
        """The model as transformers saves it, for whoever serves it."""
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    # --- learning from demonstrations -----------------------------------------------------------------------------

    async def prepare(self) -> int:
        """Play the demonstrations and keep those that solve their task; how many stayed."""
        policy = _Showing(self._shown)
        solved = {episode.task: episode.solved for episode in await self._play([s.item for s in self._shown], policy)}
        end = self._tokenizer.eos_token_id
        for shown in self._shown:
            if not solved.get(shown.item.task.id):
                continue
            for said in policy.asked[shown.item.task.id]:
                prompt = self._sampler.renderer.opening(said)
                reply = [*self._tokenizer.encode(shown.right, add_special_tokens=False), end]
                self._examples.append(([*prompt, *reply], [False] * len(prompt) + [True] * len(reply)))
        return sum(solved.values())

    def _imitate(self) -> dict[str, float]:
        if not self._examples:
            raise ValueError("expected demonstrations that solve their tasks, found none: prepare() comes first")
        asked = self.settings
        order = random.Random(f"{asked.seed} shown {self.step * asked.sft_batch // len(self._examples)}").sample(
            self._examples, len(self._examples))
        at = self.step * asked.sft_batch % len(order)
        chosen = order[at: at + asked.sft_batch]
        one = Packed(chosen)
        self._model.train()
        logp = logits_of(self._model, one).log_softmax(-1)
        loss = -logp[range(len(one.targets)), one.targets].mean()
        self._gather(loss)
        self._descend(asked.sft_rate * min(1.0, (self.step + 1) / 4))
        return {"loss": loss.item()}

    # --- learning from rewards ------------------------------------------------------------------------------------

    async def update(self) -> dict[str, float]:
        if self.stage == "sft":
            told = self._imitate()
            self.step += 1
            if self.stage == "rl":
                self._optimiser = self._fresh_optimiser(self.settings.rate)
            return told
        self._sampler.policy_version = str(self.step)
        dice = random.Random(f"{self.settings.seed} tasks {self.step}")
        episodes = await self._play(
            dice.sample(self._items, self.settings.batch), self._sampler, size=self.settings.group, round=self.step)
        told = self._learn(episodes)
        self.step += 1
        return told

    def _learn(self, episodes: Sequence[Episode]) -> dict[str, float]:
        rows = [row for episode in episodes if any(turn.output_token_ids for turn in episode.turns)
                for row in rows_of(episode)]
        rewards = [row.reward for row in rows if row.reward is not None and not row.row]
        sifted = sift(with_control(rows, self.settings.control, seed=self.settings.seed * 1_000_003 + self.step))
        groups: dict[str, list[Trajectory]] = {}
        for row in by_episode(sifted.kept_B):
            if row.advantages is not None:
                groups.setdefault(row.group, []).append(row)
        told = {
            "reward": sum(rewards) / len(rewards) if rewards else 0.0,
            "solved": sum(episode.solved for episode in episodes) / max(1, len(episodes)),
            "first": sum(episode.solved and len(episode.turns) == 1 for episode in episodes) / max(1, len(episodes)),
            "useless": 1 - len(groups) / max(1, self.settings.batch),
            "unmeasured": sum(episode.reward is None for episode in episodes) / max(1, len(episodes)),
        }
        return {**told, **self._descended(list(groups.values()))} if groups else told

    def _descended(self, groups: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
        """One update by groups of rows with advantages, mean over all sampled tokens."""
        asked = self.settings
        total = sum(row.trained_tokens for group in groups for row in group)
        entropy = drift = 0.0
        self._model.train()
        for group in groups:
            one = packed(group)
            logits = logits_of(self._model, one) / asked.temperature
            logp = logits.log_softmax(-1)
            chosen = logp[range(len(one.targets)), one.targets][None]
            old, advantage = _of_tokens(group, "logprobs"), _of_tokens(group, "advantages")
            losses = ppo_clip(chosen, old, advantage, torch.ones_like(old), low=asked.clip_low, high=asked.clip_high)
            nats = -(logp.exp() * logp).sum()
            loss = (losses.sum() - asked.entropy * nats) / total
            self._gather(loss)
            entropy += nats.item() / total
            drift += (chosen.detach() - old).abs().sum().item() / total
        self._descend(asked.rate * min(1.0, (self.step - asked.sft_steps + 1) / 4))
        return {"entropy": entropy, "drift": drift, "tokens": float(total)}

    def _fresh_optimiser(self, rate: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self._exact.values(), lr=rate, weight_decay=0.0)

    def _gather(self, loss: Tensor) -> None:
        """The loss's gradients, added to those of the update in full precision."""
        loss.backward()
        if self._exact is self._trained:
            return
        for name, value in self._trained.items():
            if value.grad is not None:
                exact, grad = self._exact[name], value.grad.float()
                exact.grad = grad if exact.grad is None else exact.grad + grad
                value.grad = None

    def _descend(self, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(self._exact.values(), 1.0)
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._take_over()

    def _take_over(self) -> None:
        """The model's weights from those that the optimiser moves."""
        if self._exact is not self._trained:
            with torch.no_grad():
                for name, value in self._trained.items():
                    value.copy_(self._exact[name])

    # --- how good it is -------------------------------------------------------------------------------------------

    async def evaluate(self, count: int | None = None) -> dict[str, float]:
        """Of each held-out set (its first `count` tasks) the shares solved at the first attempt and at all, with the
        likeliest tokens. What the house could not judge is in neither."""
        told: dict[str, float] = {}
        for name, items in self._held_out.items():
            episodes = [episode for episode in await self._play(items[:count], self._greedy, round=_EVALUATION)
                        if episode.broken is None]
            total, head = max(1, len(episodes)), f"{name}_" if name else ""
            first = sum(episode.solved and len(episode.turns) == 1 for episode in episodes)
            told |= {f"{head}pass_at_1": first / total, f"{head}solved": sum(e.solved for e in episodes) / total,
                     f"{head}tasks": float(len(episodes))}
        return told

    async def _play(self, items: Sequence[Item], policy: Any, *, size: int = 1, round: int = 0) -> list[Episode]:
        found: list[Episode] = []
        async with self._player.collecting(items, policy, size=size, round=round) as groups:
            async for group in groups:
                found += group.episodes
        self.executions += sum(len(episode.turns) for episode in found)
        return sorted(found, key=lambda episode: episode.id)


class _Showing:
    """Says what is to be demonstrated, and remembers what it was said to: the opening, and where a wrong attempt comes
    first, the feedback on it."""

    name = "showing"

    def __init__(self, shown: Sequence[Shown]) -> None:
        self._shown = {one.item.task.id: one for one in shown}
        self.asked: dict[str, list[tuple[Message, ...]]] = {}

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        shown, nth = self._shown[task], turn_of(conversation)
        kept = self.asked.setdefault(task, [])
        if nth < len(kept):  # the house's second attempt at the episode
            del kept[nth:]
        kept.append(tuple(conversation))
        return Turn(text=shown.wrong if shown.wrong is not None and nth == 0 else shown.right if nth < 2 else "")

    async def aclose(self) -> None:
        """Holds nothing."""


def _trained(model: Any, layers: int) -> dict[str, Tensor]:
    """The parameters of the upper layers and the last norm; all others are frozen. Raises ValueError for a model whose
    layers are not found."""
    decoder = model.get_decoder()
    if not hasattr(decoder, "layers"):
        raise ValueError(f"expected a model of layers, found {type(decoder).__name__}")
    upper = {id(p) for layer in decoder.layers[-layers:] for p in layer.parameters()}
    if hasattr(decoder, "norm"):
        upper |= {id(p) for p in decoder.norm.parameters()}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in upper)
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in upper}


def _of_tokens(group: Sequence[Trajectory], name: str) -> Tensor:
    """A value of each sampled token of a group's rows, [1, M], in the order of `Packed`."""
    found: list[float] = []
    for row in group:
        values = getattr(row, name)
        if values is None:
            raise ValueError(f"trajectory {row.episode}: expected {name}, found none")
        found += [value for value, sampled in zip(values, row.loss_mask, strict=True) if sampled]
    return torch.tensor([found])
