"""The learner behind `quintain train`: it repairs programs, first as it was shown, then by trial, error and feedback.

A state is a task with the attempts made at it so far. From each state of a batch the policy draws G edits; each becomes
a program that is executed, and the group's rewards, compared with each other, move the policy (GRPO with PPO's clip).
Most draws of a group are alike, so that few programs make many comparisons. One draw of a group is led: to an edit
whose program solved the task before (the faults of a function share their exam, and from each an edit leads to the
function), or else to the likeliest that nobody has tried, so that what is hard is found out and not forgotten. `fresh`
bounds how many new ones a group may ask for: the draws beyond it are not measured, and like a reward that the house
lost they are in no baseline. An edit that failed leads to a further state, whose features tell what it did to the
tests: so the policy learns to try again.

What a step does depends on the seed, the step's number, the parameters, the states that wait and what earlier steps
executed, and on nothing else: what is executed for an evaluation, or lies in the memory's file, it does not know.
"""

from __future__ import annotations

import asyncio
import copy
import math
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from quintain.train.advantage import grpo
from quintain.train.control import Control, controlled
from quintain.train.judging import Judged, Lost, Memory
from quintain.train.loop import TwoStages
from quintain.train.loss import aggregate, ppo_clip
from quintain.train.repair_features import Features
from quintain.train.repair_policy import Batch, RepairNet, likeliest
from quintain.train.repair_problem import MOST_ATTEMPTS, Demo, Drawn, Problem, RepairSettings, lead_of
from quintain.types import Task

#: So many epochs a task rests when every draw solved it.
REST_EPOCHS = 3


class RepairLearner(TwoStages):
    """Learns from `demos`, then from rewards; see `RepairSettings`. `tasks` are those to train on, `held_out` those to
    be evaluated on only. Rewards come through `memory`. Torch is set to one thread in this process."""

    def __init__(
        self, tasks: Sequence[Task], held_out: Sequence[Task], demos: Sequence[Demo], memory: Memory,
        settings: RepairSettings | None = None, *, exams: Mapping[str, str] | None = None,
        practised: Sequence[Task] = (),
    ) -> None:
        self.settings: RepairSettings = settings or RepairSettings()
        self.memory = memory
        known = exams or {}
        self.problems = {task.id: Problem(task, known.get(task.id)) for task in tasks}
        self.held_out = [Problem(task, known.get(task.id)) for task in held_out]
        self.practised = [Problem(task, known.get(task.id)) for task in practised]
        self._outcomes: dict[str, bool] = {}  # what steps executed, by digest, and whether it solved its task
        self._demos = list(demos)
        self._examples: list[tuple[str, tuple[int, ...], int]] = []
        torch.set_num_threads(1)  # more make so small a network no faster, and its sums depend on how many there are
        torch.manual_seed(self.settings.seed)
        self.net = RepairNet(width=self.settings.width, layers=self.settings.layers, drop=self.settings.drop)
        self.net.eval()  # but while it learns
        self.mean = copy.deepcopy(self.net)  # of its parameters so far; what is evaluated
        self._optimiser = self._fresh_optimiser(self.settings.sft_rate)
        self._lost = Lost(self.settings.house_failures, seed=self.settings.seed)
        self._waiting: list[tuple[str, list[int]]] = []  # states after a failed attempt, oldest first
        self._ahead: Drawn | None = None  # drawn before the last update, where staleness allows it
        self._came_ahead: list[list[Judged | None]] | None = None  # and what that came to
        self._at = 0  # how many tasks have been looked at for a batch
        self._rests: dict[str, int] = {}  # tasks that are mastered, until after this epoch
        self._order: tuple[int, list[str]] = (-1, [])
        self.step = 0
        self.overlapped_seconds = 0.0  # of the time in sandboxes: while an update was made

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.net.parameters())

    # --- what decides the next step -------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that decides the next step, for a checkpoint; tensors, numbers and texts only."""
        return {
            "step": self.step, "net": self.net.state_dict(), "mean": self.mean.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "waiting": msgspec.json.encode(self._waiting).decode(), "ahead": msgspec.json.encode(self._ahead).decode(),
            "seen": msgspec.json.encode({id: sorted(p.after) for id, p in self.problems.items() if p.after}).decode(),
            "at": self._at, "rests": msgspec.json.encode(self._rests).decode(),
            "settings": self.told_settings,
        }

    async def load(self, state: Mapping[str, Any]) -> None:
        """Go on from there. What the waiting states have seen is asked of the memory again. Raises ValueError for a
        state of other settings."""
        self.expect_own(state)
        self.step = state["step"]
        self.net.load_state_dict(state["net"])
        self.mean.load_state_dict(state["mean"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._waiting = msgspec.json.decode(state["waiting"], type=list[tuple[str, list[int]]])
        self._ahead = msgspec.json.decode(state["ahead"], type=Drawn | None)
        self._at, self._rests = state["at"], msgspec.json.decode(state["rests"], type=dict[str, int])
        seen = msgspec.json.decode(state["seen"], type=dict[str, list[int]])
        await self._judge([(task, pick) for task, picks in seen.items() for pick in picks])

    # --- learning from demonstrations -----------------------------------------------------------------------------

    async def prepare(self) -> int:
        """Execute the demonstrations, keep those that solve their task, and show a third of them after a wrong attempt
        too, executed as well. How many demonstrations stayed."""
        dice = random.Random(f"{self.settings.seed} demos")
        shown = [(demo.task, self.problems[demo.task].pick_of(demo.edit)) for demo in self._demos]
        right = [pair for pair, judged in zip(shown, await self._judge(shown), strict=True) if judged.solved]
        wrong = []
        for task, pick in right[::3]:
            others = [n for n in range(len(self.problems[task].case.code.edits)) if n != pick]
            if others:
                wrong.append((task, dice.choice(others), pick))
        seen = await self._judge([(task, other) for task, other, _ in wrong])
        self._examples = [(task, (), pick) for task, pick in right]
        self._examples += [(task, (other,), pick) for (task, other, pick), judged in zip(wrong, seen, strict=True)
                           if judged.verdict is not None and not judged.solved]
        return len(right)

    def _imitate(self) -> dict[str, float]:
        dice = self._dice("sft")
        if not self._examples:
            raise ValueError("expected demonstrations that solve their tasks, found none: prepare() comes first")
        chosen = dice.sample(self._examples, min(32, len(self._examples)))
        logp = self._read(
            [self.problems[task].features(tried, dice, hidden=self.settings.hidden) for task, tried, _ in chosen])
        right = torch.tensor([pick for *_, pick in chosen])
        loss = -logp.gather(1, right[:, None]).mean()
        ahead = self.settings.sft_steps - self.step
        self._descend(loss, self.settings.sft_rate * min(1.0, (self.step + 1) / 20, max(0.1, ahead / 50)))
        return {"loss": loss.item(), "accuracy": (logp.argmax(1) == right).float().mean().item()}

    # --- learning from rewards ------------------------------------------------------------------------------------

    async def update(self) -> dict[str, float]:
        """One step, and what is to be told of it."""
        if self.stage == "sft":
            told = self._imitate()
            self.step += 1
            if self.stage == "rl":  # what it learnt stays, what the optimiser remembers of the way does not
                self._optimiser = self._fresh_optimiser(self.settings.rate)
            return told
        return await (self._reinforce() if self.settings.staleness == 0 else self._reinforce_ahead())

    async def _reinforce(self) -> dict[str, float]:
        drawn = self._draw(self.step)
        judged = await self._judge_drawn(drawn)
        told = self._learn(drawn, self._rewards(drawn, judged))
        self._lead_on(drawn, judged)
        self.step += 1
        return told

    async def _reinforce_ahead(self) -> dict[str, float]:
        """The same with the next batch drawn before this one's update: its programs run while the update is made."""
        drawn = self._ahead or self._draw(self.step)
        judged = self._came_ahead or await self._judge_drawn(drawn)  # a run that goes on asks its memory
        rewards = self._rewards(drawn, judged)
        self._lead_on(drawn, judged)
        last = self.step + 1 == self.settings.sft_steps + self.settings.rl_steps
        self._ahead = None if last else self._draw(self.step + 1)
        judged_before, began = self.memory.seconds, time.monotonic()
        async with asyncio.TaskGroup() as both:
            judging = None if self._ahead is None else both.create_task(self._judge_drawn(self._ahead))
            learning = both.create_task(asyncio.to_thread(self._learn, drawn, rewards))
            await learning
            learnt_for = time.monotonic() - began
        self._came_ahead = None if judging is None else judging.result()
        self.overlapped_seconds += min(learnt_for, self.memory.seconds - judged_before)
        self.step += 1
        return learning.result()

    def _draw(self, step: int) -> Drawn:
        """Choose the states of a step, and draw from each."""
        dice = random.Random(f"{self.settings.seed} draw {step}")
        states = self._states()
        with torch.no_grad():
            logp = self.net(Batch([self.problems[task].features(tried, dice) for task, tried in states]))
        picks, logprobs, measured = [], [], []
        lost = iter(self._lost.among(step, len(states) * self.settings.group))
        for (task, tried), row in zip(states, logp.tolist(), strict=True):
            chances = [math.exp(value) for value in row]
            drawn = dice.choices(range(len(row)), chances, k=self.settings.group)
            outcomes = self.problems[task].outcomes(self._outcomes.get)
            lead = lead_of(outcomes, tried, row[: len(self.problems[task].case.code.edits)])
            if lead is not None and lead not in drawn:
                drawn[0] = lead
            picks.append(drawn)
            logprobs.append([row[pick] for pick in drawn])
            asked = self._to_measure(outcomes, drawn)
            measured.append([not next(lost) and pick in asked for pick in drawn])
        return Drawn(step=step, tasks=[task for task, _ in states], tried=[list(tried) for _, tried in states],
                     picks=picks, logprobs=logprobs, measured=measured)

    def _states(self) -> list[tuple[str, list[int]]]:
        """Some that wait for another attempt, the newest first, then tasks in an order that each epoch shuffles; those
        that rest are passed over."""
        again = min(len(self._waiting), int(self.settings.batch * self.settings.again))
        states = [self._waiting.pop() for _ in range(again)]
        del self._waiting[: max(0, len(self._waiting) - 4 * self.settings.batch)]
        while len(states) < self.settings.batch:
            epoch, place = divmod(self._at, len(self.problems))
            self._at += 1
            task = self._in_order(epoch)[place]
            if self._rests.get(task, -1) < epoch:
                states.append((task, []))
        return states

    def _in_order(self, epoch: int) -> list[str]:
        """The tasks in the order of an epoch."""
        if self._order[0] != epoch:
            ids = list(self.problems)
            self._order = (epoch, random.Random(f"{self.settings.seed} epoch {epoch}").sample(ids, len(ids)))
        return self._order[1]

    async def _judge_drawn(self, drawn: Drawn) -> list[list[Judged | None]]:
        """What each draw came to, [B, G]; None for one that was lost, or was one new program too many."""
        asked = [(task, pick) for task, picks, row in zip(drawn.tasks, drawn.picks, drawn.measured, strict=True)
                 for pick, yes in zip(picks, row, strict=True) if yes]
        found = iter(await self._judge(asked))
        return [[next(found) if yes else None for yes in row] for row in drawn.measured]

    def _to_measure(self, outcomes: Mapping[int, bool], picks: Sequence[int]) -> set[int]:
        """Which edits of a group are asked for: those that were executed before, and as many new ones as `fresh` and
        `often` allow, first those that were drawn most."""
        count = Counter(picks)
        known = {pick: outcomes[pick] for pick in count if pick in outcomes}
        least = self.settings.often if len(set(known.values())) == 2 else 1
        new = [pick for pick, times in count.most_common() if pick not in known and times >= least]
        return known.keys() | set(new[: self.settings.fresh])

    def _rewards(self, drawn: Drawn, judged: Sequence[Sequence[Judged | None]]) -> list[list[float | None]]:
        """The rewards that are trained on, [B, G]."""
        rewards = [[None if one is None else one.reward for one in row] for row in judged]
        if self.settings.naive:
            lost = iter(self._lost.among(drawn.step, len(drawn.tasks) * self.settings.group))
            rewards = [[0.0 if next(lost) else reward for reward in row] for row in rewards]
        if self.settings.control is not Control.NONE:
            flat = [reward for row in rewards for reward in row]
            dealt = iter(controlled(flat, self.settings.control, seed=self.settings.seed * 1_000_003 + drawn.step))
            rewards = [[next(dealt) for _ in row] for row in rewards]
        return rewards

    def _learn(self, drawn: Drawn, rewards: Sequence[Sequence[float | None]]) -> dict[str, float]:
        """Move the parameters by a batch whose rewards are known."""
        advantages = [grpo(row) for row in rewards]
        mask = torch.tensor([[float(a is not None) for a in row] for row in advantages])
        advantage = torch.tensor([[a or 0.0 for a in row] for row in advantages])
        useful = [any(row) for row in advantages]
        told = self._told(rewards, useful)
        if not any(useful):
            return told
        picks, old = torch.tensor(drawn.picks), torch.tensor(drawn.logprobs)
        dice = random.Random(f"{self.settings.seed} learn {drawn.step}")
        entropy = loss = new = torch.zeros(())
        for _ in range(self.settings.passes):
            logp = self._read([self.problems[task].features(tried, dice, hidden=self.settings.hidden)
                               for task, tried in zip(drawn.tasks, drawn.tried, strict=True)])
            entropy = _entropy(logp)
            new = logp.gather(1, picks)
            loss = aggregate(ppo_clip(new, old, advantage, mask), mask) - self.settings.entropy * entropy
            self._descend(loss, self._rate())
        apart = (old - new.detach()) * mask  # of the draws, in nats: before the last pass
        return {**told, "entropy": entropy.item(), "loss": loss.item(),
                "kl": (apart.sum() / mask.sum().clamp(min=1.0)).item()}

    def _told(self, rewards: Sequence[Sequence[float | None]], useful: Sequence[bool]) -> dict[str, float]:
        flat = [reward for row in rewards for reward in row]
        known = [reward for reward in flat if reward is not None]
        return {
            "reward": sum(known) / len(known) if known else 0.0, "unmeasured": 1 - len(known) / len(flat),
            "useless": 1 - sum(useful) / len(useful),
        }

    def _lead_on(self, drawn: Drawn, judged: Sequence[Sequence[Judged | None]]) -> None:
        """From a state whose likeliest executed draw failed, that one leads to a further state; a task that every draw
        solved at the first attempt rests for some epochs."""
        for task, tried, picks, logprobs, row in zip(
            drawn.tasks, drawn.tried, drawn.picks, drawn.logprobs, judged, strict=True,
        ):
            measured = [one for one in row if one is not None and one.verdict is not None]
            if not tried and measured and all(one.solved for one in measured):
                self._rests[task] = self._at // len(self.problems) + REST_EPOCHS
            if len(tried) + 1 >= MOST_ATTEMPTS:
                continue
            failed = [(logprob, -pick) for pick, logprob, one in zip(picks, logprobs, row, strict=True)
                      if one is not None and one.verdict is not None and not one.solved]
            if failed:
                self._waiting.append((task, [*tried, -max(failed)[1]]))

    def _fresh_optimiser(self, rate: float) -> torch.optim.AdamW:
        return torch.optim.AdamW(self.net.parameters(), lr=rate, weight_decay=0.01, fused=True)  # a quarter of the time

    def _rate(self) -> float:
        done = self.step - self.settings.sft_steps
        ahead = self.settings.rl_steps - done
        return self.settings.rate * min(1.0, (done + 1) / 20, max(0.1, ahead / (0.3 * self.settings.rl_steps + 1)))

    def _descend(self, loss: Tensor, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self._optimiser.step()
        moves = 1.0 - min(self.settings.average, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            for mean, now in zip(self.mean.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, moves)

    def _read(self, rows: Sequence[Features]) -> Tensor:
        """Log-probabilities to learn from, [B, C]: some of what goes on inside is left out, the same each time that
        this step is made."""
        torch.manual_seed(self.settings.seed * 1_000_003 + self.step)
        self.net.train()
        try:
            return self.net(Batch(rows))
        finally:
            self.net.eval()

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{self.settings.seed} {what} {self.step}")

    async def _judge(self, asked: Sequence[tuple[str, int]]) -> list[Judged]:
        problems = self.problems
        judged = await self.memory.judge([problems[task].attempted(pick) for task, pick in asked])
        for (task, pick), one in zip(asked, judged, strict=True):
            problems[task].saw(pick, one)
            if one.verdict is not None:
                self._outcomes[problems[task].attempted(pick).digest] = one.solved
        return judged

    # --- how good it is -------------------------------------------------------------------------------------------

    async def evaluate(self, count: int | None = None) -> dict[str, float]:
        """Of the held-out tasks (the first `count`) the shares that are solved at the first attempt and within three,
        each attempt the likeliest edit after what the earlier ones came to; where all are asked for, of the practised
        ones too. A task that the house could not judge is in no share."""
        told = await self._solved(self.held_out[:count])
        if count is None and self.practised:
            told |= {f"practised_{name}": share for name, share in (await self._solved(self.practised)).items()}
        return told

    async def _solved(self, problems: Sequence[Problem]) -> dict[str, float]:
        tried: list[list[int]] = [[] for _ in problems]
        solved_at: list[int | None] = [None] * len(problems)
        unknown: set[int] = set()
        for nth in range(MOST_ATTEMPTS):
            left = [n for n in range(len(problems)) if solved_at[n] is None and n not in unknown
                    and len(tried[n]) < len(problems[n].case.code.edits)]
            if not left:
                break
            picks = likeliest(self.mean, [problems[n].features(tried[n]) for n in left])
            asked = [problems[n].attempted(pick) for n, pick in zip(left, picks, strict=True)]
            for n, pick, judged in zip(left, picks, await self.memory.judge(asked), strict=True):
                problems[n].saw(pick, judged)
                tried[n].append(pick)
                if judged.verdict is None:
                    unknown.add(n)
                elif judged.solved:
                    solved_at[n] = nth
        known = [at for n, at in enumerate(solved_at) if n not in unknown]
        total = max(1, len(known))
        return {"pass_at_1": sum(at == 0 for at in known) / total,
                "within_3": sum(at is not None for at in known) / total, "tasks": float(len(known))}


def _entropy(logp: Tensor) -> Tensor:
    """Mean entropy in nats of rows of log-probabilities."""
    return -(logp.exp() * logp.clamp(min=-50.0)).sum(-1).mean()
