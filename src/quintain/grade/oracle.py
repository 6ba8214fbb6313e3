"""The out-of-process oracle: the tests and the candidate in two sandboxes, joined by one socket for typed values.

Covers: the candidate's process holds no test, no expected value and no descriptor on which results are reported;
results come from the verifier's own standard output; a positive verdict is confirmed with another seed of hashes, order
of tests and directory. Attribution rests on the verifier's report and on both outcomes as the backend measured them.
Does not cover: tests that must live in the candidate's own interpreter (they patch its modules' internals, or compare
two of the candidate's objects by the candidate's own `==`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from quintain.grade import bundle, evidence
from quintain.grade.build import verifier_build
from quintain.grade.doubt import Pressure, doubt, is_the_houses, settled
from quintain.grade.frozen import as_frozen
from quintain.grade.javascript import examine_javascript
from quintain.grade.judge import Run, both, judge, unplaced
from quintain.grade.pair import Command, converse
from quintain.grade.script import check_script
from quintain.grade.shell import examine_shell
from quintain.grade.stdio import check_program
from quintain.sandbox import DEFAULT_LIMITS, Backend, Sandbox, Warm
from quintain.tasks import JavaScriptSuite, PythonSuite, ScriptSuite, ShellSuite, StdioSuite, Suite, kind_of
from quintain.types import (
    MEBIBYTE,
    Evidence,
    FaultKind,
    HouseError,
    Limits,
    Outcome,
    Program,
    TaskError,
    Verdict,
    content_digest,
)

#: The isolation that this oracle reaches: trusted tests and candidate never share a process or a user.
LEVEL = "L4"
_GRACE_SECONDS = 3.0  # what both processes get beyond the candidate's own time, to start and to end
_KEPT_BYTES = 4 * MEBIBYTE
_VERIFIER_MEMORY_BYTES = 512 * MEBIBYTE
_MODULES = ("_json", "collections", "io", "math", "operator", "random", "re", "select", "typing", "unittest")


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a suite with what the backend measured of both sides, for graders of other qualities. `candidate` is
    None where its process had to be cut off; both are None where its files did not fit. `kept` is the file that was
    asked for, as the candidate's sandbox had it afterwards: the answer may have written anything into it."""

    verdict: Verdict
    verifier: Outcome | None = None
    candidate: Outcome | None = None
    kept: bytes | None = None


class Oracle:
    """Grades programs against suites. `python` is the interpreter to start inside the sandboxes, found on their PATH;
    `confirm` runs every solved verdict a second time. `site` are folders of installed packages that both sides may
    import from, where the backend makes them readable inside (`Warm.site`); the image's own packages are found anyway.
    Test files that import pytest are run under pytest, which must be in one of these. `env` is set for Python's tests
    and answers (a time zone, a locale).

    Where the backend keeps a warm interpreter for it (`NativeBackend(warm=warm_oracle())`), the first run of
    a suite is a fork of it; the confirmation always starts afresh, with a hash seed of its own.
    """

    def __init__(
        self, backend: Backend, *, python: str = "python3", confirm: bool = True, site: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._backend = backend
        self._site = ":".join(map(str, site))
        self._python = python
        self._env = dict(env or {})
        self._confirm = confirm
        self._warm: bool | None = None  # not asked yet

    async def grade(
        self, suite: Suite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS, seed: int = 0,
        confirm: bool | None = None,
    ) -> Verdict:
        """What the suite says of the program. `program.files` is the whole work tree of the candidate; `limits` hold
        for its process. Raises HouseError, when something failed that was not the program's or the task's doing."""
        if isinstance(suite, StdioSuite):
            return await check_program(self._backend, suite, program, image=image, limits=limits)
        if isinstance(suite, ScriptSuite):
            tree = as_frozen(program.files, suite)
            return await check_script(self._backend, suite, [tree], image=image, limits=limits)
        if not isinstance(suite, PythonSuite | JavaScriptSuite | ShellSuite):
            raise TaskError(f"expected tests or stdio cases, found a suite of the kind {kind_of(suite)!r}")
        confirm = self._confirm if confirm is None else confirm
        verdict = await self._sure(suite, program.files, image=image, limits=limits, seed=seed, shuffled=False)
        if verdict.solved and confirm:
            again = await self._sure(suite, program.files, image=image, limits=limits, seed=seed + 1, shuffled=True)
            verdict = both(verdict, again)
        return verdict

    async def _sure(
        self, suite: PythonSuite | JavaScriptSuite | ShellSuite, files: Mapping[str, bytes], *, image: str,
        limits: Limits, seed: int, shuffled: bool,
    ) -> Verdict:
        """One run; where its failure may be the house's, two (see `doubt`)."""
        before = Pressure.read(time.monotonic())
        seen = await self._run(suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled)
        pressure = Pressure.read(time.monotonic()).since(before)
        why = doubt(seen.verdict, verifier=seen.verifier, candidate=seen.candidate, pressure=pressure)
        if why is None:
            return seen.verdict
        again = await self._run(suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled)
        verdict = settled(seen.verdict, both(seen.verdict, again.verdict), again.verdict)
        told = Evidence(source="doubt", text=f"run again: {why}")
        return msgspec.structs.replace(verdict, evidence=(*verdict.evidence, told))

    async def _run(
        self, suite: PythonSuite | JavaScriptSuite | ShellSuite, files: Mapping[str, bytes], *, image: str,
        limits: Limits, seed: int, shuffled: bool,
    ) -> Examined:
        """One run of a suite in any language."""
        if isinstance(suite, PythonSuite):
            return await self._once(suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled)
        if isinstance(suite, JavaScriptSuite):
            verdict, verifier, candidate = await examine_javascript(
                self._backend, suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled)
        else:
            verdict, verifier, candidate = await examine_shell(
                self._backend, suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled)
        return Examined(verdict=verdict, verifier=verifier, candidate=candidate)

    async def examine(
        self, suite: PythonSuite, files: Mapping[str, bytes], *, image: str = "host", limits: Limits = DEFAULT_LIMITS,
        seed: int = 0, keep: str | None = None, trusted: bool = True, shuffled: bool = False,
    ) -> Examined:
        """One run without confirmation, warm where it can be, and what was measured of it; `shuffled`: the tests in an
        order that the seed decides. `keep` is a path in the candidate's sandbox to read afterwards. `trusted=False`:
        the tests are somebody's answer too, and a verifier that they end early is their doing. Raises HouseError."""
        return await self._once(suite, files, image=image, limits=limits, seed=seed, shuffled=shuffled, keep=keep,
                                trusted=trusted, fresh=False)

    async def _once(
        self, suite: PythonSuite, files: Mapping[str, bytes], *, image: str, limits: Limits, seed: int, shuffled: bool,
        keep: str | None = None, trusted: bool = True, fresh: bool | None = None,
    ) -> Examined:
        started = time.monotonic()
        folder = hashlib.sha256(f"{seed} {shuffled}".encode()).hexdigest()[:8]
        wide = _verifier_limits(limits)
        async with AsyncExitStack() as stack:
            (verifier,) = await stack.enter_async_context(self._backend.open(image, limits=wide))
            narrow = msgspec.structs.replace(limits, wall_seconds=limits.wall_seconds + _GRACE_SECONDS)
            (candidate,) = await stack.enter_async_context(self._backend.open(image, limits=narrow))
            try:
                await verifier.files.write_many({f"{folder}/{path}": content for path, content in suite.files.items()})
            except OSError as error:
                raise HouseError(FaultKind.VERIFIER_ERROR, f"the tests cannot be written: {error}") from None
            try:
                await candidate.files.write_many({f"{folder}/{path}": content for path, content in files.items()})
            except OSError as error:  # too many, too large, a name too long: the answer's doing, and judged
                if is_the_houses(error, files, narrow):
                    raise HouseError(FaultKind.SANDBOX_LOST, f"the answer cannot be written: {error}") from None
                return Examined(
                    verdict=unplaced(content_digest(suite), _expected(suite), error, time.monotonic() - started))
            if not files:
                await candidate.files.make_dir(folder)
            warm = not (shuffled if fresh is None else fresh) and self._has_warm()
            argv = ["-c", bundle.BOOT_WARM] if warm else [self._python, *bundle.FLAGS, "-c", bundle.BOOT]
            env = {**self._env, "PYTHONHASHSEED": str(seed % 2**32), "PYTHONPATH": self._site}
            say = bundle.warm_stdin_for if warm else bundle.stdin_for
            ends = await converse(
                Command(sandbox=verifier, argv=argv, env=env, cwd=f"/work/{folder}", warm=warm,
                        stdin=_verifier_input(suite, limits, seed if shuffled else None, warm=warm)),
                Command(sandbox=candidate, argv=argv, env=env, cwd=f"/work/{folder}", warm=warm,
                        stdin=say("candidate", "serve_candidate")))
            kept = None if keep is None else await _read(candidate, keep)
        run = Run(files=dict(files), report=ends[0].stdout, verifier=ends[0], candidate=ends[1])
        tests, fault = judge(run, expected=_expected(suite), closed=bool(suite.required), trusted=trusted)
        used = [o.cpu_seconds for o in (run.verifier, run.candidate) if o is not None and o.cpu_seconds is not None]
        verdict = Verdict(
            suite=content_digest(suite), level=LEVEL, tests=tests, fault=fault,
            wall_seconds=time.monotonic() - started, cpu_seconds=sum(used) if used else None,
            build=verifier_build(), evidence=(
                *evidence.of_report(run.report), *evidence.of_outcome("verifier", run.verifier),
                *evidence.of_outcome("candidate", run.candidate)),
        )
        return Examined(verdict=verdict, verifier=ends[0], candidate=ends[1], kept=kept)

    def _has_warm(self) -> bool:
        if self._warm is None:
            self._warm = self._python == "python3" and self._backend.probe().warm
        return self._warm


def warm_oracle(*, site: tuple[Path, ...] = ()) -> Warm:
    """A warm interpreter in which both of the oracle's programs are loaded and wait to be forked. `site` are
    directories of packages that tests and answers may import."""
    return Warm(preload=_MODULES, site=site, prelude=bundle.prelude(), codes=(bundle.BOOT_WARM,))


async def _read(sandbox: Sandbox, path: str) -> bytes | None:
    """A file of the candidate's, None where there is none that can be read."""
    with suppress(OSError):
        return await sandbox.files.read(path, max_bytes=_KEPT_BYTES)
    return None


def _expected(suite: PythonSuite) -> list[str]:
    """The ids that must each be reported once, as far as they are known before the run."""
    return list(suite.required) or [
        name for path in bundle.files_with_tests(suite.files, ()) for name in
        bundle.expected_tests(path, suite.files[path])
    ]


def _verifier_limits(limits: Limits) -> Limits:
    """What the verifier's own sandbox may use: it is trusted, and must not run out before the candidate does."""
    seconds = limits.wall_seconds + _GRACE_SECONDS
    return msgspec.structs.replace(
        limits, wall_seconds=seconds, cpu_seconds=max(limits.cpu_seconds, seconds), output_bytes=16 * MEBIBYTE,
        memory_bytes=max(limits.memory_bytes, _VERIFIER_MEMORY_BYTES), processes=max(limits.processes, 64),
        disk_bytes=max(limits.disk_bytes, DEFAULT_LIMITS.disk_bytes), inodes=max(limits.inodes, DEFAULT_LIMITS.inodes),
    )


def _verifier_input(suite: PythonSuite, limits: Limits, seed: int | None, *, warm: bool) -> bytes:
    paths = bundle.files_with_tests(suite.files, suite.required)
    needing = [path for path in paths if bundle.imports_pytest(suite.files[path])]
    plain = [[path, bundle.compiled_test(path, suite.files[path])] for path in paths if path not in needing]
    config = {
        "modules": list(suite.modules), "plain": plain, "pytest": needing, "seed": seed,
        "call_seconds": limits.wall_seconds, "run_seconds": limits.wall_seconds,
    }
    say = bundle.warm_stdin_for if warm else bundle.stdin_for
    return say("verifier", "verify", config)
