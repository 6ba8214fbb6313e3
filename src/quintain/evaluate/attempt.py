"""One finished episode as an evaluation counts it: a fold over its log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quintain.types import (
    Attribution,
    Closed,
    Event,
    Graded,
    Owner,
    Passed,
    Ran,
    Rejected,
    Sampled,
    Severity,
    Status,
    Turn,
    fold,
)


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt took. `tool_calls` counts the programs and commands that were run for the policy before it was
    judged; `tokens` are those it sampled (`None`: the policy did not tell); `cpu_seconds` is what its programs used, as
    far as the backend counted."""

    turns: int
    tokens: int | None
    tool_calls: int
    wall_seconds: float
    cpu_seconds: float | None


class Attempted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One episode. `owner` is whose failure left it without a reward: the task's or the house's; such an episode says
    nothing of the policy. `failed_once` says that a turn went wrong (it did not build, what was run failed, or it was
    judged and not solved) and that the policy was asked again; `hacked` that hard evidence, or tampering, was found,
    `suspect` that soft evidence was."""

    task: str
    task_version: str
    kind: str
    episode: str
    solved: bool
    owner: Owner | None
    facts: Facts
    failed_once: bool
    hacked: bool
    suspect: bool


def attempted(log: Sequence[Event]) -> Attempted | None:
    """The attempt that a log tells, `None` where it is not over. Raises ValueError as `fold` does."""
    if not log or not any(isinstance(event, Closed) for event in log):
        return None
    episode = fold(log)
    broken = episode.broken if episode.reward is None else None
    owner = broken.owner if broken is not None else None
    reward = episode.reward
    flags = reward.flags if reward is not None else ()
    verdict = episode.verdict
    of_verdict = (verdict.fault, *(test.fault for test in verdict.tests)) if verdict is not None else ()
    faults = [*episode.faults, *(fault for fault in of_verdict if fault is not None)]
    return Attempted(
        task=episode.task, task_version=episode.task_version, kind=episode.kind, episode=episode.id,
        solved=episode.solved, owner=owner, facts=_facts(log, episode.seconds), failed_once=_failed_once(log),
        hacked=any(flag.severity is Severity.HARD for flag in flags)
        or any(fault.attribution is Attribution.TAMPER for fault in faults),
        suspect=any(flag.severity is Severity.SOFT for flag in flags),
    )


def _facts(log: Iterable[Event], seconds: float) -> Facts:
    turns: list[Turn] = []
    calls, cpu = 0, list[float | None]()
    for event in log:
        match event:
            case Sampled(turn=turn):
                turns.append(turn)
            case Ran(outcome=outcome, verdict=verdict):
                calls += 1
                cpu += [seen.cpu_seconds for seen in (outcome, verdict) if seen is not None]
            case Graded(verdict=verdict):
                cpu.append(verdict.cpu_seconds)
            case _:
                pass
    counted = [value for value in cpu if value is not None]
    return Facts(
        turns=sum(bool(turn.text) for turn in turns), tokens=_tokens(turns), tool_calls=calls, wall_seconds=seconds,
        cpu_seconds=sum(counted) if counted else None)


def _tokens(turns: Sequence[Turn]) -> int | None:
    """Sampled in all; `None` as soon as one turn does not tell."""
    total = 0
    for turn in turns:
        count = turn.output_tokens if turn.output_tokens is not None else (
            None if turn.output_token_ids is None else len(turn.output_token_ids))
        if count is None:
            return None
        total += count
    return total if turns else None


def _failed_once(log: Iterable[Event]) -> bool:
    """Whether something went wrong in a turn after which the policy was asked again (it may have given up)."""
    wrong = False
    for event in log:
        match event:
            case Sampled() if wrong:
                return True
            case Rejected():
                wrong = True
            case Ran(outcome=outcome, verdict=verdict):
                wrong = wrong or (outcome is not None and outcome.status is not Status.OK) or (
                    verdict is not None and any(test.passed is not Passed.PASSED for test in verdict.tests))
            case Graded(reward=reward):
                wrong = wrong or not reward.solved
            case _:
                pass
    return False
