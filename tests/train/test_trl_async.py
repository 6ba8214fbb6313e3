"""Rows for TRL's asynchronous trainer come from a stage without end, and the trainer sets the pace."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager

import pytest

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
torch = pytest.importorskip("torch", reason="TRL needs torch: pip install quintain[trl]")
pytest.importorskip("trl.trainer", reason="needs TRL: pip install quintain[trl]")

from trl.experimental.async_grpo.async_grpo_trainer import FixedCountBatcher, RolloutQueueDataset  # noqa: E402

from quintain.policy import LocalPolicy, LocalSampling  # noqa: E402
from quintain.rollout import Collector, Patience  # noqa: E402
from quintain.testing import FakeEnvironment, fail_first, fake_item  # noqa: E402
from quintain.train import Filter, LocalWeights, Stage, TrlWorker, grpo  # noqa: E402
from quintain.types import FaultKind, HouseError, Limits, Message, Role, Scopes  # noqa: E402
from tests.train import tiny  # noqa: E402

ONE_TURN = Scopes(episode=Limits(turns=1))
WORDS = tiny.tokenizer(("right", "wrong"))


def stage(**options) -> Stage:
    @asynccontextmanager
    async def opened():
        yield Collector(
            FakeEnvironment(**options), lambda event: None, concurrency=8, patience=Patience(attempts=1))

    return Stage(opened)


def policy(model=None) -> LocalPolicy:
    return LocalPolicy(model or tiny.saying(WORDS, ("right", "wrong")), WORDS, sampling=LocalSampling(max_tokens=4))


def worker(house: Stage, **options) -> TrlWorker:
    options = {"size": 4, "buffer": 16, **options}
    return TrlWorker(house, [fake_item("a", limits=ONE_TURN)], options.pop("policy", None) or policy(), **options)


def test_trls_own_dataset_and_batcher_take_the_rows() -> None:
    with stage() as house:
        made = worker(house)
        made.start()
        try:
            metrics: dict[str, list[float]] = {name: [] for name in (
                "sample/dropped_stale_total", "sample/rollout_queue_size", "sample/time_in_queue_s",
                "sample/staleness_mean", "sample/staleness_max")}
            rows = RolloutQueueDataset(
                made.rollout_buffer, lambda: 0, made.check_health, 60.0, metrics, poll_interval_s=1.0)
            batches = iter(FixedCountBatcher(rows, num_processes=1, microbatch_size=8))
            batch = [next(batches) for _ in range(2)]
        finally:
            made.stop()
    samples = [sample for (row,) in batch for sample in row.samples]
    assert len(samples) == 16
    groups: dict[int, list] = {}
    for sample in samples:
        groups.setdefault(sample["group_id"], []).append(sample)
    for members in groups.values():
        rewards = [sample["metrics"]["reward"] for sample in members]
        if len(members) == 4:
            assert [sample["advantage"] for sample in members] == pytest.approx(grpo(rewards))
    for sample in samples:
        assert len(sample["input_ids"]) == len(sample["completion_mask"]) == len(sample["old_log_probs"])
        said = WORDS.decode(sample["input_ids"][sample["completion_mask"] == 1])
        assert (sample["metrics"]["reward"] == 1.0) == (said == "right<|im_end|>")
    left = made.metrics_queue.get_nowait()["quintain/solved"]
    assert left[1] == 4.0


def test_a_full_buffer_holds_the_worker_up_and_stop_ends_it() -> None:
    with stage() as house:
        made = worker(house, buffer=4, filter=Filter(alike=False))
        made.start()
        deadline = time.monotonic() + 60
        while not made.rollout_buffer.full():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        played = made.metrics_queue.qsize()
        time.sleep(0.2)
        assert made.rollout_buffer.qsize() == 4 and made.metrics_queue.qsize() <= played + 1
        made.check_health(60.0)
        made.stop()
        made.stop()


def test_what_ends_the_playing_is_told_to_the_trainer_and_so_is_silence() -> None:
    with stage() as house:
        made = worker(house, policy=Broken())
        made.start()
        with pytest.raises(ValueError, match="no prompt_token_ids"):
            watch(made)
        with pytest.raises(RuntimeError, match="found none for"):
            worker(house).check_health(-1.0)
        with pytest.raises(ValueError, match="at least one item"):
            TrlWorker(house, [], policy(), size=2)


def watch(made: TrlWorker) -> None:
    """Look at its health for a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        made.check_health(60.0)
        time.sleep(0.01)


class Broken:
    """Gives output ids without their prompt: nothing that could be trained."""

    name = "broken"

    async def act(self, conversation, *, task, seed):
        from quintain.types import Turn

        return Turn(text="right", output_token_ids=(1,))

    async def aclose(self) -> None:
        """Holds nothing."""


def test_a_house_failure_is_no_row_and_in_no_baseline() -> None:
    gone = HouseError(FaultKind.SANDBOX_LOST, "gone")
    with stage(plan=fail_first(2, gone, call="grade")) as house:
        made = worker(house, filter=Filter(alike=False), buffer=2)
        made.start()
        rows = [made.rollout_buffer.get(timeout=60) for _ in range(2)]
        made.stop()
    rewards = [row.metrics["reward"] for row in rows]
    assert {row.group_id for row in rows} == {1}
    assert [row.advantage for row in rows] == pytest.approx(grpo(rewards))


def test_weights_go_to_the_sampler_between_pause_and_resume() -> None:
    trainer, sampler = tiny.saying(WORDS, ("right",)), tiny.saying(WORDS, ("wrong",))
    acting = policy(sampler)
    with stage() as house:
        weights = LocalWeights(house, acting, sampler)
        weights.init_weight_transfer()
        weights.pause()
        asked = (Message(role=Role.USER, text="say"),)
        future = house.start(acting.act(asked, task="a", seed=1))
        time.sleep(0.1)
        assert not future.done()
        weights.send_weights(iter(trainer.named_parameters()))
        made = worker(house, policy=acting, filter=Filter(alike=False))
        made.update_model_version(5)
        weights.resume()
        turn = future.result(timeout=60)
        assert (turn.text, turn.policy_version) == ("right", "5")
        made.start()
        assert made.rollout_buffer.get(timeout=60).model_version == 5
        made.stop()
        weights.destroy()
        with pytest.raises(ValueError, match="expected weights of the sampler's model, found 'other'"):
            weights.send_weights(iter([("other", torch.zeros(1))]))
