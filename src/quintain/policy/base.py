"""Who answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quintain.types import Message, Turn


class Policy(Protocol):
    """Anything that answers. `task` is the id of the task (for scripted and replayed policies), `seed` makes sampling
    repeatable where the policy can. Raises HouseError(POLICY_UNREACHABLE) when it cannot answer at all."""

    @property
    def name(self) -> str: ...

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn: ...

    async def aclose(self) -> None: ...
