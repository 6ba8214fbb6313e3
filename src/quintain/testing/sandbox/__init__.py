"""The conformance kit for sandboxes: what every backend must do, run against yours by one function.

    report = await check_backend(backend)
    print(report)
    assert report.passed

A scenario that needs what the backend declares not to have is 'not offered', with the need named; nothing is skipped in
silence. On the command line: `python -m quintain.testing.sandbox native`.
Covers: time-outs, process trees, output, stdin, memory, processes, CPU, disk, inodes, leaks, the file service, secrets,
network, identity of forks: the behaviour that users of peer systems found missing.
Does not cover: resistance to deliberate escapes (see tests/adversary/escapes), speed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from quintain.sandbox import Backend, Capabilities
from quintain.testing.sandbox.canary import Canary, canary
from quintain.testing.sandbox.play import play
from quintain.testing.sandbox.scenario import Expect, Scenario, Step, scenarios
from quintain.testing.sandbox.verdict import lacking
from quintain.types import Network

__all__ = ["Expect", "Report", "Row", "Scenario", "Step", "Verdict", "check_backend", "scenarios"]


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario on one backend. `evidence` says what was wrong, or which declared need is not met."""

    id: str
    title: str
    verdict: Verdict
    evidence: str = ""
    seconds: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the kit found of one backend; printed, it is a table."""

    backend: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether anything was played and nothing failed."""
        return any(r.verdict is Verdict.PASSED for r in self.rows) and not self.failures

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(r for r in self.rows if r.verdict is Verdict.FAILED)

    def count(self, verdict: Verdict) -> int:
        return sum(r.verdict is verdict for r in self.rows)

    def __str__(self) -> str:
        width = max((len(r.id) for r in self.rows), default=0)
        lines = [
            f"{r.verdict.value:<11}  {r.id:<{width}}  {r.seconds:6.2f} s  {r.title}"
            + (f"\n{'':13}{r.evidence}" if r.evidence else "")
            for r in self.rows
        ]
        counts = ", ".join(f"{self.count(v)} {v.value}" for v in Verdict)
        return "\n".join([*lines, f"{self.backend}: {counts}"])


async def check_backend(backend: Backend, only: Sequence[str] = (), *, at_once: int = 3) -> Report:
    """Play every scenario (or those whose id begins with one of `only`) on a backend, `at_once` of them side by side.

    Raises ValueError when the backend is not available here (the message names what is missing) or when nothing in
    the kit fits `only`.
    """
    capabilities = backend.probe()
    if not capabilities.available:
        raise ValueError(f"expected an available backend, found {capabilities.name} missing {capabilities.missing}")
    chosen = [s for s in scenarios() if not only or s.id.startswith(tuple(only))]
    if not chosen:
        raise ValueError(f"expected ids of scenarios, found none that begin with {list(only)}")
    network = Network.NONE if Network.NONE in capabilities.networks else capabilities.networks[0]
    places = asyncio.Semaphore(at_once)
    rows: dict[str, Row] = {}

    async def judge(scenario: Scenario, bird: Canary) -> None:
        async with places:
            rows[scenario.id] = await _row(backend, capabilities, scenario, bird, network)

    with canary() as bird:
        async with asyncio.TaskGroup() as group:
            for scenario in chosen:
                if not scenario.alone:
                    group.create_task(judge(scenario, bird))
        for scenario in chosen:
            if scenario.alone:
                await judge(scenario, bird)
    return Report(backend=capabilities.name, rows=tuple(rows[s.id] for s in chosen))


async def _row(
    backend: Backend, capabilities: Capabilities, scenario: Scenario, bird: Canary, network: Network
) -> Row:
    need = lacking(capabilities, scenario)
    if need is not None:
        return Row(id=scenario.id, title=scenario.title, verdict=Verdict.NOT_OFFERED, evidence=f"needs {need}")
    started = time.monotonic()
    wrong = await play(backend, scenario, bird, network)
    return Row(
        id=scenario.id, title=scenario.title, verdict=Verdict.FAILED if wrong else Verdict.PASSED, evidence=wrong,
        seconds=time.monotonic() - started,
    )
