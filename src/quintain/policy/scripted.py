"""Policies whose answers are known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from quintain.types import Message, Role, Turn


def turn_of(conversation: Sequence[Message]) -> int:
    """Which turn is asked for, from 0: the number of replies in the conversation."""
    return sum(message.role is Role.ASSISTANT for message in conversation)


class ScriptedPolicy:
    """Gives the replies of a script, one per turn: `ScriptedPolicy({"add": ["wrong", "right"]})`.

    A task that is not in the script, and a script that has come to its end, get an empty reply: it gives up.
    """

    def __init__(self, script: Mapping[str, Sequence[str | Turn]], *, name: str = "scripted") -> None:
        self._script = {task: tuple(replies) for task, replies in script.items()}
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        replies, nth = self._script.get(task, ()), turn_of(conversation)
        reply = replies[nth] if nth < len(replies) else ""
        return reply if isinstance(reply, Turn) else Turn(text=reply)

    async def aclose(self) -> None:
        """Holds nothing."""


class FunctionPolicy:
    """Answers with a plain function of the conversation, the task's id and the seed."""

    def __init__(self, answer: Callable[[Sequence[Message], str, int], str | Turn], *, name: str = "function") -> None:
        self._answer = answer
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        reply = self._answer(conversation, task, seed)
        return reply if isinstance(reply, Turn) else Turn(text=reply)

    async def aclose(self) -> None:
        """Holds nothing."""


class AnswerPolicy:
    """Gives one prepared reply per task, at every turn: what `oracle` and `null` are made of.

    The replies are handed in as text, because this room has no door to the answers. A task without one gets an empty
    reply: it gives up.
    """

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        self._name = name
        self._answers = dict(answers)

    @property
    def name(self) -> str:
        return self._name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        return Turn(text=self._answers.get(task, ""))

    async def aclose(self) -> None:
        """Holds nothing."""
