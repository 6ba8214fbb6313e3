"""TRL's own GRPOTrainer takes two steps in each of its modes, on our environments, with a model made on the spot; and
`quintain train --trainer trl`, alone and with a server that samples."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
torch = pytest.importorskip("torch", reason="TRL needs torch: pip install quintain[trl]")
pytest.importorskip("trl.trainer", reason="needs TRL: pip install quintain[trl]")

import trl  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from quintain.cli.train import command  # noqa: E402
from quintain.env import CodeEnvironment  # noqa: E402
from quintain.policy import LocalPolicy, LocalSampling  # noqa: E402
from quintain.rollout import Collector  # noqa: E402
from quintain.sandbox import NativeBackend  # noqa: E402
from quintain.tasks import Exam, Item, PythonSuite, write_taskset  # noqa: E402
from quintain.testing import FakeEnvironment, fake_item  # noqa: E402
from quintain.train import Asked, Stage, TrlRewards, TrlRollouts, episode_reward, grpo, trl_environments  # noqa: E402
from quintain.types import Entry, FaultKind, HouseError, Limits, Scopes  # noqa: E402
from tests.train import tiny  # noqa: E402

RIGHT = "```python\ndef add(a, b):\n    return a + b\n```"
WRONG = "```python\ndef add(a, b):\n    return a - b\n```"
CALLS = tuple(
    "<tool_call>\n" + json.dumps({"name": "attempt", "arguments": {"reply": reply}}) + "\n</tool_call>"
    for reply in (RIGHT, WRONG)
)


def item() -> Item:
    tests = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
    oracle = {"solution.py": b"def add(a, b): return a + b\n"}
    exam = Exam(hidden=PythonSuite(files={"test_add.py": tests}), oracle=oracle)
    return Item.sealed(exam, id="add", instructions="Write add(a, b).", entry=Entry(name="add"),
                       limits=Scopes(episode=Limits(turns=2)))


@asynccontextmanager
async def real():
    async with NativeBackend() as backend:
        yield Collector(CodeEnvironment(backend), lambda event: None, concurrency=8)


def config(folder: Path, **more) -> GRPOConfig:
    settings = {
        "output_dir": str(folder), "max_steps": 2, "per_device_train_batch_size": 8, "num_generations": 4,
        "max_completion_length": 12, "learning_rate": 1e-3, "logging_steps": 1, "report_to": "none", "use_cpu": True,
        "save_strategy": "no", "disable_tqdm": True, "bf16": False, **more,
    }
    return GRPOConfig(**settings)


def trained(trainer: GRPOTrainer) -> list[dict]:
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert trainer.state.global_step == 2 and len(logs) == 2
    if any(entry["reward_std"] > 1e-3 for entry in logs):
        assert any(not torch.equal(before[name], value) for name, value in trainer.model.named_parameters())
    return logs


@pytest.mark.bridge("trl", "theirs drives ours", "GRPOTrainer, two steps by rollout_func")
def test_whole_episodes_in_real_sandboxes_train_by_rollout_func(tmp_path) -> None:
    words = tiny.tokenizer((RIGHT, WRONG))
    asked = Asked([item()], CodeEnvironment(NativeBackend()).opening)
    rows = Dataset.from_list(asked.rows * 8)
    with Stage(real) as stage:
        trainer = GRPOTrainer(
            tiny.saying(words, (RIGHT, WRONG)), reward_funcs=[episode_reward],
            args=config(tmp_path, max_completion_length=400), train_dataset=rows, processing_class=words,
            rollout_func=TrlRollouts(stage, asked))
        logs = trained(trainer)
    assert all(0.0 < entry["quintain/solved"] <= 1.0 for entry in logs)
    assert all(entry["quintain/house_failures"] == 0.0 for entry in logs)
    rewards, advantages = trainer._logs["rewards"]["episode_reward"], trainer._logs["advantages"]
    for at in range(0, len(rewards), 4):  # TRL's advantages are ours
        group = list(rewards)[at:at + 4]
        assert list(advantages)[at:at + 4] == pytest.approx(grpo(group, epsilon=1e-4), abs=1e-4)


def test_an_episode_that_the_house_broke_is_in_no_baseline_of_trls(tmp_path) -> None:
    words = tiny.tokenizer(("right", "wrong"))
    one_turn = fake_item("a", limits=Scopes(episode=Limits(turns=1)))
    asked = Asked([one_turn], FakeEnvironment().opening)
    gone = HouseError(FaultKind.SANDBOX_LOST, "gone")  # in the second step, of whose groups TRL keeps the numbers
    lost = FakeEnvironment(plan=lambda call, nth: gone if call == "build" and 8 <= nth < 12 else None)

    @asynccontextmanager
    async def opened():
        from quintain.rollout import Patience

        yield Collector(lost, lambda event: None, concurrency=8, patience=Patience(attempts=1))

    with Stage(opened) as stage:
        trainer = GRPOTrainer(
            tiny.saying(words, ("right", "wrong")), reward_funcs=[episode_reward],
            args=config(tmp_path), train_dataset=Dataset.from_list(asked.rows * 8), processing_class=words,
            rollout_func=TrlRollouts(stage, asked))
        logs = trained(trainer)
    assert [entry["quintain/house_failures"] for entry in logs] == [0.0, 0.5]
    rewards, advantages = list(trainer._logs["rewards"]["episode_reward"]), list(trainer._logs["advantages"])
    assert sum(r != r for r in rewards) == 4  # None is NaN there
    assert all(a == 0.0 for r, a in zip(rewards, advantages, strict=True) if r != r)


@pytest.mark.bridge("trl", "theirs drives ours", "GRPOTrainer, two steps by reward_funcs")
def test_replies_that_trl_samples_are_judged_by_reward_funcs(tmp_path) -> None:
    words = tiny.tokenizer((RIGHT, WRONG))
    asked = Asked([item()], CodeEnvironment(NativeBackend()).opening)
    with Stage(real) as stage:
        trainer = GRPOTrainer(
            tiny.saying(words, (RIGHT, WRONG)), reward_funcs=[TrlRewards(stage, asked.items)],
            args=config(tmp_path), train_dataset=Dataset.from_list(asked.rows * 8), processing_class=words)
        logs = trained(trainer)
    assert any(entry["rewards/quintain/mean"] > 0.0 for entry in logs)
    texts = [completion[0]["content"] for completion in trainer._logs["completion"]]
    for text, reward in zip(texts, trainer._logs["rewards"]["quintain"], strict=True):
        assert (reward > 0.5) == (text == RIGHT)


@pytest.mark.bridge("trl", "theirs drives ours", "GRPOTrainer, two steps by environment_factory")
def test_our_tasks_are_tools_of_trls_loop_by_environment_factory(tmp_path) -> None:
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    words = tiny.tokenizer((*CALLS, "<tool_call>", "</tool_call>"), template=template)
    asked = Asked([item()], CodeEnvironment(NativeBackend()).opening)
    with Stage(real) as stage:
        make = trl_environments(stage, asked.items)
        trainer = GRPOTrainer(
            tiny.saying(words, CALLS), args=config(tmp_path, max_completion_length=256, max_tool_calling_iterations=1),
            train_dataset=Dataset.from_list(asked.rows * 8), processing_class=words, environment_factory=make)
        logs = trained(trainer)
    assert all(entry["tools/call_frequency"] > 0.5 for entry in logs)
    assert all(entry["tools/failure_frequency"] == 0.0 for entry in logs)
    rewards = list(trainer._logs["rewards"]["TaskEnvironment"])
    assert max(rewards) > 0.5


needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
DIALS = ("--trainer", "trl", "--batch", "4", "--group", "4", "--steps", "2", "--max-tokens", "400", "--rate", "1e-3",
         "--backend", "native", "--json")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl")
    words = tiny.tokenizer((RIGHT, WRONG))
    tiny.saying(words, (RIGHT, WRONG)).save_pretrained(folder / "model")
    words.save_pretrained(folder / "model")
    write_taskset([item()], folder / "tasks")
    return folder


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(command, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def served(policy: LocalPolicy, weights: Path) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    ready, over, found = threading.Event(), threading.Event(), list[str]()

    from quintain.serve import ModelServer, listening

    async def live() -> None:
        async with listening(ModelServer(policy, model="tiny", weights=weights).app) as url:
            found.append(url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    assert ready.wait(30)
    yield found[0]
    over.set()
    thread.join()


@needs_native
def test_a_model_of_ones_own_trains_from_the_command_line(place: Path) -> None:
    peft = importlib.util.find_spec("peft") is not None
    told = run(str(place / "tasks"), *DIALS, "--model", str(place / "model"), *(("--lora", "4") if peft else ()),
               "--out", str(place / "adapters"))
    assert told["steps"] == 2 and 0.0 < told["last"]["solved"] <= 1.0
    assert (told["trained_parameters"] < told["parameters"]) == peft
    rows = [json.loads(line) for line in (place / "adapters" / "metrics.jsonl").read_text().splitlines()]
    assert [row["_step"] for row in rows] == [1, 2] and all("train/reward" in row for row in rows)
    assert list((place / "adapters").glob("episodes-*/journal.jsonl"))


@needs_native
def test_a_server_samples_and_has_the_trained_weights_after_each_update(place: Path) -> None:
    pytest.importorskip("starlette", reason="the server needs starlette: pip install quintain[serve]")
    pytest.importorskip("uvicorn", reason="the server needs uvicorn: pip install quintain[serve]")
    words = tiny.tokenizer((RIGHT, WRONG))
    policy = LocalPolicy(tiny.saying(words, (RIGHT, WRONG)), words, sampling=LocalSampling(max_tokens=8))
    with served(policy, place) as url:
        told = run(str(place / "tasks"), *DIALS, "--model", str(place / "model"), "--server", f"{url}/v1",
                   "--served-model", "tiny", "--set", "beta=0.0", "--out", str(place / "by-server"))
    assert told["steps"] == 2 and policy.policy_version == "2"
    trained = AutoModelForCausalLM.from_pretrained(told["model"]).state_dict()
    for name, value in policy._model.state_dict().items():
        assert torch.equal(value, trained[name]), name


@pytest.mark.parametrize(("words", "said"), [
    (("--trainer", "trl"), "expected --model"),
    (("--trainer", "trl", "--model", "x", "--demos", "3"), "belong to --trainer quintain: demos"),
    (("--lora", "4"), "belong to --trainer trl: lora"),
    (("--trainer", "trl", "--model", "x", "--batch", "6", "--group", "4"), "a multiple of it"),
])
def test_options_of_the_other_trainer_are_refused(words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == 2 and said in done.output
