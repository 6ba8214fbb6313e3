"""Whether a suite is steady: the known-good answer passes it in every order, seed, time zone, and each test alone.

A suite that fails its own answer now and then pays by chance. n clean runs exclude, at 95 %, only a failure rate above
1 - 0.05^(1/n): 20 runs exclude 14 %, 100 exclude 3 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from quintain.grade.judge import headline
from quintain.grade.oracle import Oracle
from quintain.sandbox import DEFAULT_LIMITS, Backend
from quintain.tasks import PythonSuite, Suite, names_of
from quintain.types import Fault, FaultKind, Limits, Owner, Program

#: West and east of Greenwich, and on it: a date that depends on the host's zone differs in one of them.
ZONES = ("UTC", "Asia/Tokyo", "America/New_York")
_MOST_ALONE = 50


async def unsteady(
    backend: Backend, suite: Suite, answer: Program, *, runs: int = 20, zones: Sequence[str] = ZONES,
    image: str = "host", limits: Limits = DEFAULT_LIMITS, site: Sequence[Path] = (),
) -> Fault | None:
    """The task's fault of a suite that does not always pass its own known-good `answer`, `None` when all runs did.

    Each of the `runs` is one in order and one shuffled, with seeds of their own, in the next of `zones`; then each test
    of a Python suite runs alone. The network is off, as it is when answers are judged. Stops at the first failure.
    Raises HouseError when the house fails, ValueError for fewer than one run.
    """
    if runs < 1 or not zones:
        raise ValueError(f"expected at least one run and one zone, found runs = {runs} and {len(zones)} zones")
    for nth in range(runs):
        zone = zones[nth % len(zones)]
        oracle = Oracle(backend, site=site, env={"TZ": zone})
        verdict = await oracle.grade(suite, answer, image=image, limits=limits, seed=2 * nth, confirm=True)
        if not verdict.solved:
            return _flaky(f"run {nth + 1} of {runs} (seed {2 * nth}, zone {zone})", headline(verdict))
    names = names_of(suite)
    if not isinstance(suite, PythonSuite) or len(names) < 2:
        return None
    oracle = Oracle(backend, site=site, confirm=False)
    for name in names[:_MOST_ALONE]:
        alone = msgspec.structs.replace(suite, required=(name,), files=suite.files)
        verdict = await oracle.grade(alone, answer, image=image, limits=limits)
        if not verdict.solved:
            return _flaky(f"{name} alone", headline(verdict))
    return None


def _flaky(when: str, fault: Fault | None) -> Fault:
    why = fault.message if fault is not None else "no reason"
    return Fault(
        owner=Owner.TASK, kind=FaultKind.TASK_INVALID, file=fault.file if fault else None,
        line=fault.line if fault else None,
        message=f"flaky: expected the known-good answer to pass every time, it failed in {when}: {why}",
    )
