"""The gate: every check at every task, cheap ones first, nothing measured twice, nothing forgotten.

A failed check is sticky: it stands for this content of the task until the task or the check is changed, and no
luckier run takes it back. After a failure the dear checks are left out, and say so. What the house does wrong is
tried once more and is then "not measured": never the task's fault.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import msgspec

from quintain.curate.base import Check
from quintain.curate.checks import (
    Battery,
    Cost,
    Difficulty,
    Duplicates,
    Leaks,
    NullAnswers,
    OracleRuns,
    Schema,
    Spec,
    Static,
    Strength,
    Tolerance,
)
from quintain.curate.checks.duplicates import Neighbours
from quintain.curate.finding import (
    AUGMENT_CODE,
    Admission,
    Finding,
    Problem,
    Result,
    Ruling,
    found,
    ruling_of,
    unmeasured,
)
from quintain.curate.kept import Kept
from quintain.curate.site import Site, first_of
from quintain.grade import Judge, verifier_build
from quintain.tasks import Item, Taskset
from quintain.types import FaultKind, HouseError, TaskError, content_digest

#: How often the house may fail at one check before it is given up.
HOUSE_TRIES = 2


def standard_checks(
    *, neighbours: Neighbours | None = None, kept: Kept | None = None, quick: bool = False, judge: Judge | None = None,
    judged_by: str = "",
) -> list[Check]:
    """The twelve steps. `quick`: 4 runs of the oracle instead of 25, at most 30 mutants, and of the battery only what
    is tried at the task itself. `judge` is a model that looks for two readings, `judged_by` its name: what another one
    said is asked anew."""
    return [
        Schema(), Static(), Spec(judge=judge, by=judged_by), Leaks(), Duplicates(neighbours),
        OracleRuns(pairs=1, more=1, crowd=0) if quick else OracleRuns(), NullAnswers(), Cost(), Tolerance(),
        Strength(most=30) if quick else Strength(), Battery(shared=not quick, kept=kept), Difficulty(),
    ]


def neighbours_of(tasks: Taskset) -> Neighbours:
    """All tasks of a set that can be read, as each other's neighbours."""
    known = Neighbours()
    for id in tasks.ids:
        try:
            known.add(tasks[id])
        except TaskError:
            continue  # it is refused when its turn comes
    return known


async def admit(
    tasks: Taskset, site: Site, checks: Sequence[Check], *, kept: Kept | None = None, at_once: int | None = None,
) -> AsyncIterator[Admission]:
    """The admission of each task, in the order in which they are done; `at_once` tasks (default: as many as the site
    tries answers) are looked at side by side. Raises HouseError for a store that fails."""
    done: asyncio.Queue[Admission | None] = asyncio.Queue()
    ids = iter(tasks.ids)

    async def worker() -> None:
        for id in ids:
            done.put_nowait(await _read_and_admit(tasks, id, site, checks, kept))

    async def all_of_them() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once or site.at_once, max(1, len(tasks.ids)))):
                    group.create_task(worker())
        finally:
            done.put_nowait(None)

    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(all_of_them())
            try:
                while (admission := await done.get()) is not None:
                    yield admission
            finally:
                running.cancel()
    except BaseExceptionGroup as errors:  # also GeneratorExit, where nobody wants to hear the rest
        raise first_of(errors) from None


async def _read_and_admit(
    tasks: Taskset, id: str, site: Site, checks: Sequence[Check], kept: Kept | None
) -> Admission:
    try:
        item = tasks[id]
    except TaskError as error:
        place = error.fault
        problem = Problem(code="unreadable", text=place.message, file=place.file or "", line=place.line or 0)
        refused = found("schema", [problem], remedy="mend the file where it says")
        return Admission(task=id, version="", ruling=Ruling.REJECTED, findings=(refused,))
    return await admit_one(item, site, checks, kept=kept)


async def admit_one(item: Item, site: Site, checks: Sequence[Check], *, kept: Kept | None = None) -> Admission:
    """What every check finds of one task, and what follows."""
    findings: dict[str, Finding] = {}
    for check in checks:
        failed = [name for name, finding in findings.items() if _is_final(finding)]
        if check.runs and failed:
            findings[check.name] = unmeasured(check.name, f"left out, since {failed[0]} failed")
            continue
        key = key_of(check, item)
        known = kept.get(item.task.id, key) if kept is not None and check.version else None
        if known is None:
            known = await _examined(check, item, site, findings)
            if kept is not None and check.version and known.result is not Result.NOT_MEASURED:
                kept.put(item.task.id, key, known)
        findings[check.name] = known
    told = tuple(findings.values())
    return Admission(task=item.task.id, version=item.task.version, ruling=ruling_of(told), findings=told)


def key_of(check: Check, item: Item) -> str:
    """The digest of what a check's finding depends on: the check, the task with its exam, and the verifiers' code."""
    return content_digest([check.name, check.version, item.task.version, verifier_build() if check.runs else ""])


async def _examined(check: Check, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
    started = time.monotonic()
    finding = unmeasured(check.name, "it was not tried")
    for _ in range(HOUSE_TRIES):
        try:
            finding = await check.examine(item, site, earlier)
        except HouseError as error:
            finding = unmeasured(check.name, f"the house failed: {error}", remedy="run it again; quintain doctor")
            continue
        except TaskError as error:
            finding = _of_task(check.name, error)
        break
    return msgspec.structs.replace(finding, seconds=time.monotonic() - started)


def _of_task(name: str, error: TaskError) -> Finding:
    """What an error of the task's means: where its world cannot be had here it is not measured, else it fails."""
    if error.kind is FaultKind.TASK_ENVIRONMENT:
        return unmeasured(name, f"it cannot be tried here: {error}", remedy="say what to take for its image: --base")
    problem = Problem(code="broken", text=str(error), file=error.fault.file or "", line=error.fault.line or 0)
    return found(name, [problem], remedy="mend what is named")


def _is_final(finding: Finding) -> bool:
    return finding.result is Result.FAIL and any(p.fails and p.code != AUGMENT_CODE for p in finding.problems)


def counted(admissions: Sequence[Admission]) -> Iterator[tuple[str, int]]:
    """How many tasks have which problem that fails, the most frequent first."""
    codes = [code for admission in admissions for code in {p.code for p in admission.problems if p.fails}]
    yield from sorted(((code, codes.count(code)) for code in set(codes)), key=lambda pair: (-pair[1], pair[0]))
