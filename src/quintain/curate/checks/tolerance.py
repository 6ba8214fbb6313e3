"""Step 7: whether other right answers are accepted: the author's own, written otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quintain.curate.checks.oracle import why_of
from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.rewrites import rewrites
from quintain.curate.site import Site, command_limits
from quintain.curate.visit import allowed_seconds, visited
from quintain.tasks import Item, PythonSuite
from quintain.types import Passed, Verdict

#: The share of right answers that must be accepted.
LEAST = 0.95


class Tolerance:
    """Python only: every rewrite of every file of the author's answer must pass."""

    name = "tolerance"
    version = "2"
    runs = True

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        answer = item.exam.oracle
        others = others_of(answer or {})
        if answer is None or not others:
            return unmeasured(self.name, "there is no answer in Python that could be written otherwise")

        async def run(files: dict[str, bytes]) -> Verdict:
            return await site.verdict(item, files, seed=3)

        names = list(others)
        seen = await _seen(item, site, [others[name] for name in names], earlier.get("oracle"))
        rest = [others[name] for name, said in zip(names, seen, strict=True) if said is None]
        alone = iter(await site.together(run, rest))
        verdicts = [said or next(alone) for said in seen]
        refused = [(name, v) for name, v in zip(names, verdicts, strict=True) if not v.solved]
        problems = [Problem(
            code="intolerant", text=f"the author's answer with its {name} changed is refused: {why_of(verdict)}",
            tests=tuple(t.id for t in verdict.tests if t.passed is not Passed.PASSED)[:5],
            fails=1 - len(refused) / len(names) < LEAST) for name, verdict in refused]
        return found(self.name, problems, evidence=[f"{len(names) - len(refused)} of {len(names)} rewrites accepted: "
                                                    f"{', '.join(names)}"],
                     remedy="test what the answer does, not how it is written: its text, its local names, its layout",
                     figures={"rewrites": float(len(names)), "refused": float(len(refused))})


async def _seen(
    item: Item, site: Site, rewritten: Sequence[Mapping[str, bytes]], oracle: Finding | None
) -> list[Verdict | None]:
    """Those that one visit accepts; None for the others, which are to say alone what they are refused for."""
    hidden = item.exam.hidden
    if not isinstance(hidden, PythonSuite):
        return [None] * len(rewritten)
    usual = oracle.figures.get("cpu_seconds_median") if oracle is not None else None
    seen = await visited(site, item, hidden, rewritten, seconds=allowed_seconds(command_limits(item), usual))
    return [said if said is not None and said.solved else None for said in seen]


def others_of(answer: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Whole answers by the kind of rewrite: every Python file is rewritten where it can be."""
    found: dict[str, dict[str, bytes]] = {}
    for path, content in answer.items():
        if path.endswith(".py"):
            for name, text in rewrites(content).items():
                found.setdefault(name, dict(answer))[path] = text
    return found
