"""Shell answers out of process: trusted bash in one sandbox, each call of the answer in another, bytes in between.

Covers: the answer never shares a process, a file or a descriptor with the tests; of a call only standard output,
standard error and exit code come back, as the backend measured them; the environment is made from scratch and no
start-up file is read. What a call leaves in its work tree the next call finds; its variables it does not.
Does not cover: tests that hand an answer's output to `eval`, to arithmetic or unquoted to `[` (they run what it says);
calls inside a `while read` loop, which take the rest of its input; jobs that call at the same time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache
from importlib import resources

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.grade.doubt import is_the_houses
from quintain.grade.judge import unplaced
from quintain.program import diagnose_outcome
from quintain.sandbox import Backend, Sandbox
from quintain.tasks import ShellSuite
from quintain.types import (
    MEBIBYTE,
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Outcome,
    Owner,
    Passed,
    Program,
    Status,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

BASH = ("bash", "--noprofile", "--norc")
_GRACE_SECONDS = 3.0
_MAX_ASK_BYTES = 4 * MEBIBYTE
_MAX_ANSWER_BYTES = 256 * 1024  # bash reads an answer byte by byte
_TEST = re.compile(rb"^[ \t]*(?:function[ \t]+)?(test_\w+)[ \t]*\(\)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_ENV = {"LC_ALL": "C.UTF-8"}


@cache
def _script(name: str) -> str:
    return resources.files("quintain.grade.inside").joinpath("shell", name).read_text("utf-8")


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the answer, as it was made and as it ended."""

    name: str
    arguments: tuple[str, ...]
    outcome: Outcome


class _Seen(msgspec.Struct, kw_only=True):
    """What is known of one test: how it ended, the command that failed, and its last call."""

    status: int | None = None
    command: str = ""
    absent: bool = False
    calls: list[_Call] = []


def expected_shell_tests(suite: ShellSuite) -> tuple[str, ...]:
    """The ids of a suite: those that it requires, else every function `test_*` of its `.sh` files."""
    if suite.required:
        return suite.required
    return tuple(f"{path}::{match.decode()}" for path, content in suite.files.items() if path.endswith((".sh", ".bash"))
                 for match in _TEST.findall(content))


async def examine_shell(
    backend: Backend, suite: ShellSuite, files: Mapping[str, bytes], *, image: str, limits: Limits, seed: int,
    shuffled: bool,
) -> tuple[Verdict, Outcome | None, Outcome | None]:
    """One run of the suite, and what was measured of the verifier and the last call. Raises HouseError, TaskError."""
    started = time.monotonic()
    names = expected_shell_tests(suite)
    _check(suite, names)
    folder = hashlib.sha256(f"{seed} {shuffled}".encode()).hexdigest()[:8]
    tests: list[TestResult] = []
    outcomes: list[Outcome] = []
    last: Outcome | None = None
    for path in dict.fromkeys(name.partition("::")[0] for name in names):
        own = [name.partition("::")[2] for name in names if name.startswith(f"{path}::")]
        async with AsyncExitStack() as stack:
            wide = msgspec.structs.replace(
                limits, wall_seconds=limits.wall_seconds + _GRACE_SECONDS, output_bytes=16 * MEBIBYTE)
            (verifier,) = await stack.enter_async_context(backend.open(image, limits=wide))
            (candidate,) = await stack.enter_async_context(backend.open(image, limits=limits))
            try:
                await verifier.files.write_many({f"{folder}/{p}": content for p, content in suite.files.items()})
            except OSError as error:
                raise HouseError(FaultKind.VERIFIER_ERROR, f"the tests cannot be written: {error}") from None
            try:
                await candidate.files.write_many({f"{folder}/{p}": content for p, content in files.items()})
            except OSError as error:
                if is_the_houses(error, files, limits):
                    raise HouseError(FaultKind.SANDBOX_LOST, f"the answer cannot be written: {error}") from None
                return unplaced(content_digest(suite), names, error, time.monotonic() - started), None, None
            file = _File(suite, verifier, candidate, cwd=f"/work/{folder}", limits=limits)
            outcome = await file.run(path, own[::-1] if shuffled else own)
        outcomes += [outcome, *(call.outcome for seen in file.seen.values() for call in seen.calls)]
        last = outcomes[-1]
        tests += [_result(f"{path}::{name}", file.seen.get(name), file, outcome, files) for name in own]
    order = {name: number for number, name in enumerate(names)}
    used = [o.cpu_seconds for o in outcomes if o.cpu_seconds is not None]
    verdict = Verdict(
        suite=content_digest(suite), level="L4", tests=tuple(sorted(tests, key=lambda t: order[t.id])),
        fault=next((t.fault for t in tests if t.fault and t.fault.owner is not Owner.POLICY), None),
        build=verifier_build(), wall_seconds=time.monotonic() - started, cpu_seconds=sum(used) if used else None,
        evidence=evidence.of_outcome("verifier", outcomes[0]))
    return verdict, outcomes[0], last


def _check(suite: ShellSuite, names: Sequence[str]) -> None:
    if not names:
        raise TaskError("expected shell functions test_* in a .sh file, found none", kind=FaultKind.NO_TESTS_RUN)
    for name in suite.functions:
        if not _NAME.fullmatch(name):
            raise TaskError(f"expected the name of a shell function, found {name!r}")
    for name in names:
        path, _, test = name.partition("::")
        if path not in suite.files or not _NAME.fullmatch(test):
            raise TaskError(f"expected FILE::FUNCTION with FILE one of the suite's, found {name!r}")


class _File:
    """One test file in its two sandboxes. `seen` is what came of each test; `broken` whether the file did not load;
    `before` are the calls that it made while it was loaded."""

    def __init__(
        self, suite: ShellSuite, verifier: Sandbox, candidate: Sandbox, *, cwd: str, limits: Limits
    ) -> None:
        self._suite = suite
        self._verifier = verifier
        self._candidate = candidate
        self._cwd = cwd
        self._until = time.monotonic() + limits.wall_seconds
        self._seconds = limits.wall_seconds
        self.seen: dict[str, _Seen] = {}
        self.broken = False
        self.before: list[_Call] = []

    async def run(self, path: str, tests: Sequence[str]) -> Outcome:
        """How the verifier ended. Raises HouseError."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        argv = [*BASH, "-c", _script("verifier.sh"), "quintain", path, str(int(self._seconds) + 2),
                *self._suite.functions, "--", *self._suite.programs, "--", *tests]
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(self._serve(theirs))
                outcome = await self._verifier.run(argv, env=_ENV, cwd=self._cwd, channel=ours.fileno())
                serving.cancel()
        except* HouseError as errors:
            raise next(e for e in errors.exceptions if isinstance(e, HouseError)) from None
        finally:
            ours.close()
            theirs.close()
        if outcome.status is Status.NOT_STARTED:
            raise TaskError(f"shell tests need bash in the image: {outcome.error_text[-200:].strip()}",
                            kind=FaultKind.TASK_ENVIRONMENT)
        for line in outcome.stdout.split(b"\n")[:-1]:
            self._told(line.decode("ascii", "replace").split())
        return outcome

    async def _serve(self, end: socket.socket) -> None:
        """Answer what the tests ask, one call after the other, until they end."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        while True:
            words = _question(data)
            if words is None:
                piece = await loop.sock_recv(end, 65536)
                data += piece
                if not piece or len(data) > _MAX_ASK_BYTES:
                    return
                continue
            outcome = await self._call(*words)
            with suppress(OSError):  # the verifier is gone: its own outcome tells
                await loop.sock_sendall(end, _answer(outcome))

    async def _call(self, test: str, kind: str, name: str, stdin: bytes, arguments: Sequence[str]) -> Outcome:
        if kind == "program":
            argv = [*BASH, f"./{name}", *arguments]
        else:
            argv = [*BASH, "-c", _script("call.sh"), "quintain", self._suite.entry, name, *arguments]
        left = Limits(wall_seconds=max(0.05, self._until - time.monotonic()), output_bytes=_MAX_ANSWER_BYTES)
        outcome = await self._candidate.run(argv, stdin=stdin, env=_ENV, cwd=self._cwd, limits=left)
        call = _Call(name=name, arguments=tuple(arguments), outcome=outcome)
        calls = self.seen.setdefault(test, _Seen()).calls if test else self.before
        calls.append(call)
        return outcome

    def _told(self, line: list[str]) -> None:
        """One line of the verifier's report."""
        match line:
            case ["begin", name]:
                self.seen.setdefault(name, _Seen())
            case ["absent", name]:
                self.seen[name].absent = True
            case ["end", name, status, *command]:
                self.seen[name].status = int(status)
                self.seen[name].command = base64.b64decode(command[0]).decode("utf-8", "replace") if command else ""
            case ["broken"]:
                self.broken = True


def _question(data: bytearray) -> tuple[str, str, str, bytes, list[str]] | None:
    """The first whole question, taken out of the bytes that came; None while there is none."""
    words = bytes(data).split(b"\0")
    if len(words) < 6 or len(words) < 6 + int(words[4]):
        return None
    taken = words[: 5 + int(words[4])]
    del data[: sum(len(word) + 1 for word in taken)]
    test, kind, name, stdin, _, *arguments = taken
    given = [argument.decode("utf-8", "surrogateescape") for argument in arguments]
    return test.decode(), kind.decode(), name.decode(), base64.b64decode(stdin), given


def _answer(outcome: Outcome) -> bytes:
    code = outcome.exit_code if outcome.exit_code is not None else 128 + (outcome.signal or 9)
    said = (b"" if outcome.stdout_truncated else outcome.stdout, outcome.stderr[-4096:])  # what is cut fails anyway
    parts = [base64.b64encode(part.replace(b"\0", b"")) for part in said]
    return b"\n".join([str(code).encode(), *parts, b""])


def _result(
    id: str, seen: _Seen | None, file: _File, verifier: Outcome, files: Mapping[str, bytes]
) -> TestResult:
    if seen is not None and seen.status == 0:
        # `[[ $(f) = "" ]]` holds for a call that was killed, too: such a call fails its test, whatever that makes of it
        broken = next((fault for call in seen.calls if (fault := _broken(call, files)) is not None), None)
        return TestResult(id=id, passed=Passed.FAILED if broken else Passed.PASSED, fault=broken)
    calls = seen.calls if seen is not None else file.before
    if seen is None or seen.status is None:
        return TestResult(id=id, passed=Passed.MISSING, fault=_unfinished(seen, file, verifier, calls, files))
    return TestResult(id=id, passed=Passed.FAILED, fault=_failed(seen, calls, files))


def _unfinished(
    seen: _Seen | None, file: _File, verifier: Outcome, calls: Sequence[_Call], files: Mapping[str, bytes]
) -> Fault:
    """Why a test has no end. The verifier runs nothing but the tests' own text."""
    if seen is not None and seen.absent:
        return Fault(owner=Owner.TASK, kind=FaultKind.TASK_INVALID, message="the test file defines no such function")
    if verifier.status in (Status.TIMED_OUT, Status.CPU_LIMIT):
        return _policy(FaultKind.TIMEOUT, f"the tests did not end within {verifier.wall_seconds:.1f} s")
    told = _of_calls(calls, files)
    if told is not None:
        return told
    said = verifier.error_text[-300:].strip()
    if file.broken or verifier.exit_code == 2:
        return Fault(owner=Owner.TASK, kind=FaultKind.TASK_INVALID, message=f"the test file does not load: {said}")
    raise HouseError(FaultKind.VERIFIER_ERROR, f"the verifier ended early ({verifier.status.value}): {said}")


def _failed(seen: _Seen, calls: Sequence[_Call], files: Mapping[str, bytes]) -> Fault:
    told = _of_calls(calls, files)
    if told is not None:
        return told
    shown = seen.command[:400] or f"exit code {seen.status}"
    if not calls:
        return Fault(owner=Owner.TASK, kind=FaultKind.TASK_INVALID,
                     message=f"the test failed without a call of the answer: {shown}")
    found = calls[-1].outcome
    return _policy(FaultKind.ASSERTION_ERROR,
                   f"{shown}: the last call gave exit code {found.exit_code} and {found.text[:200]!r}")


def _of_calls(calls: Sequence[_Call], files: Mapping[str, bytes]) -> Fault | None:
    """What is wrong with the last call beyond its output, if anything is."""
    if not calls:
        return None
    broken = _broken(calls[-1], files)
    if broken is not None or calls[-1].outcome.status is Status.OK:
        return broken
    fault = _diagnosed(calls[-1].outcome, files)
    return None if fault is None or fault.kind is FaultKind.NONZERO_EXIT else fault


def _broken(call: _Call, files: Mapping[str, bytes]) -> Fault | None:
    """What is wrong with a call that did not come to an end by itself, or found nothing to run."""
    outcome = call.outcome
    if outcome.exit_code == 127 and f"{call.name}: no function of this name" in outcome.error_text:
        return _policy(FaultKind.MISSING_ENTRY_POINT, f"expected a function {call.name!r}, found none")
    if outcome.exit_code == 2 and (broken := _diagnosed(outcome, files)) and broken.kind is FaultKind.SYNTAX_ERROR:
        return broken
    if outcome.stdout_truncated:
        return _policy(FaultKind.OUTPUT_LIMIT, f"{call.name} wrote {outcome.stdout_bytes} bytes")
    return None if outcome.status in (Status.OK, Status.FAILED) else _diagnosed(outcome, files)


def _diagnosed(outcome: Outcome, files: Mapping[str, bytes]) -> Fault | None:
    fault = diagnose_outcome(outcome, Program(files=dict(files), argv=("bash",), language="shell"))
    if fault is not None and fault.owner is Owner.TASK:
        raise TaskError(fault.message, kind=FaultKind.TASK_ENVIRONMENT)
    return fault


def _policy(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
