"""What was captured of an episode, and the rows that it is trained on. Pure.

A conversation that only grows is one thread of tokens. Where a prompt does not begin with all the tokens of any thread
(a history that was rewritten or cut short, a second agent in the same episode, a template that drops what was thought)
a new thread begins: every reply is trained behind exactly the tokens that it was sampled behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quintain.serve.base import Exchange
from quintain.train import Trajectory, rows_of
from quintain.types import Episode, Reward, Turn


class Captured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All replies of an episode, in the order in which they were complete. `lost` requests came to no reply: refused,
    broken off, or given up by whoever asked; `cut` is what had been sampled of those by then, and is not trained on."""

    episode: str
    exchanges: tuple[Exchange, ...] = ()
    lost: int = 0
    cut: tuple[Exchange, ...] = ()

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(exchange.turn for exchange in self.exchanges)

    def as_episode(
        self, *, task: str, group: str, reward: Reward | None, task_version: str = "", attempt: int = 1,
        policy: str = "captured",
    ) -> Episode:
        """The same as an episode like any other, for whoever keeps or filters those."""
        return Episode(
            id=self.episode, task=task, task_version=task_version, kind="captured", group=group, attempt=attempt,
            policy=policy, turns=self.turns, reward=reward)

    def rows(self, *, task: str, group: str, reward: Reward | None) -> tuple[Trajectory, ...]:
        """One trajectory for each thread, the longest history first begun first. `reward` is that of the whole episode;
        None is no reward, never 0. Empty for an episode without replies. Raises ValueError for a reply without ids."""
        whole = self.as_episode(task=task, group=group, reward=reward)
        found = []
        for row, thread in enumerate(threads_of(self.turns)):
            part = msgspec.structs.replace(whole, turns=tuple(self.turns[nth] for nth in thread))
            (made,) = rows_of(part)
            spans = tuple(msgspec.structs.replace(span, nth=thread[span.nth]) for span in made.turns)
            found.append(msgspec.structs.replace(made, row=row, turns=spans))
        return tuple(found)


def threads_of(turns: Sequence[Turn]) -> list[list[int]]:
    """Which turns go on from which: indices, one list a thread. A turn belongs to the thread with the most tokens that
    its prompt begins with; a reply to a context that was full has no tokens and belongs to none."""
    threads: list[list[int]] = []
    held: list[tuple[int, ...]] = []
    for nth, turn in enumerate(turns):
        if turn.output_token_ids is None and not turn.text:
            continue
        prompt = turn.prompt_token_ids or ()
        fits = [at for at, ids in enumerate(held) if prompt[: len(ids)] == ids]
        at = max(fits, key=lambda at: len(held[at]), default=len(threads))
        if at == len(threads):
            threads.append([])
            held.append(())
        threads[at].append(nth)
        held[at] = prompt + (turn.output_token_ids or ())
    return threads
