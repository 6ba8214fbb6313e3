"""Whether a task is fit to be asked: its oracle solves it, and none of its null answers does."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from quintain.cli.answers import null_replies, oracle_reply
from quintain.cli.scripted import Scripted
from quintain.cli.wire import open_backend, open_house
from quintain.env import Answer, Work
from quintain.types import HouseError, Owner, Passed, TaskError, Turn, Verdict

if TYPE_CHECKING:
    from quintain.env import Environment
    from quintain.tasks import Item, Taskset

SEED = 0
TESTS_NAMED = 5


class Fit(StrEnum):
    FIT = "fit"
    UNFIT = "unfit"
    UNPROVEN = "unproven"  # it has no oracle: nothing shows that it can be solved


class Fitness(msgspec.Struct, frozen=True, kw_only=True):
    """What checking one task came to, with the reasons for anything but FIT."""

    task: str
    fit: Fit
    reasons: tuple[str, ...] = ()


async def examine(
    tasks: Taskset, *, sandboxes: int, report: Callable[[Fitness], None], cache: Path,
    bases: Mapping[str, str] | None = None,
) -> None:
    """Check each task, `sandboxes` at once, and report each as it is done. `cache` is a folder for build contexts,
    `bases` what to take for the images of a registry (see `quintain.grade.World`).

    Raises HouseError when the house fails, HostCannot where there are no sandboxes.
    """
    async with (
        open_house(open_backend("native")) as environment, Scripted.opened(cache=cache, bases=bases or {}) as scripted,
    ):
        ids = iter(tasks.ids)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(sandboxes):
                    workers.create_task(_work(environment, scripted, tasks, ids, report))
        except* HouseError as errors:
            raise errors.exceptions[0] from None


async def _work(
    environment: Environment, scripted: Scripted, tasks: Taskset, ids: Iterator[str], report: Callable[[Fitness], None],
) -> None:
    for id in ids:
        try:
            item = tasks[id]
            found = await (check_scripted(scripted, item) if scripted.takes(item) else check(environment, item))
        except TaskError as error:
            found = Fitness(task=id, fit=Fit.UNFIT, reasons=(str(error),))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            reason = f"its files do not fit into its disk_bytes or inodes: {error.filename}: {error.strerror}"
            found = Fitness(task=id, fit=Fit.UNFIT, reasons=(reason,))
        report(found)


async def check(environment: Environment, item: Item) -> Fitness:
    """Try the task's own answers. Raises TaskError for a task that is at fault itself, HouseError for a house."""
    reasons = []
    if item.exam.oracle is not None:
        solved, verdict = await _try(environment, item, oracle_reply(item), "oracle")
        if not solved:
            reasons.append(f"its oracle does not solve it: {_why(verdict)}")
    for nth, reply in enumerate(null_replies(item)):
        solved, _ = await _try(environment, item, reply, f"null-{nth}")
        if solved:
            reasons.append(f"its null answer {nth + 1} solves it: the tests do not tell right from wrong")
    if not reasons and item.exam.oracle is None:
        return Fitness(task=item.task.id, fit=Fit.UNPROVEN, reasons=("it has no oracle answer to try",))
    return Fitness(task=item.task.id, fit=Fit.UNFIT if reasons else Fit.FIT, reasons=tuple(reasons))


async def check_scripted(scripted: Scripted, item: Item) -> Fitness:
    """The same for a task that a script or one value judges. Raises TaskError, HouseError."""
    reasons = []
    if item.exam.oracle is not None:
        verdict = await scripted.verdict(item, item.exam.oracle, oracle=True)
        if not verdict.solved:
            missing = [f"artifact missing: {e.text}" for e in verdict.evidence if e.source == "artifact missing"]
            reasons.append(f"its oracle does not solve it: {'; '.join([_why(verdict), *missing])}")
    for nth, null in enumerate(item.exam.null):
        if (await scripted.verdict(item, null, oracle=False)).solved:
            reasons.append(f"its null answer {nth + 1} solves it: the tests do not tell right from wrong")
    if not reasons and item.exam.oracle is None:
        return Fitness(task=item.task.id, fit=Fit.UNPROVEN, reasons=("it has no oracle answer to try",))
    return Fitness(task=item.task.id, fit=Fit.UNFIT if reasons else Fit.FIT, reasons=tuple(reasons))


async def _try(environment: Environment, item: Item, reply: str, name: str) -> tuple[bool, Verdict]:
    built = environment.build(item.task, Turn(text=reply), previous=None)
    work = Work(program=built.program) if isinstance(built, Answer) else Work(fault=built)
    episode = f"check/{item.task.id}/{name}"
    try:
        verdict, reward = await environment.grade(item, work, episode=episode, seed=SEED)
    finally:
        await environment.leave(episode)
    fault = verdict.fault
    if fault is not None and fault.owner is Owner.HOUSE:
        raise HouseError(fault.kind, f"{item.task.id}: {fault.message}")
    if fault is not None and fault.owner is Owner.TASK:
        raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
    return reward.solved, verdict


def _why(verdict: Verdict) -> str:
    failing = [test for test in verdict.tests if test.passed is not Passed.PASSED]
    lines = [str(verdict.fault)] if verdict.fault is not None else []
    for test in failing[:TESTS_NAMED]:
        lines.append(f"{test.id} {test.passed.value}{f': {test.fault}' if test.fault else ''}")
    return "; ".join(lines) or "no test was run"
