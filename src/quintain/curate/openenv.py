"""Our checks as validation graders of OpenEnv (RFC 008), for authors who use nothing else of ours.

Entry-point group `openenv.validation.graders`; `openenv validate DIR --level semantic` then measures what it
declares and does not bring along: whether the oracle passes and nothing else does, leaks, repeatability, headroom.
Written against openenv 0.10.0. Covers: directories that hold a task in a form that is read here (a Harbor directory,
our own). For a served environment the checks are skipped, with that reason: there is no exam in its package to try.
Does not cover: their fail or warn; the severity is their policy's.
"""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from quintain.curate.admit import admit_one
from quintain.curate.base import Check
from quintain.curate.checks import (
    Battery,
    Cost,
    Leaks,
    NullAnswers,
    OracleRuns,
    Static,
)
from quintain.curate.finding import Finding, Result
from quintain.curate.site import Site
from quintain.grade import World, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import open_taskset
from quintain.types import TaskError

_SEMANTIC = 3  # their Level.SEMANTIC


class _Subject(Protocol):
    """What of their `Subject` is used: where the package lies."""

    @property
    def root(self) -> Path: ...


class ValidationGrader:
    """One of their graders: `check_id` theirs, `checks` ours, of which the last one's finding is the result."""

    level = _SEMANTIC
    requires_capabilities: frozenset[str] = frozenset()
    requires_provider: frozenset[Any] = frozenset()
    depends_on: tuple[str, ...] = ()

    def __init__(self, check_id: str, *checks: Check) -> None:
        self.check_id = check_id
        self._checks = checks

    def applies_to(self, manifest: object) -> bool:
        """Whether there is a task to try is found out when it is run: a grader sees no more than the manifest here."""
        return True

    def run(self, subject: _Subject) -> Any:
        """Their `CheckResult`. Raises nothing for what the task does."""
        report = importlib.import_module("openenv.validation.report")
        status = importlib.import_module("openenv.validation.types").CheckStatus
        told = outcome_of(subject.root, self._checks)
        return report.CheckResult(
            check_id=self.check_id, status=status(told["status"]), measured=told["measured"],
            evidence=told["evidence"], remediation=told["remedy"] or None, duration_s=told["seconds"])


def outcome_of(root: Path, checks: Sequence[Check]) -> dict[str, Any]:
    """What the checks say of the one task in a folder: status (pass, fail, skip), measured, evidence, remedy, seconds.
    Runs in a thread of its own, so that it works inside somebody's event loop."""
    try:
        tasks = open_taskset(str(root))
        item = tasks[tasks.ids[0]]
    except (TaskError, IndexError) as error:
        return {"status": "skip", "measured": {}, "evidence": [f"no task that can be tried lies here: {error}"],
                "remedy": "", "seconds": 0.0}

    async def examine() -> Finding:
        with tempfile.TemporaryDirectory() as cache:
            async with NativeBackend(warm=warm_oracle()) as backend, NativeBackend() as images:
                site = Site(backend, at_once=2, world=World(images, cache=Path(cache), bases={"*": "host"}))
                return (await admit_one(item, site, checks)).findings[-1]

    with ThreadPoolExecutor(max_workers=1) as thread:
        found = thread.submit(lambda: asyncio.run(examine())).result()
    status = {Result.PASS: "pass", Result.WARN: "pass", Result.FAIL: "fail", Result.NOT_MEASURED: "skip"}[found.result]
    measured: Mapping[str, float] = found.figures
    return {"status": status, "measured": dict(measured), "remedy": found.remedy, "seconds": found.seconds,
            "evidence": [*found.evidence, *(str(problem) for problem in found.problems)]}


def oracle_max() -> ValidationGrader:
    return ValidationGrader("semantic.oracle_max", OracleRuns(pairs=1, more=0, crowd=0))


def floor_gap() -> ValidationGrader:
    return ValidationGrader("semantic.floor_gap", NullAnswers())


def canary_floor() -> ValidationGrader:
    return ValidationGrader("semantic.canary_floor", Battery())


def no_solution_leakage() -> ValidationGrader:
    return ValidationGrader("semantic.no_solution_leakage", Leaks())


def verifier_determinism() -> ValidationGrader:
    return ValidationGrader("semantic.verifier_determinism", OracleRuns())


def verifier_portability() -> ValidationGrader:
    return ValidationGrader("semantic.verifier_portability", Static())


def resource_envelope() -> ValidationGrader:
    return ValidationGrader("semantic.resource_envelope", OracleRuns(pairs=1, more=1, crowd=0), Cost())
