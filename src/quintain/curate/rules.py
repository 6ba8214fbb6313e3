"""When a task is moved by what was seen of it. Pure: a chart and a few numbers in, a reason out."""

from __future__ import annotations

import math

import msgspec

from quintain.curate.chart import Chart, Ending
from quintain.curate.flaky import (
    CONTROL_ALARM,
    FALSE_ALARM,
    SUSPICION,
    at_most,
    cluster,
    is_flaky,
    log_evidence,
    suspicion,
)
from quintain.curate.standing import Standing, State, Why
from quintain.guard import Audit, Tier, gap_between

_DAY_SECONDS = 86_400.0
#: A rate is a task's own when the rest of the house would make as many with less than this probability.
_OWN = 1e-4
#: Before so many attempts at other tasks nobody can say whose failures they are.
_KNOWN = 100


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a task may do before it is moved. Shares are of the last `window` attempts, and attempts not yet made count
    as well: five crashes in the first ten are five of two hundred. `false_alarm` is the probability that a healthy
    test is ever quarantined where answers are deterministic, `control_alarm` the same where answers that throw dice
    accuse it and the author's answer is asked; `control_runs` of that without a failure clear it.
    """

    probation_verdicts: int = 200
    window: int = 200
    crash_share: float = 0.05
    infrastructure_share: float = 0.02
    tamper_share: float = 0.02
    stuck_for: int = 500
    gap: float = 0.20
    gap_chance: float = 0.001
    false_alarm: float = FALSE_ALARM
    control_alarm: float = CONTROL_ALARM
    control_runs: int = 300
    suspensions: int = 3
    recheck_seconds: float = 7 * _DAY_SECONDS


class House(msgspec.Struct, frozen=True, kw_only=True):
    """How the rest of the house fares: attempts at other tasks lately, and how many of them broke for want of a
    sandbox. A bad hour of the house must not suspend every task in it."""

    attempts: int = 0
    broken: int = 0


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a task, in words, and with which tests."""

    why: Why
    evidence: str
    tests: tuple[str, ...] = ()


def trouble(chart: Chart, bounds: Bounds, *, house: House, has_oracle: bool) -> Trouble | None:
    """The first reason to suspend a task; `None` while there is none."""
    return (
        _flaky(chart, bounds, has_oracle=has_oracle) or _too_often(chart, bounds)
        or _infrastructure(chart, bounds, house) or _stuck(chart, bounds) or _gap(chart, bounds)
    )


def is_proven(standing: Standing, bounds: Bounds) -> bool:
    """Whether a task has been on probation long enough."""
    return standing.state is State.PROBATION and standing.chart.verdicts >= bounds.probation_verdicts


def questioned(chart: Chart, bounds: Bounds) -> tuple[str, ...]:
    """The tests that the author's answer should be asked about more often: P(f > 1 %) > 0.9, or the answers' evidence
    is complete and the author's has not confirmed it. Sorted."""
    return tuple(sorted(
        test for test, failures in chart.failures.items()
        if suspicion(failures, chart.trials_of(test)) > SUSPICION
        or is_flaky(failures, chart.trials_of(test), alpha=bounds.false_alarm)
    ))


def acquitted(chart: Chart, bounds: Bounds) -> tuple[str, ...]:
    """The tests that answers accuse and the author's answer never failed, in so many runs that answers which throw dice
    are the better explanation. Sorted."""
    return tuple(
        test for test in questioned(chart, bounds)
        if not chart.control_failures.get(test) and chart.control_trials_of(test) >= bounds.control_runs
    )


def recheck_due(standing: Standing, *, now_unix_seconds: float, build: str, bounds: Bounds) -> bool:
    """Whether a task is to be looked at again: a week has passed, or another verifier judges now."""
    if standing.state in (State.CANDIDATE, State.RETIRED):
        return False
    last = standing.checked
    began = last.at_unix_seconds if last is not None else standing.since_unix_seconds
    return (last is not None and last.build != build) or now_unix_seconds - began >= bounds.recheck_seconds


def _flaky(chart: Chart, bounds: Bounds, *, has_oracle: bool) -> Trouble | None:
    """Answers alone condemn a test only where there is no author's answer that could be asked."""
    for test, failures in sorted(chart.failures.items()):
        trials = chart.trials_of(test)
        if not is_flaky(failures, trials, alpha=bounds.false_alarm):
            continue
        if has_oracle and not _is_confirmed(chart, test, bounds):
            continue
        zeros = log_evidence(failures, trials) / math.log(10)
        return Trouble(
            why=Why.FLAKY, tests=cluster(test, chart.incidents),
            evidence=f"{test} failed in {failures} of {trials} runs on right answers: P(f > 1 %) = "
                     f"{suspicion(failures, trials):.3f}, e-value 10^{zeros:.1f} against f <= 0.1 %",
        )
    return None


def _is_confirmed(chart: Chart, test: str, bounds: Bounds) -> bool:
    """Whether the author's answer says so too, which cannot be made to throw dice."""
    failures = chart.control_failures.get(test, 0)
    return is_flaky(failures, chart.control_trials_of(test), alpha=bounds.control_alarm)


def _too_often(chart: Chart, bounds: Bounds) -> Trouble | None:
    for ending, limit, why in (
        (Ending.CRASH, bounds.crash_share, Why.CRASHES), (Ending.TAMPER, bounds.tamper_share, Why.TAMPER),
    ):
        share = chart.share(ending, last=bounds.window)
        if share > limit:
            return Trouble(why=why, evidence=f"{ending.name.lower()} in {100 * share:.1f} % of the last "
                                             f"{bounds.window} attempts, more than {100 * limit:g} %")
    return None


def _infrastructure(chart: Chart, bounds: Bounds, house: House) -> Trouble | None:
    share = chart.share(Ending.INFRASTRUCTURE, last=bounds.window)
    if share <= bounds.infrastructure_share or house.attempts < _KNOWN:
        return None
    made = len(chart.endings[-bounds.window:])
    broken = round(share * bounds.window)
    usual = (house.broken + 1) / (house.attempts + 2)
    by_accident = 1.0 - at_most(broken - 1, made, usual)
    if by_accident >= _OWN:
        return None
    return Trouble(
        why=Why.INFRASTRUCTURE,
        evidence=f"the sandbox failed in {100 * share:.1f} % of the last {bounds.window} attempts, more than "
                 f"{100 * bounds.infrastructure_share:g} %; elsewhere in {100 * usual:.2f} %",
    )


def _stuck(chart: Chart, bounds: Bounds) -> Trouble | None:
    ending = chart.stuck(bounds.stuck_for)
    if ending is None:
        return None
    why = Why.ALWAYS_SOLVED if ending is Ending.SOLVED else Why.NEVER_SOLVED
    return Trouble(why=why, evidence=f"{ending.name.lower()} in each of the last {bounds.stuck_for} judged attempts")


def _gap(chart: Chart, bounds: Bounds) -> Trouble | None:
    only_visible, only_hidden = chart.pairs.count("v"), chart.pairs.count("h")
    if only_visible - only_hidden <= bounds.gap * len(chart.pairs):
        return None
    gap = gap_between((
        Audit(task="", task_version="", attempt="", visible=letter in "bv", hidden=letter in "bh")
        for letter in chart.pairs
    ), Tier.VISIBLE, Tier.HIDDEN)
    if gap is None or gap.chance > bounds.gap_chance:
        return None
    return Trouble(
        why=Why.GAP,
        evidence=f"visible tests solved in {100 * gap.easier_rate:.0f} %, hidden in {100 * gap.harder_rate:.0f} % of "
                 f"{gap.attempts} attempts (by accident: {gap.chance:.1g})",
    )
