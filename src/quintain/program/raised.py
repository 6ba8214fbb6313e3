"""What kind of failure an exception is, and whose."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec

from quintain.program.check import check_source
from quintain.program.languages import language_of_path
from quintain.types import Fault, FaultKind, Owner


class Phase(StrEnum):
    """What was being done: the module was imported (or the program run as a script), or a function of it called."""

    IMPORT = "import"
    CALL = "call"


class Side(StrEnum):
    """In whose process it was raised first. Only what the verifier's own process raises can be laid on the task; an
    exception that crossed the pipe and was raised again there stays the candidate's."""

    CANDIDATE = "candidate"
    VERIFIER = "verifier"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a traceback. `line` counts from 1; `function` is empty for the place of a SyntaxError."""

    file: str
    line: int
    function: str = ""


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """An exception as a record: never the object, whose `__str__` belongs to the policy.

    `type` is the class name without module; `bases` are the names in its method resolution order, `type` itself first
    (empty when only text was seen); `message` is `None` when it could not be produced; `frames` oldest first; `leaves`
    the type names inside an exception group, depth first; `missing` the module that a ModuleNotFoundError names.
    """

    type: str
    message: str | None = None
    bases: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    phase: Phase = Phase.CALL
    leaves: tuple[str, ...] = ()
    missing: str | None = None


#: Exceptions of a candidate that mean something of their own; the first row found in the MRO decides.
_KINDS: dict[str, FaultKind] = {
    "SystemExit": FaultKind.EARLY_EXIT,
    "_ArrayMemoryError": FaultKind.MEMORY_ERROR,  # numpy's, a MemoryError by its bases
    "MemoryError": FaultKind.MEMORY_ERROR,
    "RecursionError": FaultKind.RECURSION_ERROR,
}
_SYNTAX_TYPES = frozenset({"SyntaxError", "IndentationError", "TabError"})
_ERRNO: dict[str, FaultKind] = {"[Errno 28]": FaultKind.DISK_LIMIT, "[Errno 122]": FaultKind.DISK_LIMIT}
_VALUE_TYPES = frozenset({"TypeError", "AttributeError", "KeyError", "IndexError"})


def diagnose_exception(
    raised: Raised, *, own_files: Mapping[str, bytes], declared: Collection[str] = (), side: Side = Side.CANDIDATE,
) -> Fault:
    """The fault that an exception is. `own_files` are the candidate's (path → bytes, relative to the work tree, however
    the frames' paths are rooted), `declared` the packages that the task promises.

    Candidate's side: always the policy's, whatever it says, or crashing would be a way out. The type decides, never the
    message; an AssertionError there is a `runtime_error`. SyntaxError is `syntax_error` only if one of the own files
    does not compile. ModuleNotFoundError is `missing_dependency` only for a module neither declared nor own.
    Verifier's side: AssertionError is the policy's `assertion_error`; a missing module, or a test file that cannot be
    imported, is the task's; an error over the answer's value is `wrong_type` or `wrong_answer`.
    """
    if side is Side.VERIFIER:
        return _in_verifier(raised)
    place = _own_place(raised.frames, own_files)
    kind = _kind(raised, own_files, declared)
    if kind is FaultKind.SYNTAX_ERROR:
        broken = _broken_file(raised, own_files)
        if broken is not None:
            return msgspec.structs.replace(broken, exception=raised.type)
    return Fault(
        owner=Owner.POLICY, kind=kind, message=_describe(raised), exception=raised.type,
        file=place[0] if place else None, line=place[1] if place else None,
    )


def _kind(raised: Raised, own_files: Mapping[str, bytes], declared: Collection[str]) -> FaultKind:
    lineage = raised.bases or (raised.type,)
    if lineage[0] in _SYNTAX_TYPES or raised.type in _SYNTAX_TYPES:
        return FaultKind.SYNTAX_ERROR if _does_not_build(raised, own_files) else FaultKind.RUNTIME_ERROR
    for name in lineage:
        if name in _KINDS:
            return _KINDS[name]
    if raised.type == "EOFError":  # not a subclass: asyncio.IncompleteReadError is no question to stdin
        return FaultKind.READS_STDIN
    if "ModuleNotFoundError" in lineage:
        module = _missing_module(raised)
        if module is not None and not _is_known(module, own_files, declared):
            return FaultKind.MISSING_DEPENDENCY
    if raised.type == "OSError" and raised.message is not None:
        return _ERRNO.get(raised.message.split("]", 1)[0] + "]", FaultKind.RUNTIME_ERROR)
    return FaultKind.RUNTIME_ERROR


def _missing_module(raised: Raised) -> str | None:
    if raised.missing is not None:
        return raised.missing
    head, _, rest = (raised.message or "").partition("No module named ")
    if head or not rest.startswith("'"):
        return None
    return rest[1:].partition("'")[0] or None


def _is_known(module: str, own_files: Mapping[str, bytes], declared: Collection[str]) -> bool:
    top = module.split(".", 1)[0]
    promised = {_normal(package) for package in declared}
    own = any(path.startswith(f"{top}/") or path == f"{top}.py" for path in own_files)
    return own or _normal(top) in promised or _normal(module) in promised


def _normal(package: str) -> str:
    return package.lower().replace("-", "_").replace(".", "_")


def _does_not_build(raised: Raised, own_files: Mapping[str, bytes]) -> bool:
    """Whether a file of the answer is what did not compile: it fails the check, or the error's own place is in it (a
    Python with another grammar than ours refused it); `eval` of a broken string has its place in no file."""
    if _broken_file(raised, own_files) is not None:
        return True
    last = raised.frames[-1] if raised.frames else None
    return last is not None and not last.function and _own_path(last.file, own_files) is not None


def _broken_file(raised: Raised, own_files: Mapping[str, bytes]) -> Fault | None:
    """The fault of the own file that does not compile; of several, the one that the frames name."""
    named = [_own_path(frame.file, own_files) for frame in reversed(raised.frames)]
    order = [path for path in named if path is not None]
    if raised.phase is Phase.IMPORT:  # a file that does not compile has no frame of its own
        order += sorted(own_files)
    for path in dict.fromkeys(order):
        row = language_of_path(path)
        fault = check_source(path, own_files[path]) if row is not None and row.name == "python" else None
        if fault is not None and fault.kind is FaultKind.SYNTAX_ERROR:
            return fault
    return None


def _own_path(file: str, own_files: Mapping[str, bytes]) -> str | None:
    """The own file that a frame's file name means, `/work/a/b.py` or `a/b.py`; the longest that fits."""
    name = file.removeprefix("file://").removeprefix("./")
    if name in own_files:
        return name
    if not name.startswith("/"):
        return None
    parts = name.split("/")
    for start in range(1, min(len(parts), 64)):
        tail = "/".join(parts[start:])
        if tail in own_files:
            return tail
    return None


def _own_place(frames: tuple[Frame, ...], own_files: Mapping[str, bytes]) -> tuple[str, int] | None:
    """The deepest frame in the candidate's own files."""
    for frame in reversed(frames):
        path = _own_path(frame.file, own_files)
        if path is not None:
            return path, frame.line
    return None


def _describe(raised: Raised) -> str:
    text = raised.message
    said = " (its text could not be produced)" if text is None else f": {text[:500]}" if text else ""
    leaves = f" [leaves: {', '.join(raised.leaves[:20])}]" if raised.leaves else ""
    return f"{raised.type}{said}{leaves}"


def _in_verifier(raised: Raised) -> Fault:
    last = raised.frames[-1] if raised.frames else None
    lineage = raised.bases or (raised.type,)
    owner, kind = Owner.POLICY, FaultKind.WRONG_ANSWER
    if "ImportError" in lineage or "ModuleNotFoundError" in lineage:
        owner, kind = Owner.TASK, FaultKind.TASK_ENVIRONMENT
    elif raised.phase is Phase.IMPORT or "NameError" in lineage or _SYNTAX_TYPES & set(lineage):
        owner, kind = Owner.TASK, FaultKind.TASK_INVALID
    elif "AssertionError" in lineage:
        kind = FaultKind.ASSERTION_ERROR
    elif _VALUE_TYPES & set(lineage):
        kind = FaultKind.WRONG_TYPE
    return Fault(
        owner=owner, kind=kind, message=_describe(raised), exception=raised.type,
        file=last.file if last else None, line=last.line if last else None,
    )
