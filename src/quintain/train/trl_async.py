"""TRL's AsyncGRPOTrainer fed from a stage: a rollout worker, and weights that go to a model of the same process.

The worker plays groups without end and puts the trained rows into the trainer's buffer, with advantages of ours; the
trainer sets the pace, because a full buffer holds the worker up. Only `sample_type` imports TRL. Written against TRL
1.16 (`trl.experimental.async_grpo`), whose protocols these classes follow.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from quintain.policy import LocalPolicy, Policy
from quintain.tasks import Item
from quintain.train.advantage import grpo
from quintain.train.credit import by_episode
from quintain.train.filter import Filter, sift
from quintain.train.stage import Stage
from quintain.train.trajectory import Trajectory, rows_of
from quintain.types import Episode, Group


class Versioned(Protocol):
    """A policy that is told which weights it has."""

    policy_version: str


class TrlWorker:
    """TRL's `RolloutWorkerProtocol`: `AsyncGRPOTrainer(..., rollout_worker=TrlWorker(stage, items, policy, size=8))`.

    Each pass plays `size` episodes of each item; `advantage` works on a group's rewards, `filter` leaves out what is
    not trained: such rows never reach the trainer. A row's version is that of its oldest token, so `max_staleness` of
    TRL holds for the whole of it. The policy's versions must be the whole numbers that TRL gives: it is told each new
    one if it has a `policy_version`.
    """

    def __init__(
        self, stage: Stage, items: Sequence[Item], policy: Policy, *, size: int,
        advantage: Callable[[Sequence[float | None]], list[float | None]] = grpo, filter: Filter | None = None,
        buffer: int = 256,
    ) -> None:
        if not items:
            raise ValueError("expected at least one item to play, found none")
        self.rollout_buffer: queue.Queue[Any] = queue.Queue(maxsize=buffer)
        self.metrics_queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._stage = stage
        self._items = list(items)
        self._policy = policy
        self._size = size
        self._advantage = advantage
        self._filter = filter or Filter()
        self._playing: concurrent.futures.Future[None] | None = None
        self._ended = threading.Event()
        self._beat = time.monotonic()
        self._version = 0
        self._groups = 0

    def start(self) -> None:
        self._beat = time.monotonic()
        self._playing = self._stage.start(self._play())

    def stop(self) -> None:
        """End what is played, and wait until it has ended."""
        if self._playing is not None:
            self._playing.cancel()
            self._ended.wait()
            self._playing = None

    def update_model_version(self, model_version: int) -> None:
        self._version = model_version
        if hasattr(self._policy, "policy_version"):
            self._policy.policy_version = str(model_version)

    def check_health(self, stale_after_s: float) -> None:
        """Raises what ended the playing, and RuntimeError when no episode has ended for so many seconds."""
        if self._playing is not None and self._playing.done():
            self._playing.result()
        silent = time.monotonic() - self._beat
        if silent > stale_after_s:
            raise RuntimeError(
                f"expected a group of episodes within {stale_after_s:g} s, found none for {silent:.0f} s")

    async def _play(self) -> None:
        try:
            while True:
                playing = self._stage.player.collecting(
                    self._items, self._policy, size=self._size, round=self._stage.round())
                async with playing as groups:
                    async for group in groups:
                        self._beat = time.monotonic()
                        await self._put(group)
        finally:
            self._ended.set()

    async def _put(self, group: Group) -> None:
        sifted = sift(_rows(group.episodes), self._filter, version=self._version)
        self._groups += 1
        self._measure(group, sifted.counts)
        for row in by_episode(sifted.kept_B, self._advantage):
            if row.advantages is None:
                continue
            sample = sample_of(row, group=self._groups)
            while self.rollout_buffer.full():
                self._beat = time.monotonic()  # it is the trainer that is slow
                await asyncio.sleep(0.02)
            self.rollout_buffer.put_nowait(sample)

    def _measure(self, group: Group, left_out: dict[str, int]) -> None:
        solved = sum(episode.solved for episode in group.episodes)
        found: dict[str, Any] = {"quintain/solved": (float(solved), float(len(group.episodes)))}
        for why, count in left_out.items():
            found[f"quintain/left_out_{why}"] = float(count)
        self.metrics_queue.put_nowait(found)


def sample_of(row: Trajectory, *, group: int) -> Any:
    """TRL's RolloutSample of a row with advantages. Raises ValueError for a row without log-probabilities."""
    import numpy

    if row.logprobs is None or row.advantages is None:
        raise ValueError(f"trajectory {row.episode}: expected log-probabilities and advantages, found none")
    trained = [a for a, m in zip(row.advantages, row.loss_mask, strict=True) if m]
    versions = [int(version) for version in row.policy_versions if version]
    return sample_type()(
        prompt=[], completion=[], input_ids=numpy.asarray(row.token_ids, dtype=numpy.int64),
        completion_mask=numpy.asarray(row.loss_mask, dtype=numpy.int64),
        old_log_probs=numpy.asarray(row.logprobs, dtype=numpy.float32), advantage=float(trained[0]),
        model_version=min(versions), group_id=group, metrics={"reward": float(row.reward or 0.0)},
        enqueued_at=time.time(),
    )


def sample_type() -> Any:
    """TRL's own RolloutSample: the trainer reads its fields by name."""
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    return RolloutSample


class LocalWeights:
    """TRL's `WeightTransferProtocol` for a `LocalPolicy` of this process: between `pause` and `resume` nothing is
    sampled, and the sampler's model takes over the weights. `model` is the sampler's, not the trainer's."""

    def __init__(self, stage: Stage, policy: LocalPolicy, model: Any) -> None:
        self._stage = stage
        self._policy = policy
        self._weights = dict(model.named_parameters())

    def init_weight_transfer(self) -> None:
        """Nothing to be set up."""

    def pause(self) -> None:
        async def pause() -> None:
            await self._policy.paused.acquire()

        self._stage.do(pause())

    def send_weights(self, iterator: Iterator[tuple[str, Any]]) -> None:
        """Raises ValueError for a weight that the sampler's model does not have."""
        for name, value in iterator:
            own = self._weights.get(name)
            if own is None:
                raise ValueError(f"expected weights of the sampler's model, found {name!r}")
            own.data.copy_(value.detach())

    def resume(self) -> None:
        async def resume() -> None:
            self._policy.paused.release()

        self._stage.do(resume())

    def destroy(self) -> None:
        """Nothing is held."""


def _rows(episodes: Iterable[Episode]) -> list[Trajectory]:
    return [
        row for episode in episodes if any(turn.output_token_ids for turn in episode.turns) for row in rows_of(episode)
    ]
