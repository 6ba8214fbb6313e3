"""Step 4: whether answers that do nothing are paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quintain.curate.finding import Finding, Problem, Result, found
from quintain.curate.nulls import Null, nulls_of
from quintain.curate.site import Site, command_limits
from quintain.curate.visit import allowed_seconds, visited
from quintain.tasks import Item, PythonSuite
from quintain.types import FaultKind, Passed, TaskError, Verdict

#: What an answer that does nothing may be paid at most, where the task pays by the share of its tests.
MOST = 0.05


class NullAnswers:
    """Every null answer must fail; a test that passes where nothing is defined tests nothing. Tests that cannot begin
    without an answer, where the author's has passed, are no sign of a lacking environment."""

    name = "null"
    version = "4"
    runs = True

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        nulls = nulls_of(item)
        oracle = earlier.get("oracle")
        is_tried_here = oracle is not None and oracle.result is Result.PASS

        async def run(null: Null) -> Verdict | None:
            try:
                return await site.verdict(item, null.files, seed=7)
            except TaskError as error:
                if error.kind is FaultKind.TASK_ENVIRONMENT and not is_tried_here:
                    raise
                return None  # with nothing there its tests break: that is not a pass

        seen = await _seen(item, site, nulls) if is_tried_here else [None] * len(nulls)
        alone = iter(await site.together(run, [null for null, said in zip(nulls, seen, strict=True) if said is None]))
        verdicts = [next(alone) if said is None else said for said in seen]
        problems, passing, shells = [], set[str](), []
        for null, verdict in zip(nulls, verdicts, strict=True):
            if verdict is None:
                continue
            if verdict.solved:
                problems.append(Problem(code="null passes", text=f"{null.name} solves it: the tests do not tell right "
                                                                 "from wrong"))
            if null.empty or null.shell:
                passed = {test.id for test in verdict.tests if test.passed is Passed.PASSED}
                passing |= passed if null.empty and not verdict.solved else set()
                shells += [passed] if null.shell else []
        if shells and not any(problem.fails for problem in problems):
            passing |= set.intersection(*shells)
        for test in sorted(passing):
            problems.append(Problem(code="idle test", tests=(test,), fails=False,
                                    text=f"{test} passes where the answer does nothing"))
        shares = [verdict.share for verdict in verdicts if verdict is not None]
        best = max(shares, default=0.0)
        return found(
            self.name, problems, evidence=[f"{len(nulls)} null answers; the best passes {best:.0%} of the tests"],
            remedy="add tests that a right answer passes and these do not, or drop those named", figures={
                "nulls": float(len(nulls)), "best_share": best})


async def _seen(item: Item, site: Site, nulls: Sequence[Null]) -> list[Verdict | None]:
    """What one visit says of those that define everything and do nothing; None for the others, and where it passes."""
    hidden = item.exam.hidden
    if not isinstance(hidden, PythonSuite):
        return [None] * len(nulls)
    seconds = allowed_seconds(command_limits(item), None)
    seen = await visited(site, item, hidden, [null.files for null in nulls], seconds=seconds)
    return [None if said is not None and said.solved else said for said in seen]
