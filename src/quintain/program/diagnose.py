"""What went wrong when a program ran, read from its outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec

from quintain.program._language import Language, Trace
from quintain.program._rows import by_compiler, by_runtime, own_file
from quintain.program._traceback import read_python_traceback, read_v8_stack
from quintain.program.languages import language
from quintain.program.raised import Raised, diagnose_exception
from quintain.types import Fault, FaultKind, KilledBy, Outcome, Owner, Program, Status

MAX_READ_CHARS = 256 * 1024
_SIGNALS = {24: FaultKind.CPU_LIMIT, 25: FaultKind.DISK_LIMIT}  # SIGXCPU, SIGXFSZ
_SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
    31: "SIGSYS",
}
_LIMITS: dict[Status, tuple[FaultKind, str]] = {
    Status.TIMED_OUT: (FaultKind.TIMEOUT, "it was still running after {wall:.1f} s"),
    Status.CPU_LIMIT: (FaultKind.CPU_LIMIT, "it used more processor time than it may"),
    Status.OUT_OF_MEMORY: (FaultKind.OOM_KILL, "it used more memory than it may and was killed"),
    Status.OUTPUT_LIMIT: (FaultKind.OUTPUT_LIMIT, "it wrote more output than it may"),
}


class Stage(StrEnum):
    """What was being done when the output was written."""

    BUILD = "build"
    RUN = "run"


def diagnose_outcome(
    outcome: Outcome, program: Program, *, own_files: Mapping[str, bytes] | None = None,
    declared: Collection[str] = (),
) -> Fault | None:
    """The fault that an outcome shows; `None` for status OK (which is no evidence that anything is right).

    The status comes first: it was measured from outside. Only a program that ended by itself is judged by its stderr,
    by the grammar of its language's runtime. `own_files` are the files of the policy (all of the program's, if not
    given); `declared` the packages or commands that the task promises. Everything that stderr can say is the policy's;
    the house's are only a program that could not be started and one that the caller stopped. Raises ValueError for a
    `program.language` that the table lacks.
    """
    row = language(program.language)
    own = program.files if own_files is None else own_files
    if outcome.status is Status.OK:
        return None
    if outcome.killed_by is KilledBy.USER:
        return Fault(owner=Owner.HOUSE, kind=FaultKind.CANCELLED, message="the caller stopped the program")
    if outcome.status in _LIMITS:
        kind, text = _LIMITS[outcome.status]
        return _policy(kind, text.format(wall=outcome.wall_seconds))
    if outcome.status is Status.NOT_STARTED:
        return _not_started(outcome, program, own)
    stderr = _readable(outcome)
    if outcome.status is Status.SIGNALLED:
        return _signalled(outcome, row, stderr, own)
    return _failed(outcome, row, stderr, own, declared)


def diagnose_output(
    language_name: str, stage: Stage, outcome: Outcome, *, own_files: Mapping[str, bytes] | None = None,
    declared: Collection[str] = (),
) -> Fault | None:
    """The fault that the output of a compiler (`Stage.BUILD`: any command that only checks or builds) or of a program
    (`Stage.RUN`) shows, with file and line; `None` for status OK.

    `own_files` are the policy's, by path; `None` when they are not at hand: relative paths are then taken as they
    stand. A compiler that is not there is the task's fault, everything that it says of the answer the policy's.
    Raises ValueError for a language that the table lacks.
    """
    row = language(language_name)
    if stage is Stage.RUN:
        program = Program(files=dict(own_files or {}), language=row.name)
        fault = diagnose_outcome(outcome, program, declared=declared)
        if fault is not None and own_files is None and outcome.status is Status.FAILED:
            placed = by_runtime(row, _readable(outcome), outcome.exit_code, None)
            return fault if placed is None else msgspec.structs.replace(fault, file=placed.file, line=placed.line)
        return fault
    if outcome.status is not Status.FAILED:
        return diagnose_outcome(outcome, Program(files={}, language=row.name))
    text = outcome.stderr[:MAX_READ_CHARS].decode("utf-8", "replace")
    told = by_compiler(row, text + "\n" + outcome.text[:MAX_READ_CHARS], own_files)
    if told is not None:
        return told
    said = next((line for line in text.splitlines() if line.strip()), "")
    return _policy(FaultKind.BUILD_ERROR, f"it does not build: exit code {outcome.exit_code}"
                                          + (f", {said[:300]!r}" if said else ""))


def _readable(outcome: Outcome) -> str:
    """The end of stderr: what a runtime writes last says why it ended."""
    return outcome.stderr[-MAX_READ_CHARS:].decode("utf-8", "replace")


def _not_started(outcome: Outcome, program: Program, own: Mapping[str, bytes]) -> Fault:
    """The image's business, unless what should start is a file of the answer."""
    command = program.argv[0] if program.argv else ""
    why = outcome.error_text.strip()[-300:] or "no reason given"
    if command.removeprefix("./").removeprefix("/work/") in own:
        return _policy(FaultKind.BUILD_ERROR, f"expected {command!r} to be a file that can be executed; {why}")
    return Fault(
        owner=Owner.TASK, kind=FaultKind.TASK_ENVIRONMENT,
        message=f"expected the image to have {command!r}, could not start it: {why}",
    )


def _signalled(
    outcome: Outcome, row: Language, stderr: str, own: Mapping[str, bytes],
) -> Fault:
    number = outcome.signal or 0
    told = by_runtime(row, stderr, outcome.exit_code, own)
    if told is not None and told.kind in (FaultKind.MEMORY_ERROR, FaultKind.RECURSION_ERROR):
        return told
    kind = _SIGNALS.get(number, FaultKind.CRASH_SIGNAL)
    text = f"signal {number} ({_SIGNAL_NAMES.get(number, 'no name')}) ended it"
    if told is None:
        return _policy(kind, text)
    return msgspec.structs.replace(told, kind=kind, message=f"{text}: {told.message}")


def _failed(
    outcome: Outcome, row: Language, stderr: str, own: Mapping[str, bytes], declared: Collection[str],
) -> Fault:
    if row.trace is Trace.PYTHON:
        raised = read_python_traceback(stderr)
        if raised is not None:
            return diagnose_exception(raised, own_files=own, declared=declared)
    told = by_runtime(row, stderr, outcome.exit_code, own)
    if told is None and row.trace is Trace.LINES:  # compiled and started by one command
        told = by_compiler(row, stderr, own)
    if told is not None and told.kind is FaultKind.MISSING_DEPENDENCY and _is_promised(told, own, declared):
        told = msgspec.structs.replace(told, kind=FaultKind.RUNTIME_ERROR)
    if row.trace is Trace.V8 and (raised := read_v8_stack(stderr)) is not None:
        fault = _from_v8(raised, own)
        return fault if told is None else msgspec.structs.replace(fault, kind=told.kind)
    if told is not None:
        return told
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    return _policy(FaultKind.NONZERO_EXIT, f"it ended with exit code {outcome.exit_code}"
                                           + (f"; stderr ends with {last[:300]!r}" if last else ""))


def _is_promised(fault: Fault, own: Mapping[str, bytes], declared: Collection[str]) -> bool:
    what = fault.exception or ""
    return what in declared or what.startswith((".", "/")) or what in own


def _from_v8(raised: Raised, own: Mapping[str, bytes]) -> Fault:
    """A SyntaxError is the file's own only when its place (a frame without a function) is in an own file and no code
    of the answer was running: `eval` of a broken string is a `runtime_error`."""
    places = [(path, frame) for frame in reversed(raised.frames) if (path := own_file(frame.file, own)) is not None]
    last = raised.frames[-1] if raised.frames else None
    in_file = (
        raised.type == "SyntaxError" and last is not None and not last.function and len(places) == 1
        and places[0][1] is last
    )
    kind = FaultKind.SYNTAX_ERROR if in_file else FaultKind.RUNTIME_ERROR
    text = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return Fault(
        owner=Owner.POLICY, kind=kind, message=text[:500], exception=raised.type,
        file=places[0][0] if places else None, line=places[0][1].line if places else None,
    )


def _policy(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
