"""AReaL's agents over our episodes. Written against AReaL 1.0: any object with `async run(data, **given)`, which
`areal.experimental.openai.proxy` calls with the address of its proxy. The proxy keeps tokens and log-probabilities.

    trainer.train(workflow=areal_agent(stage, items), ...)       # rows of the dataset have the column `task`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx
import msgspec

from quintain.tasks import Item
from quintain.train.driven import Driven, worth
from quintain.train.stage import Stage
from quintain.types import FaultKind, Finish, HouseError, Message, Turn


class _Said(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Said
    finish_reason: str | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]


def areal_agent(
    stage: Stage, items: Mapping[str, Item], *, model: str = "default", lost: float | None = None,
    fields: Mapping[str, Any] | None = None,
) -> ArealAgent:
    """The agent, for AReaL's mode "inline" (a stage lives in one process). `fields` are added to each request
    (`temperature`, `max_completion_tokens`). An episode that the house broke raises HouseError, by which AReaL rejects
    the trajectory; with `lost` it is worth that instead."""
    return ArealAgent(stage, items, model=model, lost=lost, fields=fields or {})


class ArealAgent:
    """See `areal_agent`."""

    def __init__(
        self, stage: Stage, items: Mapping[str, Item], *, model: str, lost: float | None, fields: Mapping[str, Any],
    ) -> None:
        self._stage, self._items = stage, items
        self._model, self._lost, self._fields = model, lost, dict(fields)

    async def run(self, data: Mapping[str, Any], **given: Any) -> float:
        """Play an episode of the task `data["task"]` with what answers at `given["base_url"]`; its reward. Raises
        KeyError for a task that is not known, HouseError for what the house or the proxy broke."""
        driven = Driven(self._stage, self._items[str(data["task"])])
        said: list[dict[str, str]] = [_plain(message) for message in await driven.aopening()]
        try:
            async with AsyncExitStack() as held:
                client: httpx.AsyncClient | None = given.get("http_client")
                if client is None:
                    client = await held.enter_async_context(httpx.AsyncClient(timeout=600.0))
                told: str | None = ""
                while told is not None and not driven.over:
                    turn = await self._reply(client, said, given)
                    told = await driven.asaid(turn)
                    said += [{"role": "assistant", "content": turn.text}, {"role": "user", "content": told or ""}]
        except BaseException:
            driven.give_up()
            raise
        return float(worth(await driven.afinish(), self._lost))

    async def _reply(
        self, client: httpx.AsyncClient, said: Sequence[Mapping[str, str]], given: Mapping[str, Any],
    ) -> Turn:
        key = given.get("api_key")
        try:
            response = await client.post(
                str(given["base_url"]).rstrip("/") + "/chat/completions",
                json={"model": self._model, "messages": list(said), **self._fields},
                headers={"authorization": f"Bearer {key}"} if key else {})
            response.raise_for_status()
            choice = msgspec.json.decode(response.content, type=_Completion).choices[0]
        except (httpx.HTTPError, msgspec.MsgspecError, IndexError) as error:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, f"AReaL's proxy: {type(error).__name__}: {error}") from error
        return Turn(text=choice.message.content or "",
                    finish=Finish.LENGTH if choice.finish_reason == "length" else Finish.STOP)


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role.value, "content": message.text}
