"""Step 10: whether a task is nearly another one, of the same set or of a set that is held out.

Near: similar instructions (runs of 5 words) *and* a similar author's answer (runs of 5 tokens). Instructions alone
only warn, since many sets ask everything in the same phrases. Against held-out sets one shared run of 13 words is
enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.site import Site
from quintain.curate.sketch import Sketches, similarity, sketch, words_of
from quintain.tasks import Item

#: From this similarity on two tasks are the same.
SAME = 0.6
_WORDS, _TOKENS, _LONG = 5, 5, 13
_TOKEN = re.compile(r"\w+|[^\w\s]")


class Neighbours:
    """The other tasks, in the order in which they are known: of two that are the same, the later one is the copy."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}
        self._asked = Sketches()
        self._answers: dict[str, tuple[int, ...]] = {}
        self._held_out: dict[str, str] = {}

    def add(self, item: Item) -> None:
        self._order[item.task.id] = len(self._order)
        self._asked.add(item.task.id, asked_of(item))
        self._answers[item.task.id] = answer_of(item)

    def hold_out(self, items: Iterable[Item], *, name: str) -> None:
        """Tasks that must not be trained on: none may be near one of these."""
        for item in items:
            for run in _long_runs(item.task.instructions):
                self._held_out.setdefault(run, f"{name}/{item.task.id}")

    def earlier(self, item: Item) -> list[tuple[str, float, float]]:
        """(id, similarity of instructions, of answers) of the tasks before this one that ask nearly the same."""
        here = self._order.get(item.task.id, len(self._order))
        mine = answer_of(item)
        return [(id, near, similarity(mine, self._answers[id]) if mine and self._answers[id] else 1.0)
                for id, near in self._asked.near(asked_of(item), least=SAME) if self._order[id] < here]

    def held_out(self, item: Item) -> str | None:
        """A held-out task of which 13 words in a row stand in this one."""
        return next((self._held_out[run] for run in _long_runs(item.task.instructions) if run in self._held_out), None)


def asked_of(item: Item) -> tuple[int, ...]:
    return sketch(words_of(item.task.instructions), size=_WORDS)


def answer_of(item: Item) -> tuple[int, ...]:
    text = "\n".join(c.decode("utf-8", "replace") for _, c in sorted((item.exam.oracle or {}).items()))
    return sketch(_TOKEN.findall(text), size=_TOKENS) if text.strip() else ()


def _long_runs(text: str) -> list[str]:
    words = words_of(text)
    return [" ".join(words[at : at + _LONG]) for at in range(len(words) - _LONG + 1)]


class Duplicates:
    """Not measured where no neighbours are given. What it says of a task depends on the others: it is never kept."""

    name = "duplicates"
    version = ""
    runs = False

    def __init__(self, neighbours: Neighbours | None = None) -> None:
        self._neighbours = neighbours

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        if self._neighbours is None:
            return unmeasured(self.name, "no other task is known")
        problems = [Problem(code="duplicate", fails=answers >= SAME, text=(
            f"it asks nearly what {id} asks (similarity {asked:.2f}), and its answer is similar by {answers:.2f}"))
            for id, asked, answers in self._neighbours.earlier(item)[:3]]
        if (held := self._neighbours.held_out(item)) is not None:
            problems.append(Problem(code="contaminated",
                                    text=f"{_LONG} words in a row stand in {held}, which is held out"))
        return found(self.name, problems, remedy="keep one of them")
