"""A batch of 8 rollouts whose tools take a second each: through our rollout_func, and in TRL's own tool loop.

Ours: `TrlRollouts` over episodes of one turn, in which a command sleeps for a second in a native sandbox of its own;
the replies are sampled by a model made on the spot. TRL's: the same second as a tool of an `environment_factory`, one
training step. --quick leaves TRL's own loop out. Needs the extra `trl`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

from _machine import finish

sys.path[0] = str(Path(__file__).parent.parent)  # tests/train/tiny.py makes the model, and this script is no `trl`
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
SIZE = 8
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


def ours(seconds: float) -> dict[str, float]:
    from tests.train import tiny

    from quintain.rollout import Collector
    from quintain.sandbox import NativeBackend
    from quintain.testing import FakeEnvironment, fake_item
    from quintain.train import Asked, Stage, TrlRollouts
    from quintain.types import Limits, Scopes

    class Tools(FakeEnvironment):
        """Each turn's run is a command in a sandbox; what a reply is worth is written in it."""

        def __init__(self, backend: NativeBackend) -> None:
            super().__init__()
            self._backend = backend

        async def run(self, item, program, *, episode, limits):
            async with self._backend.open() as (sandbox,):
                outcome = await sandbox.run(["sleep", str(seconds)])
            assert outcome.exit_code == 0
            return await super().run(item, program, episode=episode, limits=limits)

    @asynccontextmanager
    async def opened():
        async with NativeBackend() as backend:
            yield Collector(Tools(backend), lambda event: None, concurrency=SIZE)

    words = tiny.tokenizer(("right",))
    model = tiny.saying(words, ("right",))
    item = fake_item("a", limits=Scopes(episode=Limits(turns=1)))
    asked = Asked([item], FakeEnvironment().opening)
    # what a rollout_func uses of TRL's trainer
    trainer = SimpleNamespace(
        model=model, processing_class=words, max_completion_length=8, args=SimpleNamespace(temperature=1.0),
        accelerator=SimpleNamespace(unwrap_model=lambda model: model), state=SimpleNamespace(global_step=0))
    with Stage(opened) as stage:
        rollouts = TrlRollouts(stage, asked)
        rollouts([asked.rows[0]["prompt"]], trainer)  # warm
        began = time.perf_counter()
        out = rollouts([asked.rows[0]["prompt"]] * SIZE, trainer)
        wall = time.perf_counter() - began
    assert len(out["completion_ids"]) == SIZE and all(out["solved"])
    return {"rollout_func_seconds": round(wall, 3)}


def trls(seconds: float) -> dict[str, float]:
    import trl
    from datasets import Dataset
    from tests.train import tiny
    from trl import GRPOConfig, GRPOTrainer

    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    words = tiny.tokenizer((CALL,), template=template)

    class Looking:
        def reset(self, **row: object) -> None:
            """Nothing to reset."""

        def look(self) -> str:
            """
            Look around, which takes a while.

            Returns:
                What there is to be seen.
            """
            time.sleep(seconds)
            return "nothing"

        def get_reward(self) -> float:
            return 1.0

    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            output_dir=folder, max_steps=1, per_device_train_batch_size=SIZE, num_generations=SIZE, use_cpu=True,
            max_completion_length=256, max_tool_calling_iterations=1, report_to="none", save_strategy="no",
            disable_tqdm=True, bf16=False)
        rows = Dataset.from_list([{"prompt": [{"role": "user", "content": "look"}]}] * SIZE)
        trainer = GRPOTrainer(
            tiny.saying(words, (CALL,)), args=args, train_dataset=rows, processing_class=words,
            environment_factory=Looking)
        began = time.perf_counter()
        trainer.train()
        return {"trl_step_seconds": round(time.perf_counter() - began, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave TRL's own loop out")
    parser.add_argument("--seconds", type=float, default=1.0, help="what one tool call takes")
    given = parser.parse_args()
    try:
        import torch
    except ImportError:
        finish(skipped="needs the extra trl: pip install quintain[trl]")
        return
    torch.set_num_threads(1)
    figures = ours(given.seconds)
    if not given.quick:
        figures |= trls(given.seconds)
    finish(rollouts=SIZE, tool_seconds=given.seconds, **figures)


if __name__ == "__main__":
    main()
