"""What the report of a sealed run means, read with the key that only this side has.

Decided from the verifier's side: which of the tests that must fail have passed, which lines were not in the run's own
hand, which of the runner's functions moved, and how the process with the answer in it ended. Pure.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quintain.grade.seal import Sealed
from quintain.program import Frame, Phase, Raised, diagnose_exception
from quintain.types import CLASS_OF, Evidence, Fault, FaultKind, Outcome, Owner, Passed, Status, TestResult

_SHOWN = 5


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One result: a test's, or (`file`) of a test file that could not be loaded."""

    id: str
    ok: bool = False
    why: dict[str, Any] = {}
    file: bool = False


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A report, read. `forged` counts lines that are not in the run's own hand; `moved` names the runner's functions
    that were not where they had been; `status` is the child's wait status, None when the parent did not live to say."""

    ready: bool = False
    unready: str | None = None
    lines: tuple[Line, ...] = ()
    notes: tuple[tuple[int, str], ...] = ()
    forged: int = 0
    moved: tuple[str, ...] = ()
    ended: bool = False
    status: int | None = None
    hung: bool = False
    flood: bool = False


def read_told(report: bytes, word: str) -> Told:
    """The report of one run. The parent's lines are objects and come first and last, the child's are lists in order."""
    rows = report.split(b"\n")
    first, last = _object(rows[0]), _object(next((r for r in reversed(rows) if r), b""))
    if not first.get("ready"):
        return Told(unready=first.get("unready"))
    closed = "status" in last
    middle = [row for row in rows[1:] if row]
    middle = middle[:-1] if closed else middle
    lines: list[Line] = []
    notes: list[tuple[int, str]] = []
    forged, end, places = 0, False, None
    number = 0
    for place, row in enumerate(middle):
        record = _record(row, word, number)
        if record is None:
            cut = place == len(middle) - 1 and row.startswith(f'["{word}", {number}'.encode())
            forged += not cut
            continue
        number += 1
        if "test" in record or "file" in record:
            lines.append(Line(id=str(record.get("test", record.get("file"))), ok=record.get("ok") is True,
                              why=record.get("why") or {}, file="file" in record))
        elif "note" in record:
            notes.append((record["note"], record["value"]))
        elif "end" in record:
            end, places = True, record.get("places")
    before = last.get("places", {}) if closed else {}
    moved = [name for name, at in before.items() if isinstance(places, dict) and places.get(name) != at]
    return Told(
        ready=True, lines=tuple(lines), notes=tuple(notes), forged=forged, moved=tuple(moved), ended=end,
        status=last.get("status") if closed else None, hung=bool(closed and last.get("hung")),
        flood=bool(closed and last.get("flood")),
    )


def _object(row: bytes) -> dict[str, Any]:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _record(row: bytes, word: str, number: int) -> dict[str, Any] | None:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(value, list) and len(value) == 3 and value[0] == word and value[1] == number
    return value[2] if sound and isinstance(value[2], dict) else None


def unsealed(
    sealed: Sealed, told: Told, outcome: Outcome, *, expected: Sequence[str], files: Mapping[str, bytes]
) -> tuple[tuple[TestResult, ...], Fault | None, tuple[Evidence, ...]]:
    """Each expected test once, the fault of the answer as a whole, and what was seen. Everything that goes wrong here
    is the answer's: it had the process to itself."""
    whole = _whole(told, outcome)
    results: dict[str, list[Line]] = {}
    broken: list[Line] = []
    cheerful: list[str] = []
    for line in told.lines:
        base, _, _ = line.id.partition("[")
        if line.file:
            broken.append(line)
        elif base in sealed.canaries:
            cheerful += [sealed.canaries[base]] if line.ok else []
        elif base in sealed.names:
            results.setdefault(sealed.names[base] + line.id[len(base):], []).append(line)
        elif base not in sealed.decoys:
            whole = whole or _policy(FaultKind.REPORT_FORGED, f"{line.id} was reported, and is no test")
    load = next((_fault(line.why, files, Phase.IMPORT) for line in broken), None)
    tests = tuple(_result(name, _lines_of(name, results), load or whole, files) for name in expected)
    fault = whole or load
    if cheerful and fault is None and all(t.passed is Passed.PASSED for t in tests):
        fault = _policy(FaultKind.CANARY_PASSED,
                        f"every test passed, and {len(cheerful)} of {len(sealed.canaries)} that must fail did too")
    if fault is not None and CLASS_OF[fault.kind] == "G":  # nothing that such a run says is believed
        tests = tuple(msgspec.structs.replace(t, passed=Passed.FAILED, fault=t.fault or fault) for t in tests)
    return tests, fault, _seen(told, cheerful)


def _lines_of(name: str, results: Mapping[str, list[Line]]) -> list[Line]:
    """The results of one expected id; of all its parameters where the id names none."""
    if name in results:
        return results[name]
    return [line for found, lines in results.items() if found.partition("[")[0] == name for line in lines[:1]]


def _result(name: str, lines: list[Line], cut: Fault | None, files: Mapping[str, bytes]) -> TestResult:
    if not lines:
        missing = _policy(FaultKind.MISSING_REQUIRED_TEST, f"{name} was not reported")
        return TestResult(id=name, passed=Passed.MISSING, fault=cut or missing)
    bad = next((line for line in lines if not line.ok), None)
    if bad is None:
        return TestResult(id=name, passed=Passed.PASSED)
    return TestResult(id=name, passed=Passed.FAILED, fault=_fault(bad.why, files, Phase.CALL))


def _whole(told: Told, outcome: Outcome) -> Fault | None:
    """What ended or spoiled the run as a whole, worst first."""
    if told.forged:
        return _policy(FaultKind.REPORT_FORGED, f"{told.forged} lines of the report are not in the verifier's hand")
    if told.moved:
        shown = ", ".join(told.moved[:_SHOWN])
        return _policy(FaultKind.VERIFIER_TOUCHED, f"{len(told.moved)} functions of the runner were replaced: {shown}")
    if outcome.status is Status.OUT_OF_MEMORY:
        return _policy(FaultKind.OOM_KILL, "tests and answer used more memory than they may")
    if told.hung or outcome.status is Status.TIMED_OUT:
        return _policy(FaultKind.TIMEOUT, "the tests did not end in time")
    if outcome.status is Status.CPU_LIMIT:
        return _policy(FaultKind.CPU_LIMIT, "tests and answer used more CPU time than they may")
    if told.flood:
        return _policy(FaultKind.OUTPUT_LIMIT, "the report is longer than any honest one")
    if told.status is None:
        return _policy(FaultKind.VERIFIER_TOUCHED, f"the verifier's own process was ended ({outcome.status.value})")
    if told.ended and told.status == 0:
        return None
    if os.WIFSIGNALED(told.status):
        name = signal.Signals(os.WTERMSIG(told.status)).name
        return _policy(FaultKind.CRASH_SIGNAL, f"the process of the tests was ended by {name}")
    code = os.waitstatus_to_exitcode(told.status)
    return _policy(FaultKind.EARLY_EXIT, f"the process of the tests ended with exit code {code} before they did")


def _fault(why: Mapping[str, Any], files: Mapping[str, bytes], phase: Phase) -> Fault:
    """The fault of one failed test, in the words of what it raised; whatever it raised is the answer's."""
    message = str(why.get("message", ""))
    if why.get("skipped"):
        return _policy(FaultKind.SKIPPED_TEST, f"skipped or expected to fail: {message}")
    kind = str(why.get("type", "Unknown"))
    if kind in ("AssertionError", "Failed"):
        return _policy(FaultKind.ASSERTION_ERROR, message)
    at = why.get("at")
    frames = (Frame(file=str(at[0]), line=int(at[1])),) if isinstance(at, list) and len(at) == 2 else ()
    raised = Raised(type=kind, message=message, bases=(kind, *map(str, why.get("bases") or ())), frames=frames,
                    phase=phase, leaves=tuple(map(str, why.get("leaves") or ())), missing=why.get("missing"))
    return diagnose_exception(raised, own_files=files)


def _seen(told: Told, cheerful: Sequence[str]) -> tuple[Evidence, ...]:
    found = [Evidence(source="report", text=f"{len(told.lines)} results, {told.forged} lines in another hand")]
    if cheerful:
        found.append(Evidence(source="canary", text=f"{len(cheerful)} tests that must fail passed: {cheerful[0]}"))
    if told.moved:
        found.append(Evidence(source="runner", text=f"replaced: {', '.join(told.moved[:_SHOWN])}"))
    return tuple(found)


def _policy(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
