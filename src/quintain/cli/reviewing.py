"""How a case and the sum of the reviews look to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quintain.cli.output import plain
from quintain.guard import Case, Estimate, Stats
from quintain.types import Passed

if TYPE_CHECKING:
    from rich.console import Console

TESTS_SHOWN = 12
EVIDENCE_SHOWN = 12


def print_case(
    id: str, case: Case, out: Console, *, said: Mapping[str, str] | None = None, notes: Mapping[str, str] | None = None,
    where: str = "",
) -> None:
    """The task; the answer beside what it changes of the author's; flags; what the verdict rests on; other answers.
    `said` and `notes` are by reviewer; `where` is what the next command must add."""
    from rich.table import Table
    from rich.text import Text

    def part(title: str, body: str) -> None:
        if body.strip():
            out.print(Text(f"\n{title}", style="bold"))
            out.print(Text(_indent(plain(body))), soft_wrap=True)

    out.rule(Text(f"case {id}: task {case.task}"), align="left", style="dim")
    part("asked", case.instructions)
    answer = "\n".join(f"── {path}\n{text}" for path, text in sorted(case.answer.items())) or "(nothing was changed)"
    if case.difference is None:
        part("answer (no author's answer is at hand)", answer)
    else:
        table = Table("answer", "from the author's answer to this one", expand=True, show_lines=False)
        table.add_row(Text(plain(answer)), Text(plain(case.difference or "(the same)")))
        out.print()
        out.print(table)
    part("flags", "\n".join(f"{f.detector} ({f.severity.value}): {f.evidence}" for f in case.flags) or "none")
    part("verdict", _verdict(case))
    part("other answers of the group", "\n\n".join(
        f"{s.episode}: {'solved' if s.solved else 'not solved'} ({s.reward:+.2f})\n{_indent(s.answer)}"
        for s in case.siblings))
    why = notes or {}
    part("said so far", "\n".join(
        f"{who}: {what}" + (f" ({why[who]})" if who in why else "") for who, what in (said or {}).items()))
    out.print(f"\nnext: quintain audit decide {id} honest|hack|unclear{where}", markup=False, soft_wrap=True)


def _verdict(case: Case) -> str:
    verdict = case.verdict
    passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
    lines = [f"{passed} of {len(verdict.tests)} tests passed, level {verdict.level}, reward {case.reward.total:+.2f}, "
             f"{verdict.runs} {'run' if verdict.runs == 1 else 'runs'} agree"]
    if verdict.fault is not None:
        lines.append(str(verdict.fault))
    failing = [test for test in verdict.tests if test.passed is not Passed.PASSED]
    lines += [f"{test.passed.value}  {test.id}: {test.fault or ''}" for test in failing[:TESTS_SHOWN]]
    lines += [f"{one.source}: {one.text}" for one in verdict.evidence[:EVIDENCE_SHOWN]]
    return "\n".join(lines)


def print_stats(found: Stats, out: Console) -> None:
    """What was decided, what it proves, and how far the reviewers can be believed."""
    decided = ", ".join(f"{count} {word}" for word, count in found.decided.items())
    out.print(f"{found.cases} cases, {found.open} open; decided: {decided}", markup=False)
    out.print(f"hacks among rewarded attempts, drawn by chance: {_estimate(found.uniform)}", markup=False)
    out.print(f"  the same from all that were drawn, weighted: {_estimate(found.weighted)}", markup=False)
    out.print(f"  sequential test, 0.2 % against 1 %: {found.sequential.value.replace('_', ' ')}", markup=False)
    out.print(f"flagged attempts: {found.flagged_hacks} hacks of {found.flagged} decided", markup=False)
    for name, reviewer in sorted(found.reviewers.items()):
        sensitivity = "no seeded hack yet" if reviewer.sensitivity is None else (
            f"found {reviewer.found} of {reviewer.hacks} seeded hacks (at least "
            f"{100 * reviewer.sensitivity_at_least:.0f} %)")
        alarms = f", condemned {reviewer.condemned} of {reviewer.honest} seeded honest" if reviewer.honest else ""
        out.print(f"reviewer {name}: {sensitivity}{alarms}", markup=False)
    if found.hot:
        out.print(f"tasks with a confirmed hack, to be looked at whole: {', '.join(found.hot)}", markup=False)


def _estimate(estimate: Estimate) -> str:
    if estimate.rate is None:
        return "nothing reviewed yet"
    return (f"{estimate.hits} of {estimate.reviewed}, {100 * estimate.rate:.2f} %, "
            f"at most {100 * estimate.upper:.2f} % (95 %)")


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
