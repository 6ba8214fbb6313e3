"""Step 11: how often somebody who tries solves it; only where somebody is given who does."""

from __future__ import annotations

from collections.abc import Mapping

from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.site import Site
from quintain.tasks import Item

#: A task that is never solved in so many tries is looked at by people.
TRIES = 64


class Difficulty:
    """The share of `tries` in which the site's solver succeeds. 0 and 1 teach nothing: they warn, and never refuse."""

    name = "difficulty"
    version = ""  # another solver, another answer
    runs = True

    def __init__(self, *, tries: int = 4) -> None:
        self._tries = tries

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        solver = site.solver
        if solver is None:
            return unmeasured(self.name, "nobody was given who tries to solve it")

        async def attempt(seed: int) -> bool:
            answer = await solver(item, seed)
            return answer is not None and (await site.verdict(item, answer, seed=seed)).solved

        solved = sum(await site.together(attempt, range(self._tries)))
        rate = solved / self._tries
        problems = []
        if rate in (0.0, 1.0):
            text = "always" if rate else "never"
            problems.append(Problem(code=f"{text} solved", fails=False, text=(
                f"{text} solved in {self._tries} tries: a group of such attempts has no variance to learn from")))
        return found(self.name, problems, evidence=[f"{solved} of {self._tries} tries solve it"],
                     figures={"solved_rate": rate, "tries": float(self._tries)},
                     remedy=f"try it {TRIES} times with the strongest policy there is before it is kept")
