"""An episode whose replies come from outside: for trainers that hold the model themselves and ask turn by turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from quintain.policy import Renderer, turn_of
from quintain.tasks import Item
from quintain.train.stage import Stage
from quintain.types import Episode, FaultKind, Finish, HouseError, Message, Owner, Role, Trainable, Turn


class Driven:
    """One episode on a stage, begun when it is made; nothing is waited for until something is asked.

    From a thread: `opening`, `said`, `finish`; from another event loop the same with `await`: `aopening`, `asaid`,
    `afinish`. A house failure plays the episode again with the replies that were given, unseen from here.
    """

    def __init__(self, stage: Stage, item: Item) -> None:
        self.item = item
        self._stage = stage
        self._mouth = _Mouth()
        self._episode = stage.start(self._play())

    @property
    def over(self) -> bool:
        """Whether nothing more can be said."""
        return self._mouth.over or self._episode.done()

    def opening(self) -> tuple[Message, ...]:
        """What the policy sees first; empty for an episode that ended before anything was asked."""
        return self._stage.do(self._opened())

    async def aopening(self) -> tuple[Message, ...]:
        return await asyncio.wrap_future(self._stage.start(self._opened()))

    def said(self, reply: str | Turn) -> str | None:
        """Give the next reply and wait for what is told of it; None when the episode is over."""
        return self._stage.do(self._exchange(reply))

    async def asaid(self, reply: str | Turn) -> str | None:
        return await asyncio.wrap_future(self._stage.start(self._exchange(reply)))

    def give_up(self) -> None:
        """Let the latest work be judged; not waited for."""
        if not self.over:
            self._stage.do(self._say(Turn(text="")))

    def finish(self) -> Episode:
        """The episode, given up if it still lives."""
        self.give_up()
        return self._episode.result()

    async def afinish(self) -> Episode:
        if not self.over:
            await asyncio.wrap_future(self._stage.start(self._say(Turn(text=""))))
        return await asyncio.wrap_future(self._episode)

    async def _play(self) -> Episode:
        try:
            episodes = await self._stage.playing([self.item], self._mouth)
        finally:
            self._mouth.over = True
            self._mouth.asked.set()
            self._mouth.told.put_nowait(None)
        return episodes[0]

    async def _opened(self) -> tuple[Message, ...]:
        await self._mouth.asked.wait()
        return self._mouth.opening

    async def _say(self, turn: Turn) -> None:
        self._mouth.replies.put_nowait(turn)

    async def _exchange(self, reply: str | Turn) -> str | None:
        if self.over:
            return None
        await self._say(Turn(text=reply) if isinstance(reply, str) else reply)
        return await self._mouth.told.get()


class Talk:
    """An episode that is driven by token ids. `prompt` has the ids to go on from: everything so far, bit for bit, and
    what was said since. Made by `Talk.begun`."""

    def __init__(self, driven: Driven, renderer: Renderer, opening: tuple[Message, ...]) -> None:
        self.driven = driven
        self.prompt = renderer.opening(opening)
        self._renderer = renderer
        self._conversation = opening

    @classmethod
    async def begun(cls, stage: Stage, item: Item, renderer: Renderer) -> Self:
        driven = Driven(stage, item)
        return cls(driven, renderer, await driven.aopening())

    async def answered(
        self, ids: Sequence[int], logprobs: Sequence[float] | None, *, cut: bool, version: str = "0",
    ) -> bool:
        """Give a sampled reply; whether the episode goes on, and `prompt` is the next one. `cut`: for length."""
        turn = Turn(
            text=self._renderer.text_of(ids), prompt_token_ids=tuple(self.prompt), output_token_ids=tuple(ids),
            logprobs=tuple(logprobs) if logprobs is not None else None, policy_version=version,
            finish=Finish.LENGTH if cut else Finish.STOP)
        told = await self.driven.asaid(turn)
        if told is None:
            return False
        said = Message(role=Role.USER, text=told)
        self._conversation = (*self._conversation, Message(role=Role.ASSISTANT, text=turn.text), said)
        held = (*self.prompt, *ids)
        fresh = self._renderer.going_on(held, [said])
        self.prompt = held + fresh if fresh is not None else self._renderer.opening(self._conversation)
        return True


def worth(episode: Episode, lost: float | None) -> float:
    """The reward for a trainer that has no word for "none": `lost` where there is none. Raises HouseError where `lost`
    is None: better no batch than one that teaches what the house did."""
    reward = paid(episode)
    if reward is not None:
        return reward
    if lost is not None:
        return lost
    broken = episode.broken
    kind = broken.kind if broken is not None and broken.owner is Owner.HOUSE else FaultKind.UNKNOWN
    raise HouseError(kind, f"episode {episode.id} has no reward to train on: {broken or 'it is masked'}")


def paid(episode: Episode) -> float | None:
    """The reward to train on; None where there is none, which is never 0."""
    reward = episode.reward
    return reward.total if reward is not None and reward.trainable is Trainable.YES else None


class _Mouth:
    """The policy that says what it is given. `told` gets what it is told after each reply, and None at the end."""

    name = "driven"

    def __init__(self) -> None:
        self.replies: asyncio.Queue[Turn] = asyncio.Queue()
        self.told: asyncio.Queue[str | None] = asyncio.Queue()
        self.asked = asyncio.Event()
        self.opening: tuple[Message, ...] = ()
        self.over = False
        self._said: list[Turn] = []

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = turn_of(conversation)
        if not nth:
            self.opening = tuple(conversation)
            self.asked.set()
        if nth < len(self._said):  # the house's next attempt at the episode
            return self._said[nth]
        if nth:
            self.told.put_nowait(conversation[-1].text)
        self._said.append(await self.replies.get())
        return self._said[-1]

    async def aclose(self) -> None:
        """Holds nothing."""

