"""Our tasks as a resources server of NeMo Gym's: its agent answers, and `/verify` is what our own judges say. Written
against nemo-gym 0.7 (nemo_gym/base_resources_server.py), which asks for Python 3.13.14.

    with Stage(opened) as stage:
        server = nemo_server(stage, items)(config=..., server_client=...)     # or its own run_webserver()
    rows = nemo_rows(items.values(), environment.opening)                     # the data: one JSON object a line
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from quintain.tasks import Item
from quintain.train import Driven, Stage, paid
from quintain.types import Episode, FaultKind, Message, Task

#: Our faults in NeMo Gym's words (nemo_gym/failure_kinds.py); whatever else is the verifier's.
_KINDS = {
    FaultKind.SANDBOX_CREATE_FAILED: "provider_unavailable", FaultKind.SANDBOX_LOST: "session_lost",
    FaultKind.NODE_LOST: "session_lost", FaultKind.CANCELLED: "cancelled", FaultKind.STORE_ERROR: "persistence_failed",
}


def nemo_rows(items: Iterable[Item], opening: Callable[[Task], Iterable[Message]]) -> Iterator[dict[str, Any]]:
    """The rows of NeMo Gym's data for tasks: what is asked, and which task it is. No exam is in them."""
    for item in items:
        said = [{"role": message.role.value, "content": message.text} for message in opening(item.task)]
        yield {"responses_create_params": {"input": said}, "verifier_metadata": {"task": item.task.id}}


def nemo_server(stage: Stage, items: Mapping[str, Item]) -> Any:
    """A class of resources server, a subclass of SimpleResourcesServer.

    What the agent said last is handed in as the answer, once; the rest of a task's turns is given up. The response has
    `solved`, `stop` and `scores` beside the reward. An episode that the house or the task broke, or that is masked, is
    0.0 with `mask_sample`, `failure_kind` and `failure_reason`: NeMo Gym has no word for no reward.
    Raises ValueError without items, and (to the client, 500) for a task that is not there.
    """
    from nemo_gym.base_resources_server import (
        BaseResourcesServerConfig,
        BaseVerifyRequest,
        BaseVerifyResponse,
        ReverifyMode,
        SimpleResourcesServer,
    )

    if not items:
        raise ValueError("expected at least one task, found none")

    class Config(BaseResourcesServerConfig):
        REVERIFY_MODE = ReverifyMode.STATELESS

    class Asked(BaseVerifyRequest):
        verifier_metadata: dict[str, Any]

    class Told(BaseVerifyResponse):
        verifier_metadata: dict[str, Any]
        solved: bool
        stop: str | None = None
        scores: dict[str, float | None] = {}  # noqa: RUF012  # pydantic copies it

    class QuintainResourcesServer(SimpleResourcesServer):
        config: Config

        async def verify(self, body: Asked) -> Told:
            task = body.verifier_metadata.get("task")
            if not isinstance(task, str) or task not in items:
                raise ValueError(f"expected verifier_metadata with a task that is known, found {task!r}")
            driven = Driven(stage, items[task])
            await driven.aopening()
            await driven.asaid(body.response.output_text)
            return Told(**body.model_dump(), **_judged(await driven.afinish()))

    # FastAPI resolves the names of types where no local ones are.
    QuintainResourcesServer.verify.__annotations__.update({"body": Asked, "return": Told})
    QuintainResourcesServer.Config = Config
    return QuintainResourcesServer


def _judged(episode: Episode) -> dict[str, Any]:
    reward, broken = paid(episode), episode.broken
    found: dict[str, Any] = {
        "reward": reward if reward is not None else 0.0, "solved": episode.solved,
        "stop": episode.stop.value if episode.stop is not None else None,
        "scores": {score.name: score.value for score in episode.reward.scores} if episode.reward is not None else {},
    }
    if reward is None:
        found |= {"mask_sample": True, "failure_reason": str(broken) if broken else "masked: it is under suspicion",
                  "failure_kind": _KINDS.get(broken.kind, "verifier_error") if broken else "quintain:masked"}
    return found
