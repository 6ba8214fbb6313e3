"""Our tasks as an OpenEnv environment, served by its own `create_app`. Written against openenv 0.10
(https://huggingface.co/docs/openenv): WebSocket sessions of reset, step, state and close, and its task API.

    with Stage(opened) as stage:
        uvicorn.run(openenv_app(stage, items))
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any

from quintain.tasks import Item
from quintain.train import Driven, Stage, paid
from quintain.types import Episode

#: All tasks are in the one split.
SPLIT = "all"


def openenv_app(stage: Stage, items: Mapping[str, Item], *, sessions: int = 64, name: str = "quintain") -> Any:
    """The FastAPI application. At most `sessions` episodes are played at once; more are refused by OpenEnv.

    An action is `{"reply": text}`. An observation has `text`, what is said of it, and `task`; at the end `solved`,
    `stop`, `truncated`, `scores` and `house` too, and the whole reward. An episode that the house broke is done without
    a reward (None). `reset` takes `task`, or `split` and `index`, or draws one by `seed`. The limits of an episode are
    its task's: `timeout_s` of a step is not heeded.
    Raises ValueError without items, and (to the client, as an error of the session) for a task that is not there.
    """
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    if not items:
        raise ValueError("expected at least one task, found none")
    order = sorted(items)

    class Reply(Action):
        reply: str

    class Told(Observation):
        text: str = ""
        task: str
        solved: bool | None = None
        truncated: bool = False
        stop: str | None = None
        scores: dict[str, float] | None = None
        house: str | None = None

    class QuintainEnvironment(Environment[Reply, Told, State]):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._driven: Driven | None = None
            self._state = State(episode_id=None, step_count=0)

        def reset(self, seed: int | None = None, episode_id: str | None = None, **asked: Any) -> Told:
            self.close()
            task = _chosen(order, seed, asked)
            self._driven = Driven(stage, items[task])
            self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
            return Told(task=task, text="\n\n".join(message.text for message in self._driven.opening()))

        def step(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Told:
            if self._driven is None or self._driven.over:
                raise ValueError("expected reset first: no episode is open")
            self._state.step_count += 1
            told = self._driven.said(action.reply)
            task = self._driven.item.task.id
            if told is not None:
                return Told(task=task, text=told, reward=0.0)
            return Told(task=task, done=True, **_ending(self._driven.finish()))

        @property
        def state(self) -> State:
            return self._state

        def close(self) -> None:
            """An episode that is still open is given up and judged; nobody waits for it."""
            if self._driven is not None:
                self._driven.give_up()
                self._driven = None

        def list_splits(self) -> list[str]:
            return [SPLIT]

        def list_tasks(self, split: str) -> list[dict[str, Any]]:
            return [self.get_task(split, nth) for nth in range(self.num_tasks(split))]

        def num_tasks(self, split: str) -> int:
            return len(order) if split == SPLIT else 0

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            return {"id": _at(order, split, index), "index": index}

    return create_app(QuintainEnvironment, Reply, Told, env_name=name, max_concurrent_envs=sessions)


def _chosen(order: list[str], seed: int | None, asked: Mapping[str, Any]) -> str:
    """The task that a reset asks for, by name or place, or by what the seed draws."""
    if asked.get("index") is not None:
        return _at(order, asked.get("split", SPLIT), asked["index"])
    task = asked.get("task")
    if task is None:
        return random.Random(seed).choice(order)
    if task not in order:
        raise ValueError(f"expected a task that is known, found {task!r}")
    return str(task)


def _at(order: list[str], split: object, index: object) -> str:
    if split != SPLIT or not isinstance(index, int) or not 0 <= index < len(order):
        raise ValueError(f"expected the split {SPLIT!r} and an index below {len(order)}, found {split!r}, {index!r}")
    return order[index]


def _ending(episode: Episode) -> dict[str, Any]:
    reward, broken, stop = episode.reward, episode.broken, episode.stop
    return {
        "reward": paid(episode), "solved": episode.solved,
        "stop": stop.value if stop is not None else None, "truncated": stop is not None and stop.truncated,
        "scores": {score.name: score.value for score in reward.scores} if reward is not None else None,
        "house": str(broken) if broken is not None else None,
    }
