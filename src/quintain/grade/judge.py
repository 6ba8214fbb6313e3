"""What the verifier's report and the two measured outcomes mean: which tests passed, and whose each failure is.

Everything is decided from the verifier's side: its own report, and how both processes ended as the backend measured it.
What the candidate says of itself (its frames, its messages) only words a fault that is the candidate's anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.program import Frame, Phase, Raised, Side, diagnose_exception
from quintain.types import (
    CLASS_OF,
    Evidence,
    Fault,
    FaultKind,
    HouseError,
    Outcome,
    Owner,
    Passed,
    Status,
    TestResult,
    Verdict,
)

#: What the use of a wrong value raises: at the load of a test file, one of the answer's constants may have been it.
_OF_VALUES = frozenset({
    "ArithmeticError", "AssertionError", "AttributeError", "LookupError", "TypeError", "ValueError"})


#: Exceptions by which a test tells its runner what to do. Raised by the code under test, they can only be meant for it.
_STEERS: dict[str, FaultKind] = {
    "Exit": FaultKind.EARLY_EXIT, "SkipTest": FaultKind.TAMPER, "Skipped": FaultKind.TAMPER,
    "XFailed": FaultKind.TAMPER,
}


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one failure as the verifier saw it. `candidate` are the candidate's frames ([file, line, function])
    when the exception came across; `at` is the place in the tests; `missing` the module of a failed import,
    `served` whether the candidate must have it; `asked` whether any of its code had been called by then, `got` whether
    any attribute of it had been fetched; `gone` why there is nobody to talk to any more."""

    type: str
    message: str = ""
    at: tuple[str, int] | None = None
    bases: tuple[str, ...] = ()
    candidate: tuple[tuple[str, int, str], ...] | None = None
    leaves: tuple[str, ...] = ()
    gone: str | None = None
    wrong_type: bool = False
    missing: str | None = None
    served: bool | None = None
    asked: bool = False
    got: bool = False
    skipped: bool = False
    task: bool = False


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a report."""

    calls: int
    gone: str | None = None
    received_bytes: int = 0


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the verifier's report. `asked`: from here on the answer's values come in."""

    asked: bool = False
    begin: str | None = None
    test: str | None = None
    ok: bool = False
    why: Why | None = None
    file: str | None = None
    end: End | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a suite: the files of the answer, what the verifier wrote, and how both sides ended. `candidate` is
    None when it was cut off because the verifier had finished."""

    files: dict[str, bytes]
    report: bytes
    verifier: Outcome
    candidate: Outcome | None


class Reading(Protocol):
    """What a failure means in the language of the tests; `loading`: it was a test file's that would not load."""

    def __call__(self, why: Why, run: Run, *, loading: bool = False) -> Fault: ...


def read_report(data: bytes, *, trusted: bool = True) -> list[Line]:
    """The lines of a report; a last line that was cut off is left out. Raises HouseError for anything else, unless the
    tests are not `trusted` and may have written it: then there is nothing before it that counts."""
    lines = data.split(b"\n")
    try:
        return [msgspec.json.decode(line, type=Line) for line in lines[:-1] if line]
    except msgspec.MsgspecError as error:
        if not trusted:
            return []
        raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a line of the verifier's report: {error}") from None


def judge(
    run: Run, *, expected: Sequence[str], closed: bool, trusted: bool = True, reading: Reading | None = None,
) -> tuple[tuple[TestResult, ...], Fault | None]:
    """Each expected test once, and the fault of the program as a whole, if it has one.

    `closed`: nothing but `expected` counts; otherwise tests that only the run could find are added. Raises HouseError
    when the verifier failed by no act of the candidate, unless the tests are not `trusted`: then they ended it.
    `reading` tells what a failure means, for Python's tests if it is not given.
    """
    reading = reading or fault_of
    lines = read_report(run.report, trusted=trusted)
    ended = next((line.end for line in lines if line.end), None)
    began = any(line.begin or line.asked for line in lines)
    cut = None if ended else _cut_short(run.verifier, began=began, trusted=trusted)
    loads = {line.file: reading(line.why, run, loading=True) for line in lines if line.file and line.why}
    seen: dict[str, list[Line]] = {}
    for line in lines:
        if line.test is not None:
            seen.setdefault(line.test, []).append(line)
    if not closed:  # by its text a parametrised test is one, by its report it is many
        expected = [name for name in expected if name in seen or not any(id.startswith(name + "[") for id in seen)]
    names = list(dict.fromkeys([*expected, *(() if closed else seen)]))
    tests = tuple(_result(name, seen.get(name, []), loads, cut, run, reading) for name in names)
    return tests, _whole(tests, loads, ended, cut, run.candidate)


def unplaced(suite: str, expected: Sequence[str], error: OSError, wall_seconds: float) -> Verdict:
    """The verdict on an answer whose files do not fit into its own sandbox: every test is missing, by its own fault."""
    what = f"{error.filename}: " if error.filename else ""
    fault = _policy(FaultKind.DISK_LIMIT, f"the files do not fit into the sandbox: {what}{error.strerror or error}")
    tests = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in expected)
    return Verdict(suite=suite, level="L4", tests=tests, fault=fault, wall_seconds=wall_seconds,
                   build=verifier_build(), evidence=(Evidence(source="files", text=fault.message),))


def _result(
    name: str, lines: list[Line], loads: dict[str, Fault], cut: Fault | None, run: Run, reading: Reading,
) -> TestResult:
    if len(lines) == 1:
        line = lines[0]
        if line.ok:
            return TestResult(id=name, passed=Passed.PASSED)
        why = line.why or Why(type="Unknown", message="failed without a reason")
        return TestResult(id=name, passed=Passed.FAILED, fault=reading(why, run))
    if lines:
        fault = _policy(FaultKind.MISSING_REQUIRED_TEST, f"expected one report of {name}, found {len(lines)}")
        return TestResult(id=name, passed=Passed.FAILED, fault=fault)
    load = next((f for place, f in loads.items() if name == place or name.startswith(place + "::")), None)
    missing = _policy(FaultKind.MISSING_REQUIRED_TEST, f"{name} was not reported")
    return TestResult(id=name, passed=Passed.MISSING, fault=load or cut or missing)


def _whole(
    tests: tuple[TestResult, ...], loads: dict[str, Fault], ended: End | None, cut: Fault | None,
    candidate: Outcome | None,
) -> Fault | None:
    faults = [t.fault for t in tests if t.fault]
    task = next((f for f in [*loads.values(), *faults] if f.owner is Owner.TASK), None)
    if task is not None:
        return task
    if loads:
        return next(iter(loads.values()))
    if cut is not None:
        return cut
    if ended is not None and ended.gone is not None:
        return fault_of_end(ended.gone, candidate)
    if not tests:
        return Fault(owner=Owner.TASK, kind=FaultKind.NO_TESTS_RUN, message="the suite has no tests")
    return None


def _cut_short(verifier: Outcome, *, began: bool, trusted: bool = True) -> Fault:
    """Why a report has no end. The verifier's own code is the same for every candidate, so running out of time or
    memory once the candidate was asked is what its values made of it; any other end is the house's."""
    if verifier.status is Status.TIMED_OUT or verifier.status is Status.CPU_LIMIT:
        return _policy(FaultKind.TIMEOUT, f"the tests did not end within {verifier.wall_seconds:.1f} s")
    if verifier.status is Status.OUT_OF_MEMORY and began:
        return _policy(FaultKind.OOM_KILL, "a test ran out of memory on the values that it was given")
    if not trusted and verifier.status is not Status.NOT_STARTED:
        return _policy(FaultKind.EARLY_EXIT, f"the tests ended their own run ({verifier.status.value})")
    said = verifier.error_text[-500:].strip()
    how = f"exit code {verifier.exit_code}" if verifier.signal is None else f"signal {verifier.signal}"
    raise HouseError(FaultKind.VERIFIER_ERROR, f"the verifier ended early ({verifier.status.value}, {how}): {said}")


def fault_of(why: Why, run: Run, *, loading: bool = False) -> Fault:
    """Whose a failure is, and of what kind. `loading`: it happened while a test file was being loaded."""
    if why.gone is not None:
        return fault_of_end(why.gone, run.candidate)
    if why.candidate is not None:
        return _raised_there(why, run, loading=loading)
    return _raised_here(why, loading=loading)


def _raised_here(why: Why, *, loading: bool) -> Fault:
    """The fault of an exception that the tests' own code raised. Once the answer's code was asked for something, its
    values may have made the tests fail: such a failure is not laid on the task."""
    file, line = why.at or (None, None)
    swayed = why.asked or (why.got and not _OF_VALUES.isdisjoint(why.bases))
    phase = Phase.IMPORT if loading and not swayed else Phase.CALL
    frames = (Frame(file=file, line=line),) if file and line else ()
    fault = diagnose_exception(_record(why, frames, phase), own_files={}, side=Side.VERIFIER)
    if why.task:
        return msgspec.structs.replace(fault, owner=Owner.TASK, kind=(
            FaultKind.TASK_ENVIRONMENT if "ImportError" in why.bases else FaultKind.TASK_INVALID))
    policy: FaultKind | None = None
    if why.skipped:
        policy = FaultKind.SKIPPED_TEST
    elif why.wrong_type:
        policy = FaultKind.WRONG_TYPE
    elif why.served:
        policy = FaultKind.MISSING_ENTRY_POINT
    elif why.type == "Failed":  # pytest.fail, and pytest.raises that saw nothing
        policy = FaultKind.ASSERTION_ERROR
    return fault if policy is None else msgspec.structs.replace(fault, owner=Owner.POLICY, kind=policy)


def _raised_there(why: Why, run: Run, *, loading: bool) -> Fault:
    """The fault of an exception that the candidate's code raised, whatever its type is called."""
    told = why.candidate or ()
    frames = tuple(Frame(file=f, line=n, function="" if w == "<syntax>" else w) for f, n, w in told)
    phase = Phase.IMPORT if loading else Phase.CALL
    fault = diagnose_exception(_record(why, frames, phase), own_files=run.files)
    if why.type in _STEERS and not _defines(why.type, run.files):
        return msgspec.structs.replace(fault, kind=_STEERS[why.type])
    absent = bool(told) and told[-1][2] == "<missing>"
    if absent or (not told and "AttributeError" in why.bases):  # asked for something that is not there
        return msgspec.structs.replace(fault, kind=FaultKind.MISSING_ENTRY_POINT)
    return fault


def _defines(name: str, files: Mapping[str, bytes]) -> bool:
    """Whether the answer makes a class of its own under that name, or works without the runners that own it."""
    text = b"\n".join(files.values())
    return f"class {name}".encode() in text or (b"pytest" not in text and b"unittest" not in text)


def _record(why: Why, frames: tuple[Frame, ...], phase: Phase) -> Raised:
    bases = why.bases if why.type in why.bases else (why.type, *why.bases)
    return Raised(type=why.type, message=why.message, bases=bases, frames=frames, phase=phase, leaves=why.leaves,
                  missing=why.missing)


def fault_of_end(why: str, candidate: Outcome | None) -> Fault:
    """Why the candidate's process no longer answers."""
    if candidate is not None and candidate.status is Status.NOT_STARTED:
        raise HouseError(FaultKind.VERIFIER_ERROR, f"the candidate's interpreter: {candidate.error_text[-300:]}")
    status = None if candidate is None else candidate.status
    if status is Status.OUT_OF_MEMORY:
        return _policy(FaultKind.OOM_KILL, "the program used more memory than it may")
    if status is Status.CPU_LIMIT:
        return _policy(FaultKind.CPU_LIMIT, "the program used more CPU time than it may")
    if why == "hung" or status is Status.TIMED_OUT:
        return _policy(FaultKind.TIMEOUT, "the program did not answer in time")
    if why == "forged":
        return _policy(FaultKind.TAMPER, "the program wrote to the descriptor on which it is asked")
    if why == "flood":
        return _policy(FaultKind.OUTPUT_LIMIT, "the program's answers are too large")
    if candidate is not None and candidate.signal is not None:
        return _policy(FaultKind.CRASH_SIGNAL, f"the program was ended by signal {candidate.signal}")
    code = None if candidate is None else candidate.exit_code
    if code:
        return _policy(FaultKind.NONZERO_EXIT, f"the program ended with exit code {code} while it was being asked")
    return _policy(FaultKind.EARLY_EXIT, "the program ended while it was being asked")


def _policy(
    kind: FaultKind, message: str, *, file: str | None = None, line: int | None = None, exception: str | None = None
) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message, file=file, line=line or None, exception=exception)


def headline(verdict: Verdict) -> Fault | None:
    """The one fault to name an attempt by: the program's as a whole, else that of its first failed test."""
    return verdict.fault or next((t.fault for t in verdict.tests if t.fault), None)


def both(first: Verdict, second: Verdict) -> Verdict:
    """A verdict and its confirmation: only what passed twice has passed. The answer may not depend on the seed of
    hashes, the order of tests or the name of the directory.

    `runs` counts both only where they agree on every test. What passed and then failed is laid on the answer
    (`nondeterministic`), since the verifier saw another value from it in the same test; but a second run that met a
    limit depends on the load of the house too, and what failed and then passed was never right or never wrong: both
    are `conflicting_runs`, which is masked. In no case is it paid.
    """
    again = {t.id: t for t in second.tests}
    pairs = [(t, again.get(t.id, TestResult(id=t.id, passed=Passed.MISSING))) for t in first.tests]
    tests = tuple(one if one.passed is two.passed else _torn(one, two) for one, two in pairs)
    agree = all(one.passed is two.passed for one, two in pairs)
    return msgspec.structs.replace(
        first, tests=tests, fault=first.fault or second.fault,
        wall_seconds=first.wall_seconds + second.wall_seconds,
        cpu_seconds=None if first.cpu_seconds is None or second.cpu_seconds is None
        else first.cpu_seconds + second.cpu_seconds,
        evidence=(*first.evidence, *evidence.of_run(first.runs + 1, second.evidence)),
        runs=first.runs + second.runs if agree else 1,
    )


def _torn(one: TestResult, two: TestResult) -> TestResult:
    """The result of a test on which two runs do not agree."""
    if one.passed is not Passed.PASSED and two.passed is not Passed.PASSED:  # failed, and missing
        return one
    if two.passed is Passed.PASSED:
        said = f": {one.fault.message}" if one.fault else ""
        return TestResult(id=one.id, passed=Passed.FAILED, fault=_conflict(f"failed once, and passed again{said}"))
    text = "passed once, and failed with another seed, order and directory"
    if two.fault is None:
        return TestResult(id=one.id, passed=Passed.FAILED, fault=_policy(FaultKind.NONDETERMINISTIC, text))
    text += f": {two.fault.message}"
    letter = CLASS_OF[two.fault.kind]
    if letter in "BCDF" and two.fault.owner is Owner.POLICY:
        fault = msgspec.structs.replace(two.fault, kind=FaultKind.NONDETERMINISTIC, message=text)
    elif letter == "E" and two.fault.owner is Owner.POLICY:
        fault = _conflict(text)
    else:  # tampering, the task's or the house's: it keeps its name
        fault = msgspec.structs.replace(two.fault, message=text)
    return TestResult(id=one.id, passed=Passed.FAILED, fault=fault)


def replays(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict out of several on the same answer, judged anew each time. There is no vote and the last does not win:
    where any two differ in what they solved, or in a test, the whole is `conflicting_runs` and has no reward. Raises
    ValueError for none."""
    if not verdicts:
        raise ValueError("expected at least one verdict, found none")
    first = verdicts[0]
    seen = {(v.solved, tuple(sorted((t.id, t.passed.value) for t in v.tests))) for v in verdicts}
    if len(seen) == 1:
        return msgspec.structs.replace(first, runs=sum(v.runs for v in verdicts))
    told = ", ".join("passed" if v.solved else f"failed ({v.share:.2f})" for v in verdicts)
    conflict = _conflict(f"the same answer, judged {len(verdicts)} times: {told}")
    return msgspec.structs.replace(first, runs=1, fault=conflict)


def _conflict(message: str) -> Fault:
    return Fault(owner=Owner.HOUSE, kind=FaultKind.CONFLICTING_RUNS, message=message)
