"""A whole training by TRL's GRPOTrainer over our episodes: the model of a user's size, on whatever accelerate finds.

The model samples in this process, or at a server whose address is given (vLLM, or `serve.ModelServer`): that one gets
the new weights after each update, by way of a folder that both see. Needs the extra `trl`; nothing is imported before
`train_with_trl` is called. Written against TRL 1.16.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from quintain.policy import OpenAIPolicy, Sampling
from quintain.train.loop import Log, Row
from quintain.train.publish import ServedWeights
from quintain.train.stage import Stage
from quintain.train.trl import Asked, TrlRollouts, episode_reward

#: How TRL's figures are called in our log.
_NAMES = {
    "reward": "reward", "reward_std": "reward_std", "loss": "loss", "entropy": "entropy", "kl": "kl",
    "grad_norm": "grad_norm", "learning_rate": "rate", "frac_reward_zero_std": "useless",
    "completions/mean_length": "length", "quintain/solved": "solved", "quintain/house_failures": "house_failures",
}


class TrlPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training. `model` is a folder or a name that transformers loads; each of `steps` updates takes `batch`
    episodes, `group` of each task, of at most `max_tokens` tokens behind the prompt. `lora` is the rank of adapters
    that are trained instead of the weights. With `server` (`http://host:8000/v1`) that one samples, under the name
    `served_model`. `more` are further arguments of TRL's GRPOConfig, as JSON texts."""

    model: str
    steps: int = 100
    group: int = 8
    batch: int = 16
    rate: float = 1e-6
    max_tokens: int = 512
    temperature: float = 1.0
    lora: int | None = None
    server: str | None = None
    served_model: str | None = None
    seed: int = 0
    save_every: int = 50
    keep: int = 2
    report_to: tuple[str, ...] = ()
    more: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.group < 2 or self.batch < self.group or self.batch % self.group:
            raise ValueError(f"expected a group of at least 2 and a batch that is a multiple of it, found {self.group} "
                             f"and {self.batch}")


class TrlTrained(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the folder of the model (of the adapters, with `lora`), and the figures of the last update."""

    model: Path
    steps: int
    parameters: int
    trained_parameters: int
    last: dict[str, float]


def train_with_trl(
    stage: Stage, asked: Asked, folder: Path, plan: TrlPlan, *, resume: bool = False,
    watch: Callable[[Row], None] = lambda row: None,
) -> TrlTrained:
    """Train to the end, or on from TRL's newest checkpoint below `folder`. Raises ModuleNotFoundError without TRL,
    ValueError for arguments that TRL does not take, and what TRL raises."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOTrainer

    words = AutoTokenizer.from_pretrained(plan.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(plan.model)
    log = Log(folder / "metrics.jsonl")
    server = _Server(stage, plan, folder / "weights") if plan.server is not None else None
    callbacks = [_told(log, watch), *([server.callback()] if server is not None else [])]
    try:
        trainer = GRPOTrainer(
            model, reward_funcs=[episode_reward], args=_arguments(plan, folder), processing_class=words,
            train_dataset=Dataset.from_list(asked.rows), rollout_func=TrlRollouts(
                stage, asked, server.policy if server is not None else None),
            peft_config=_adapters(plan.lora), callbacks=callbacks)
        if server is not None:
            server.publish(trainer.model, 0)
        checkpoints = list((folder / "trl").glob("checkpoint-*"))
        trainer.train(resume_from_checkpoint=True if resume and checkpoints else None)
    finally:
        if server is not None:
            server.close()
    trainer.save_model(str(folder / "model"))
    words.save_pretrained(str(folder / "model"))
    rows = log.rows()
    sizes = [(p.numel(), p.requires_grad) for p in trainer.model.parameters()]
    return TrlTrained(
        model=folder / "model", steps=trainer.state.global_step, parameters=sum(size for size, _ in sizes),
        trained_parameters=sum(size for size, trained in sizes if trained), last=rows[-1].train if rows else {})


def _arguments(plan: TrlPlan, folder: Path) -> Any:
    import torch
    from trl import GRPOConfig

    accelerated = torch.cuda.is_available()
    known: dict[str, Any] = {
        "output_dir": str(folder / "trl"), "max_steps": plan.steps, "per_device_train_batch_size": plan.batch,
        "num_generations": plan.group, "max_completion_length": plan.max_tokens, "learning_rate": plan.rate,
        "temperature": plan.temperature, "logging_steps": 1, "seed": plan.seed, "bf16": accelerated,
        "use_cpu": not accelerated, "save_steps": plan.save_every, "save_total_limit": plan.keep,
        "report_to": list(plan.report_to) or "none", "disable_tqdm": True,
    }
    try:
        return GRPOConfig(**known | {name: json.loads(value) for name, value in plan.more.items()})
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected arguments of TRL's GRPOConfig: {error}") from error


def _adapters(rank: int | None) -> Any:
    if rank is None:
        return None
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def _told(log: Log, watch: Callable[[Row], None]) -> Any:
    """A callback that writes TRL's figures into our log."""
    from transformers import TrainerCallback

    class Told(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            log.cut_after(state.global_step)

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **more: Any,
        ) -> None:
            told = {ours: float(logs[name]) for name, ours in _NAMES.items() if logs and name in logs}
            if "reward" in told:
                row = Row(step=state.global_step, stage="rl", train=told, unix_seconds=time.time())
                log.append(row)
                watch(row)

    return Told()


class _Server:
    """The server that samples, and the weights that it gets."""

    def __init__(self, stage: Stage, plan: TrlPlan, folder: Path) -> None:
        url = (plan.server or "").rstrip("/")
        sampling = Sampling(temperature=plan.temperature, max_tokens=plan.max_tokens, logprobs=True,
                            extra={"return_token_ids": True})
        self.policy = OpenAIPolicy(plan.served_model or plan.model, url, sampling=sampling, policy_version="0")
        self._weights = ServedWeights(url.removesuffix("/v1"))
        self._stage = stage
        self._folder = folder

    def publish(self, model: Any, version: int) -> None:
        """Write the weights, adapters merged into them, and let the server take them."""
        place = self._folder / "newest"
        merged = hasattr(model, "merge_adapter")
        if merged:
            model.merge_adapter()
        base = model.get_base_model() if merged else model
        state = {name.replace(".base_layer", ""): value for name, value in base.state_dict().items()
                 if ".lora_" not in name}
        base.save_pretrained(place, state_dict=state)
        if merged:
            model.unmerge_adapter()
        self._stage.do(self._weights.publish(place, str(version)))
        self.policy.policy_version = str(version)

    def callback(self) -> Any:
        from transformers import TrainerCallback

        publish = self.publish

        class Published(TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
                publish(model, state.global_step)

        return Published()

    def close(self) -> None:
        self._stage.do(self._weights.aclose())
        self._stage.do(self.policy.aclose())
