"""A policy that starts from a wrong answer, and mends it by what the feedback says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from quintain.types import Message, Role, Turn

#: How feedback names what is wrong: a word in square brackets at the start of a line, `[syntax_error] …`.
_NAMED = re.compile(r"^\[([a-z_]+)\]", re.MULTILINE)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an answer. `flaws` are the names by which feedback would tell that it is wrong: it is given up
    only when one of them is told. A draft believed to be right has none."""

    reply: str
    flaws: tuple[str, ...] = ()


class RepairingPolicy:
    """Holds drafts of each answer, worst first, and goes on to the next one only for a reason that it has read.

    What it reads: the last message from the house, and of that the names in square brackets at the line starts
    (`[syntax_error]`, `[wrong_answer]`, `[unsolved]`). One of them must be among the flaws of the draft that it handed
    in, or it hands in the same draft again: feedback that says nothing, or something else, repairs nothing. It does
    not learn, and the drafts are handed in from outside: it shows that the loop of trial, error and feedback works.
    `[solved]`, and a task without drafts, get an empty reply.
    """

    def __init__(self, drafts: Mapping[str, Sequence[Draft]], *, name: str = "repair") -> None:
        self._drafts = {task: tuple(versions) for task, versions in drafts.items()}
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        drafts = self._drafts.get(task, ())
        at, told = 0, frozenset[str]()
        for answered in _answers_to_us(conversation):
            told = frozenset(_NAMED.findall(answered))
            if at < len(drafts) - 1 and told & set(drafts[at].flaws):
                at += 1
        if not drafts or "solved" in told:
            return Turn(text="")
        return Turn(text=drafts[at].reply)

    async def aclose(self) -> None:
        """Holds nothing."""


def _answers_to_us(conversation: Sequence[Message]) -> Sequence[str]:
    """What the house said after each of our replies."""
    found: list[str] = []
    for message in conversation:
        if message.role is Role.ASSISTANT:
            found.append("")
        elif found:
            found[-1] += message.text + "\n"
    return found
