"""The author's answer as a witness: asked while a suspicion lasts, and once a week whether the task is still fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from quintain.curate.chart import Run
from quintain.curate.ledger import HealthLedger
from quintain.curate.rules import Trouble, recheck_due
from quintain.curate.sighting import control_run
from quintain.curate.site import Site
from quintain.curate.standing import State, Why
from quintain.curate.watch import HealthWatch
from quintain.grade import Oracle, headline, verifier_build
from quintain.tasks import Item
from quintain.types import FaultKind, HouseError, Program, TaskError, Verdict

#: Who judges the author's answer: an oracle, or a site, which has a judge for every kind of suite.
Judge = Oracle | Site
#: What a good look lifts: troubles that may have been the verifier's or the house's, or that another policy may end.
#: A flaky test, a gap and tampering are mended by another version, or lifted by hand.
LIFTED = frozenset({
    Why.ORACLE_FAILED, Why.NULL_PASSED, Why.CRASHES, Why.INFRASTRUCTURE, Why.ALWAYS_SOLVED, Why.NEVER_SOLVED,
})


async def control(oracle: Judge, item: Item, *, seed: int) -> Run | None:
    """One run of the hidden suite on the author's answer; `None` where the house or the task failed, so that it says
    nothing of a test. Raises ValueError for an item without an author's answer."""
    if item.exam.oracle is None:
        raise ValueError(f"task {item.task.id}: expected an author's answer, found none")
    try:
        verdict = await _judged(oracle, item, item.exam.oracle, seed=seed)
    except (HouseError, TaskError):
        return None
    return control_run(verdict)


async def attend(
    watch: HealthWatch, oracle: Judge, item_of: Callable[[str], Item], *, seed: int = 0, pause_seconds: float = 0.2,
) -> None:
    """For ever: ask the author's answer of each task that is in doubt, once a round. Run it beside a collection, as a
    child of a TaskGroup that you cancel; it holds two sandboxes at most and nothing while there is no doubt."""
    nth = 0
    while True:
        judged = False
        for task in watch.questioned():
            item = item_of(task)
            nth += 1
            run = await control(oracle, item, seed=(seed + 104729 * nth) % 2**31)
            if run is not None:
                judged = True
                watch.saw_control(task, item.task.version, run)
        await asyncio.sleep(0 if judged else pause_seconds)


async def recheck(oracle: Judge, item: Item, *, runs: int = 3, seed: int = 0) -> Trouble | None:
    """Whether a task is still fit: the author's answer is solved and no null answer is. An answer of the author's that
    fails once is asked twice more; only what fails in most of three is ORACLE_FAILED, the rest is FLAKY.

    Raises HouseError, and TaskError of a site, where it could not be judged: then nothing is known, and nothing is to
    be concluded.
    """
    if item.exam.oracle is not None:
        for nth in range(runs):
            verdict = await _certain(oracle, item, item.exam.oracle, seed=seed + 2 * nth)
            if not verdict.solved:
                return await _oracle_failed(oracle, item, verdict, seed=seed + 2 * runs)
    for number, null in enumerate(item.exam.null):
        if (await _certain(oracle, item, null, seed=seed)).solved:
            return Trouble(why=Why.NULL_PASSED, evidence=f"null answer {number} is solved")
    return None


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What came of looking at a task again. `trouble` is empty where it is fit; `moved` is where it went, if it did."""

    task: str
    trouble: str = ""
    moved: State | None = None


async def review(
    ledger: HealthLedger, oracle: Judge, items: Iterable[Item], *, now_unix_seconds: float, runs: int = 3,
    by: str = "", seed: int = 0,
) -> Sequence[Looked]:
    """Look again at those of `items` that are due (a week, or another verifier): what is not fit is suspended, what was
    suspended for a reason that this lifts and is fit goes on probation. A task that the house could not judge is left
    as it is, and stays due."""
    found = []
    build = verifier_build()
    for item in items:
        standing = ledger.standings.get(item.task.id)
        if standing is None or standing.version != item.task.version or not recheck_due(
            standing, now_unix_seconds=now_unix_seconds, build=build, bounds=ledger.bounds,
        ):
            continue
        task = item.task.id
        try:
            wrong = await recheck(oracle, item, runs=runs, seed=seed)
        except (HouseError, TaskError) as error:
            found.append(Looked(task=task, trouble=f"not judged: {error}"))
            continue
        moved = None
        ledger.checked(task, build=build, trouble=f"{wrong.why.value}: {wrong.evidence}" if wrong else "")
        if wrong is not None:
            moved = State.SUSPENDED if ledger.suspend(task, wrong, by=by) else None
        elif standing.state is State.SUSPENDED and standing.moves[-1].why in LIFTED:
            moved = ledger.move(task, State.PROBATION, Why.RECHECKED, evidence=f"fit in {runs} runs", by=by).state
        found.append(Looked(task=task, trouble=wrong.evidence if wrong else "", moved=moved))
    return found


async def _oracle_failed(oracle: Judge, item: Item, verdict: Verdict, *, seed: int) -> Trouble:
    again = [await _certain(oracle, item, item.exam.oracle or {}, seed=seed + nth) for nth in range(2)]
    failed = [one for one in (verdict, *again) if not one.solved]
    tests = tuple(sorted({test.id for one in failed for test in one.tests if test.fault is not None}))
    why = Why.ORACLE_FAILED if len(failed) > 1 else Why.FLAKY
    told = f"the author's answer failed {len(failed)} of 3: {headline(failed[0])}"
    return Trouble(why=why, tests=tests, evidence=told)


async def _certain(oracle: Judge, item: Item, files: dict[str, bytes], *, seed: int) -> Verdict:
    verdict = await _judged(oracle, item, files, seed=seed)
    if control_run(verdict) is None:
        raise HouseError(FaultKind.VERIFIER_ERROR, f"task {item.task.id} was not judged: {headline(verdict)}")
    return verdict


async def _judged(oracle: Judge, item: Item, files: dict[str, bytes], *, seed: int) -> Verdict:
    if isinstance(oracle, Site):
        return await oracle.verdict(item, files, seed=seed, confirm=True, oracle=files == item.exam.oracle)
    limits = item.task.limits
    return await oracle.grade(
        item.exam.hidden, Program(files={**item.task.files, **files}), image=item.task.image, seed=seed,
        limits=limits.command.within(limits.turn).within(limits.episode),
    )
