"""From the events of an attempt to what they say of the task's health. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from quintain.curate.chart import Ending, Run, Sighting
from quintain.types import (
    Attribution,
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Owner,
    Passed,
    Program,
    Ran,
    Severity,
    TestResult,
    Verdict,
    content_digest,
)

#: Failures of the house that say nothing of the task it was busy with.
_NOBODYS = frozenset({
    FaultKind.POLICY_UNREACHABLE, FaultKind.CANCELLED, FaultKind.STORE_ERROR, FaultKind.NODE_LOST,
    FaultKind.CLOCK_JUMPED,
})
_CRASHES = frozenset({FaultKind.VERIFIER_ERROR, FaultKind.HEALTH_CHECK_FAILED})


class Watched:
    """One attempt as it is played: feed it every event; its `sighting` is complete once it was fed Closed."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._program: Program | None = None
        self._visible: bool | None = None
        self._last: Verdict | None = None
        self._solved = False  # what the last verdict says
        self._runs: list[Run] = []
        self._final: Graded | None = None
        self._broke: Fault | None = None

    def feed(self, event: Event) -> None:
        match event:
            case Built(program=program):
                self._program = program
                self._visible = None
            case Ran(verdict=verdict):
                self._visible = verdict.solved if verdict is not None else None
            case Graded(verdict=verdict, final=final):
                if verdict != self._last:  # what is paid for again was run once
                    self._runs += (made := runs_of(verdict, self._program))
                    self._solved = any(not run.failed for run in made)
                self._last = verdict
                self._final = event if final else self._final
            case Broke(fault=fault):
                self._broke = fault
            case _:
                pass

    @property
    def sighting(self) -> Sighting:
        hidden = None
        if self._final is not None and self._broke is None and self._program is not None:
            hidden = self._solved
        return Sighting(
            task=self._opened.task, version=self._opened.task_version, episode=self._opened.episode,
            ending=_ending(self._final, self._broke, solved=self._solved), runs=tuple(self._runs),
            visible=self._visible, hidden=hidden,
        )


def sightings(events: Iterable[Event]) -> Iterable[Sighting]:
    """What each attempt of a run says, in the order in which they closed; attempts that are not closed say nothing."""
    open_ones: dict[str, Watched] = {}
    for event in events:
        if isinstance(event, Opened):
            open_ones[event.episode] = Watched(event)
            continue
        watched = open_ones.get(event.episode)
        if watched is None:
            continue
        watched.feed(event)
        if isinstance(event, Closed):
            del open_ones[event.episode]
            yield watched.sighting


def runs_of(verdict: Verdict, program: Program | None) -> tuple[Run, ...]:
    """What a verdict says of its tests. A solved one: each of its runs passed every test. Of one that is not, only the
    tests on which its own runs do not agree; that the answer was wrong in the others says nothing."""
    if verdict.solved:
        return (Run(trials=verdict.runs, answer=_name_of(program)),)
    torn = [test for test in verdict.tests if is_torn(test)]
    if not torn or program is None:
        return ()
    passed_first = any(t.fault is not None and t.fault.kind is FaultKind.NONDETERMINISTIC for t in torn)
    failed = tuple(test.id for test in torn)
    return (Run(trials=2 if passed_first else 1, failed=failed, answer=_name_of(program)),)


def control_run(verdict: Verdict) -> Run | None:
    """The same of a verdict on the author's own answer, each of whose failures counts; `None` where the house or the
    task failed, so that it was not judged."""
    faults = [f for f in (verdict.fault, *(t.fault for t in verdict.tests)) if f is not None]
    if any(f.owner is not Owner.POLICY and f.kind is not FaultKind.CONFLICTING_RUNS for f in faults):
        return None
    failed = tuple(t.id for t in verdict.tests if t.passed is not Passed.PASSED)
    passed_first = any(f.kind is FaultKind.NONDETERMINISTIC for f in faults)
    return Run(trials=verdict.runs if not failed else 2 if passed_first else 1, failed=failed)


def is_torn(test: TestResult) -> bool:
    """Whether the runs of a test do not agree."""
    torn = (FaultKind.NONDETERMINISTIC, FaultKind.CONFLICTING_RUNS)
    return test.passed is not Passed.PASSED and test.fault is not None and test.fault.kind in torn


def _ending(final: Graded | None, broke: Fault | None, *, solved: bool) -> Ending:
    if broke is not None:
        if broke.owner is Owner.TASK or broke.kind in _CRASHES:
            return Ending.CRASH
        return Ending.NOBODYS if broke.kind in _NOBODYS else Ending.INFRASTRUCTURE
    if final is None:
        return Ending.NOBODYS
    verdict = final.verdict
    if any(flag.severity is Severity.HARD for flag in final.reward.flags):
        return Ending.TAMPER
    if solved:
        return Ending.SOLVED
    faults = [f for f in (verdict.fault, *(t.fault for t in verdict.tests)) if f is not None]
    if any(fault.attribution is Attribution.TAMPER for fault in faults):
        return Ending.TAMPER
    return Ending.TORN if any(is_torn(test) for test in verdict.tests) else Ending.UNSOLVED


def _name_of(program: Program | None) -> str:
    """A short name that is the same for the same answer; never empty, which is the author's."""
    return content_digest(program)[:12] if program is not None else "unknown"
