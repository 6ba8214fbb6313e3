"""Our tasks as a taskset of verifiers, which prime-rl trains on. Written against verifiers 0.4: `verifiers.v1`.

In a module that `taskset.id` names: `Tasks = verifiers_taskset(stage, items, opening)` and `__all__ = ["Tasks"]`.
verifiers runs the agent in a runtime of its own; what it says last is judged here, in our sandboxes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from quintain.policy import ScriptedPolicy
from quintain.tasks import Item
from quintain.train.driven import paid
from quintain.train.stage import Stage
from quintain.types import Message, Task


def verifiers_taskset(
    stage: Stage, items: Mapping[str, Item], opening: Callable[[Task], Sequence[Message]],
) -> type[Any]:
    """The Taskset class. The reward `quintain` is the episode's, the metric `solved` beside it.

    An episode that the house broke raises verifiers' SandboxError: the trace has an error and no reward, and stays out
    of training. The reply is judged once for both.
    """
    import verifiers.v1 as vf
    from verifiers.v1.errors import SandboxError

    class QuintainData(vf.TaskData):
        task_id: str

    async def quintain(self: Any, trace: Any) -> float:
        item = items[self.data.task_id]
        policy = ScriptedPolicy({item.task.id: [trace.last_reply]})
        (episode,) = await asyncio.wrap_future(stage.start(stage.playing([item], policy)))
        reward = paid(episode)
        if reward is None:
            raise SandboxError(f"no reward to train on: {episode.broken or 'it is masked'}")
        trace.record_metric("solved", float(episode.solved))
        return reward

    class QuintainTask(vf.Task[QuintainData]):
        reward = vf.reward(quintain)

        @property
        def key(self) -> str:
            return str(items[self.data.task_id].task.version)

    class QuintainTaskset(vf.Taskset[QuintainTask, vf.TasksetConfig]):
        def load(self) -> Iterable[Any]:
            for item in items.values():
                prompt = [{"role": m.role.value, "content": m.text} for m in opening(item.task)]
                yield QuintainTask(QuintainData(
                    id=item.task.id, name=item.task.id, task_id=item.task.id, prompt=prompt), self.config.task)

    return QuintainTaskset
