"""What attempts add up to: who is counted, what a failure is, what was mended, and what two policies differ in."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quintain.evaluate import Attempted, Facts, attempted, compare, markdown_of, measures_of, page_of
from quintain.types import (
    Broke,
    Closed,
    Event,
    Fault,
    FaultKind,
    Flag,
    Graded,
    Opened,
    Owner,
    Passed,
    Ran,
    Reward,
    Sampled,
    Severity,
    Stop,
    TaskError,
    TestResult,
    Turn,
    Verdict,
)


def one(task: str, solved: bool, *, owner: Owner | None = None, turns: int = 1, failed: bool = False) -> Attempted:
    facts = Facts(turns=turns, tokens=10 * turns, tool_calls=turns, wall_seconds=float(turns), cpu_seconds=0.5)
    return Attempted(task=task, task_version="v", kind="code", episode=f"{task}#0", solved=solved, owner=owner,
                     facts=facts, failed_once=failed, hacked=False, suspect=False)


def log_of(*middle: dict[str, object]) -> Sequence[Event]:
    """A log whose middle is told as (type, its own fields)."""
    events: list[Event] = [Opened(
        episode="t#0", index=0, at_seconds=0.0, task="t", task_version="v", kind="code", group="t", attempt=1, seed=1,
        policy="p", unix_seconds=0.0, conversation=())]
    for told in middle:
        kind = told.pop("type")
        assert isinstance(kind, type)
        events.append(kind(episode="t#0", index=len(events), at_seconds=float(len(events)), **told))
    return events


def graded(solved: bool, *, final: bool, flags: tuple[Flag, ...] = ()) -> dict[str, object]:
    passed = Passed.PASSED if solved else Passed.FAILED
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=passed),), cpu_seconds=0.25)
    return {"type": Graded, "verdict": verdict, "final": final,
            "reward": Reward(total=0.8 if solved else 0.0, solved=solved, flags=flags)}


def sampled(text: str, tokens: int | None = 5) -> dict[str, object]:
    return {"type": Sampled, "turn": Turn(text=text, output_tokens=tokens)}


CLOSED: dict[str, object] = {"type": Closed, "stop": Stop.SOLVED}


def test_an_episode_that_is_not_over_is_no_attempt() -> None:
    assert attempted(log_of(sampled("x"))) is None
    assert attempted(()) is None


def test_an_attempt_that_failed_and_was_mended_says_so_with_what_it_took() -> None:
    ran: dict[str, object] = {"type": Ran, "verdict": Verdict(suite="v", level="L4", tests=(), cpu_seconds=0.5)}
    found = attempted(log_of(sampled("a"), ran, graded(False, final=False), sampled("b"), graded(True, final=True),
                             dict(CLOSED)))
    assert found is not None and found.solved and found.failed_once and not found.hacked
    assert found.facts == Facts(turns=2, tokens=10, tool_calls=1, wall_seconds=6.0, cpu_seconds=1.0)


def test_a_policy_that_gives_up_after_a_failure_has_mended_nothing() -> None:
    found = attempted(log_of(sampled("a"), graded(False, final=False), sampled("", None), graded(False, final=True),
                             {"type": Closed, "stop": Stop.GAVE_UP}))
    assert found is not None and found.failed_once and not found.solved
    assert found.facts.turns == 1 and found.facts.tokens is None
    assert measures_of([found], policy="p").recovery.at == 0.0  # type: ignore[union-attr]


def test_a_last_answer_that_fails_was_no_chance_to_mend() -> None:
    found = attempted(log_of(sampled("a"), graded(False, final=True), {"type": Closed, "stop": Stop.TURNS}))
    assert found is not None and not found.failed_once


def test_hard_evidence_is_a_hack_and_soft_evidence_is_suspect() -> None:
    for severity in Severity:
        flag = Flag(detector="d", severity=severity, evidence="e")
        found = attempted(log_of(sampled("a"), graded(True, final=True, flags=(flag,)), dict(CLOSED)))
        assert found is not None
        assert (found.hacked, found.suspect) == (severity is Severity.HARD, severity is Severity.SOFT)


def test_what_the_house_broke_is_counted_apart_and_is_in_no_figure() -> None:
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")
    lost = attempted(log_of(sampled("a"), {"type": Broke, "fault": fault}, {"type": Closed, "stop": Stop.BROKEN}))
    assert lost is not None and lost.owner is Owner.HOUSE
    found = measures_of([lost, one("u", True)], policy="p")
    assert found.lost == {"task": 0, "house": 1} and found.episodes == 1 and found.completion.at == 1.0
    with pytest.raises(ValueError, match="found none of 1"):
        measures_of([lost], policy="p")


def test_tasks_weigh_the_same_however_many_episodes_they_have() -> None:
    found = measures_of([one("a", True), one("b", False), one("b", False), one("b", True), one("b", False)], policy="p")
    assert found.completion.at == pytest.approx((1.0 + 0.25) / 2) and found.sometimes == 1
    assert [(c.k, c.tasks) for c in found.curves] == [(1, 2), (2, 1), (3, 1), (4, 1)]
    assert found.curves[3].any.at == 1.0 and found.curves[3].all.at == 0.0


def test_a_difference_on_paired_tasks_is_seen_where_the_tasks_alone_would_hide_it() -> None:
    first = [one(f"t{n}", n % 3 == 0, turns=3) for n in range(60)]
    second = [one(f"t{n}", n % 3 == 0 or n % 6 == 1, turns=1) for n in range(60)]
    found = compare(first, second, names=("old", "new"), draws=2000)
    assert found.completion.signed and found.completion.p < 0.05 and (found.better, found.worse) == (10, 0)
    turns = next(gap for gap in found.to_solve if gap.name == "turns")
    assert turns.gap.at == -2.0 and turns.tasks == 20
    same = compare(first, first, names=("old", "old"), draws=2000)
    assert not same.completion.signed and same.completion.p == 1.0


def test_tasks_that_were_changed_between_two_runs_are_not_compared() -> None:
    changed = Attempted(**{**{name: getattr(one("a", True), name) for name in Attempted.__struct_fields__},
                           "task_version": "w"})
    with pytest.raises(TaskError, match="changed between"):
        compare([one("a", True)], [changed], names=("p", "q"))
    with pytest.raises(ValueError, match="found none"):
        compare([one("a", True)], [one("b", True)], names=("p", "q"))


def test_the_reports_tell_every_figure_and_escape_the_names() -> None:
    name = "<script>|x"
    attempts = [one("a", True), one("a", False), one("b", True, failed=True), one("b", True)]
    found = measures_of(attempts, policy=name)
    both = compare(attempts, attempts, names=(name, "q"), draws=100)
    text, page = (tell([found], title=name, comparison=both) for tell in (markdown_of, page_of))
    for word in ("pass@2", "pass^2", "recovery after failure", "hack rate", "tokens", "75.0 %"):
        assert word in text and word in page
    assert "<script>" not in page and "<svg" in page and "\\|x" in text
