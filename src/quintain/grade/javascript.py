"""JavaScript answers out of process: the tests in one node process, the answer in another, in sandboxes of their own.

Covers: as the Python oracle does (no test and no expected value in the candidate's process, results from the verifier's
own output, a second run to confirm); functions, classes and their objects, callbacks, promises, thrown errors.
Does not cover: tests that compare two objects of the answer by anything but their properties, derive from its classes,
replace its modules or the clock; a container that either side changes later without a call.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cache
from importlib import resources

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.grade.doubt import is_the_houses
from quintain.grade.judge import Run, Why, fault_of_end, judge, unplaced
from quintain.grade.pair import Command, converse
from quintain.sandbox import Backend
from quintain.tasks import JavaScriptSuite
from quintain.types import (
    MEBIBYTE,
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Outcome,
    Owner,
    Status,
    TaskError,
    Verdict,
    content_digest,
)

NODE = ("node", "--experimental-vm-modules", "--no-warnings", "--stack-size=900")
_SHARED = ("wire", "values", "peer", "loader")
_PARTS = {"candidate": (*_SHARED, "candidate"), "verifier": (*_SHARED, "equality", "expect", "describe", "verifier")}
_STARTS = {"candidate": "serveCandidate()", "verifier": "verify()"}
_GRACE_SECONDS = 3.0
_VERIFIER_MEMORY_BYTES = 768 * MEBIBYTE
_CANDIDATE_MEMORY_BYTES = 192 * MEBIBYTE  # node itself needs about 40 MiB, and as much again to collect garbage
_TEST_SECONDS = 25.0  # how long one asynchronous test may take: five times what jest gives, for the way across


@cache
def _program(side: str) -> str:
    """The text of one side, joined, in a function of its own so that nothing of it is global."""
    folder = resources.files("quintain.grade.inside").joinpath("javascript")
    parts = [folder.joinpath(f"{part}.js").read_text("utf-8") for part in _PARTS[side]]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + f"\n{_STARTS[side]};\n}})();\n"


async def examine_javascript(
    backend: Backend, suite: JavaScriptSuite, files: Mapping[str, bytes], *, image: str, limits: Limits, seed: int,
    shuffled: bool,
) -> tuple[Verdict, Outcome | None, Outcome | None]:
    """One run of the suite, and what was measured of the verifier and the candidate. Raises HouseError, TaskError where
    the image has no node."""
    started = time.monotonic()
    tests = test_files(suite)
    if not tests:
        raise TaskError("expected JavaScript test files (*.test.js, *.spec.js, test*.js) or required ids, found "
                        f"{', '.join(sorted(suite.files)) or 'nothing'}", kind=FaultKind.NO_TESTS_RUN)
    folder = hashlib.sha256(f"{seed} {shuffled}".encode()).hexdigest()[:8]
    wide = msgspec.structs.replace(
        limits, wall_seconds=limits.wall_seconds + _GRACE_SECONDS, cpu_seconds=limits.cpu_seconds + _GRACE_SECONDS,
        memory_bytes=max(limits.memory_bytes, _VERIFIER_MEMORY_BYTES), output_bytes=16 * MEBIBYTE,
        processes=max(limits.processes, 64))
    narrow = msgspec.structs.replace(
        limits, wall_seconds=limits.wall_seconds + _GRACE_SECONDS,
        memory_bytes=max(limits.memory_bytes, _CANDIDATE_MEMORY_BYTES), processes=max(limits.processes, 32))
    async with AsyncExitStack() as stack:
        (verifier,) = await stack.enter_async_context(backend.open(image, limits=wide))
        (candidate,) = await stack.enter_async_context(backend.open(image, limits=narrow))
        try:
            await verifier.files.write_many({f"{folder}/{path}": content for path, content in suite.files.items()})
        except OSError as error:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"the tests cannot be written: {error}") from None
        try:
            await candidate.files.write_many({f"{folder}/{path}": content for path, content in files.items()})
        except OSError as error:  # too many, too large, a name too long: the answer's doing, and judged
            if is_the_houses(error, files, narrow):
                raise HouseError(FaultKind.SANDBOX_LOST, f"the answer cannot be written: {error}") from None
            return unplaced(content_digest(suite), suite.required, error, time.monotonic() - started), None, None
        if not files:
            await candidate.files.make_dir(folder)
        drawn = int.from_bytes(hashlib.sha256(f"{content_digest(suite)} {seed}".encode()).digest()[:3], "big") + 1
        config = {"files": tests, "modules": list(suite.modules), "seed": drawn if shuffled else None,
                  "testSeconds": min(_TEST_SECONDS, limits.wall_seconds), "contexts": False}
        cwd = f"/work/{folder}"
        ends = await converse(
            Command(sandbox=verifier, argv=[*NODE, f"--random-seed={drawn}", "-e", _program("verifier")],
                    stdin=msgspec.json.encode(config), cwd=cwd),
            Command(sandbox=candidate, argv=[*NODE, "-e", _program("candidate")], cwd=cwd),
            call_seconds=limits.wall_seconds)
    run = Run(files=dict(files), report=ends[0].stdout, verifier=ends[0], candidate=ends[1])
    if ends[0].status is Status.NOT_STARTED:
        raise TaskError(f"JavaScript tests need node in the image {image!r}: {ends[0].error_text[-200:].strip()}",
                        kind=FaultKind.TASK_ENVIRONMENT)
    tests_found, fault = judge(run, expected=suite.required, closed=bool(suite.required), reading=fault_of_javascript)
    used = [o.cpu_seconds for o in ends if o is not None and o.cpu_seconds is not None]
    verdict = Verdict(
        suite=content_digest(suite), level="L4", tests=tests_found, fault=fault, build=verifier_build(),
        wall_seconds=time.monotonic() - started, cpu_seconds=sum(used) if used else None, evidence=(
            *evidence.of_report(run.report), *evidence.of_outcome("verifier", run.verifier),
            *evidence.of_outcome("candidate", run.candidate)))
    return verdict, *ends


def test_files(suite: JavaScriptSuite) -> list[str]:
    """Which files of a suite hold tests: those that the required ids name, else those that are named like tests."""
    if suite.required:
        named = {name.partition("::")[0] for name in suite.required}
        return [path for path in suite.files if path in named]
    return [path for path in suite.files if is_javascript_test(path)]


def is_javascript_test(path: str) -> bool:
    """Whether a path is named as test collectors expect it: `*.test.js`, `*.spec.js`, `test*.js`, `__tests__/*.js`."""
    folder, _, name = path.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    if suffix not in ("js", "mjs", "cjs"):
        return False
    return stem.endswith((".test", ".spec")) or stem.startswith("test") or folder.endswith("__tests__")


def fault_of_javascript(why: Why, run: Run, *, loading: bool = False) -> Fault:
    """Whose a failure of a JavaScript test is, and of what kind; `loading`: of a test file as a whole."""
    if why.gone is not None:
        return fault_of_end(why.gone, run.candidate)
    if why.candidate is not None:
        return _raised_there(why, run)
    owner, kind = Owner.POLICY, FaultKind.WRONG_ANSWER
    if why.task:
        owner, kind = Owner.TASK, FaultKind.TASK_INVALID
    elif why.skipped:
        kind = FaultKind.SKIPPED_TEST
    elif why.wrong_type:
        kind = FaultKind.WRONG_TYPE
    elif why.served or why.missing is not None:
        kind = FaultKind.MISSING_ENTRY_POINT
    elif "AssertionError" in why.bases:
        kind = FaultKind.ASSERTION_ERROR
    elif not (why.asked or why.got):
        owner, kind = Owner.TASK, FaultKind.TASK_INVALID
        if why.type == "Error" and "Cannot find module" in why.message:
            kind = FaultKind.TASK_ENVIRONMENT
    elif why.type == "TypeError":
        kind = FaultKind.WRONG_TYPE
    file, line = why.at or (None, None)
    return Fault(owner=owner, kind=kind, message=_told(why), file=file, line=line or None, exception=why.type)


def _raised_there(why: Why, run: Run) -> Fault:
    """The fault of an error that the candidate's code raised, whatever it is called."""
    own = [(file, line) for file, line, _ in why.candidate or () if file in run.files]
    place = own[-1] if own else (None, None)
    kind = FaultKind.RUNTIME_ERROR
    if why.served:
        kind = FaultKind.MISSING_ENTRY_POINT
    elif why.wrong_type:
        kind = FaultKind.WRONG_TYPE
    elif why.type == "SyntaxError" and (not why.asked or not own):
        kind = FaultKind.SYNTAX_ERROR
    elif why.type == "RangeError" and why.message.startswith("Maximum call stack"):
        kind = FaultKind.RECURSION_ERROR
    elif why.message.startswith("Cannot find ") and not why.asked:
        kind = FaultKind.MISSING_DEPENDENCY
    return Fault(owner=Owner.POLICY, kind=kind, message=_told(why), exception=why.type, file=place[0],
                 line=place[1] or None)


def _told(why: Why) -> str:
    if why.served:
        return f"expected the answer to have {why.message!r}, found nothing of that name"
    return f"{why.type}: {why.message}"[:1000] if why.message else why.type
