"""Step 7: whether other right answers are accepted: the author's own, written otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from quintain.curate.checks.oracle import why_of
from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.rewrites import rewrites
from quintain.curate.site import Site
from quintain.tasks import Item
from quintain.types import Passed, Verdict

#: The share of right answers that must be accepted.
LEAST = 0.95


class Tolerance:
    """Python only: every rewrite of every file of the author's answer must pass."""

    name = "tolerance"
    version = "1"
    runs = True

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        answer = item.exam.oracle
        others = others_of(answer or {})
        if answer is None or not others:
            return unmeasured(self.name, "there is no answer in Python that could be written otherwise")

        async def run(files: dict[str, bytes]) -> Verdict:
            return await site.verdict(item, files, seed=3)

        names = list(others)
        verdicts = await site.together(run, [others[name] for name in names])
        refused = [(name, v) for name, v in zip(names, verdicts, strict=True) if not v.solved]
        problems = [Problem(
            code="intolerant", text=f"the author's answer with its {name} changed is refused: {why_of(verdict)}",
            tests=tuple(t.id for t in verdict.tests if t.passed is not Passed.PASSED)[:5],
            fails=1 - len(refused) / len(names) < LEAST) for name, verdict in refused]
        return found(self.name, problems, evidence=[f"{len(names) - len(refused)} of {len(names)} rewrites accepted: "
                                                    f"{', '.join(names)}"],
                     remedy="test what the answer does, not how it is written: its text, its local names, its layout",
                     figures={"rewrites": float(len(names)), "refused": float(len(refused))})


def others_of(answer: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Whole answers by the kind of rewrite: every Python file is rewritten where it can be."""
    found: dict[str, dict[str, bytes]] = {}
    for path, content in answer.items():
        if path.endswith(".py"):
            for name, text in rewrites(content).items():
                found.setdefault(name, dict(answer))[path] = text
    return found
