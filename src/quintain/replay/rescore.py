"""A whole run judged again without a model: by another suite, or paid by another reward.

A new reward for the recorded verdicts needs no sandbox: it is the same sum over the same rows. Another suite judges
each attempt's last work again; `guard.Rescore` says whether so many solved ones are lost by it that it is an alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from quintain.env import Environment, Work
from quintain.grade import RESERVED, Scalar, reward_of, reward_of_fault
from quintain.guard import Rescore
from quintain.store import Standing, last_attempt, standing
from quintain.tasks import Item
from quintain.types import (
    Built,
    Closed,
    Event,
    Fault,
    Graded,
    HouseError,
    Opened,
    Rejected,
    Reward,
    Sampled,
    Stop,
    TaskError,
    Verdict,
    content_digest,
    fold,
)


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, then and now. `log` is its last attempt with the new judgement in the place of the old one (and
    what it was closed with, where that was being solved); `fault`: the house or the task failed, so there is none."""

    episode: str
    task: str
    before: Reward
    after: Reward | None
    verdict: Verdict | None
    fault: Fault | None = None
    log: tuple[Event, ...] = ()

    @property
    def changed(self) -> bool:
        return self.after is not None and (
            abs(self.after.total - self.before.total) > 1e-9 or self.after.solved is not self.before.solved)


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run, then and now. `lost` are attempts that are not solved any more, `won` those that are now; means are over
    the attempts with a reward both times. `alarm`: so many are lost that they were hacks or the suite is wrong."""

    attempts: int
    unjudged: int
    changed: int
    lost: tuple[str, ...]
    won: tuple[str, ...]
    mean_before: float | None
    mean_after: float | None
    alarm: bool


def repaid(log: Sequence[Event], *, scalar: Scalar) -> Rescored | None:
    """The recorded verdict under another scalar; `None` for an attempt that was not judged to its end."""
    judged = _judged(log)
    if judged is None:
        return None
    attempt, graded = judged
    work = _work(attempt, attempt.index(graded))
    if work.program is None and work.fault is not None and graded.verdict.fault == work.fault:
        after = reward_of_fault(work.fault, scalar=scalar)
    else:
        scores = [score for score in graded.reward.scores if score.name not in RESERVED]
        after = reward_of(graded.verdict, scores=scores, flags=graded.reward.flags, scalar=scalar)
    if after is not None:
        after = msgspec.structs.replace(after, suite=graded.reward.suite, level=graded.reward.level)
    return _rescored(attempt, graded, graded.verdict, after, None)


async def rejudged(environment: Environment, item: Item, log: Sequence[Event]) -> Rescored | None:
    """The attempt's last work under the exam of `item`; `None` for one that was not judged to its end."""
    judged = _judged(log)
    if judged is None:
        return None
    attempt, graded = judged
    opened = attempt[0]
    assert isinstance(opened, Opened)
    episode = f"{opened.episode}~rescore"
    try:
        verdict, reward = await environment.grade(
            item, _work(attempt, attempt.index(graded)), episode=episode, seed=opened.seed)
    except (HouseError, TaskError) as error:
        return _rescored(attempt, graded, None, None, error.fault)
    finally:
        await environment.leave(episode)
    return _rescored(attempt, graded, verdict, reward, None)


async def rescore_run(
    logs: Mapping[str, Sequence[Event]], judge: Callable[[Sequence[Event]], AsyncIterator[Rescored]], *, at_once: int,
) -> tuple[Rescored, ...]:
    """Every attempt through `judge`, `at_once` at a time, in the order of the logs."""
    found: dict[str, list[Rescored]] = {episode: [] for episode in logs}
    left = iter(logs.items())

    async def worker() -> None:
        for episode, log in left:
            async for one in judge(log):
                found[episode].append(one)

    async with asyncio.TaskGroup() as crew:
        for _ in range(max(1, at_once)):
            crew.create_task(worker())
    return tuple(one for many in found.values() for one in many)


def summary_of(rescored: Sequence[Rescored], *, suite: str = "") -> Summary:
    """The sum of a run."""
    judged = [one for one in rescored if one.after is not None]
    lost = tuple(one.episode for one in judged if one.before.solved and one.after and not one.after.solved)
    won = tuple(one.episode for one in judged if not one.before.solved and one.after and one.after.solved)
    solved = sum(one.before.solved for one in judged)
    drop = Rescore(suite=suite, judged=solved, unjudged=len(rescored) - len(judged), lost=lost)
    totals = [one.after.total for one in judged if one.after is not None]
    return Summary(
        attempts=len(rescored), unjudged=len(rescored) - len(judged), changed=sum(one.changed for one in judged),
        lost=lost, won=won, alarm=drop.alarm,
        mean_before=sum(one.before.total for one in judged) / len(judged) if judged else None,
        mean_after=sum(totals) / len(totals) if totals else None)


def _judged(log: Sequence[Event]) -> tuple[tuple[Event, ...], Graded] | None:
    attempt = tuple(last_attempt(log))
    if standing(attempt) is not Standing.FINISHED or fold(attempt).reward is None:
        return None
    paid = [event for event in attempt if isinstance(event, Graded) and event.final]
    return (attempt, paid[-1]) if paid else None


def _work(attempt: Sequence[Event], until: int) -> Work:
    """What was handed in last, as the machine hands it to the judge."""
    program, fault = None, None
    replies: list[str] = []
    for event in attempt[:until]:
        if isinstance(event, Sampled):
            replies.append(event.turn.text)
        elif isinstance(event, Built):
            program, fault = event.program, None
        elif isinstance(event, Rejected):
            program, fault = None, event.fault
    graded = attempt[until]
    if program is None and fault is None and isinstance(graded, Graded):  # it gave up at once
        fault = graded.verdict.fault
    if program is None and fault is None:
        raise ValueError(f"{attempt[0].episode}: expected work that was judged, found none")
    return Work(program=program, fault=fault, replies=tuple(replies))


def _rescored(
    attempt: tuple[Event, ...], graded: Graded, verdict: Verdict | None, reward: Reward | None, fault: Fault | None,
) -> Rescored:
    opened = attempt[0]
    assert isinstance(opened, Opened)
    log: tuple[Event, ...] = ()
    if reward is not None and verdict is not None:
        log = tuple(_with(event, graded, verdict, reward, at) for at, event in enumerate(attempt))
    return Rescored(episode=opened.episode, task=opened.task, before=graded.reward, after=reward, verdict=verdict,
                    fault=fault, log=log)


def _with(event: Event, graded: Graded, verdict: Verdict, reward: Reward, at: int) -> Event:
    """An event of the new log: its place counted anew, for earlier attempts are not in it."""
    replace = msgspec.structs.replace
    if event is graded:
        return replace(event, index=at, verdict=verdict, reward=reward)
    if isinstance(event, Closed) and event.stop in (Stop.SOLVED, Stop.SUBMITTED):
        return replace(event, index=at, stop=Stop.SOLVED if reward.solved else Stop.SUBMITTED)
    if isinstance(event, Opened):
        return replace(event, index=at, attempt=1)
    return replace(event, index=at)


def suite_of_items(items: Mapping[str, Item]) -> str:
    """A name for all exams together: the digest of their digests."""
    return content_digest(sorted(item.task.exam for item in items.values()))
