"""The sealed oracle, level L3: tests that must share the answer's interpreter, and give away whoever reaches for them.

Covers: a fresh sandbox with sanitised files, an environment from scratch and a user of its own; tests that are nowhere
on disk, under random names and in random order; a report on a socket that no process with code of the answer holds;
every expected test once, skipped and absent ones failed; canaries that must fail, fresh ones where a reference answer
is given; a look at where the runner's own functions live before and after; a second run of everything solved. Where
less than three canaries could be made the verdict says L2.
Does not cover: an answer that knows which of its tests must fail, by solving the task or by guessing all of them twice.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from quintain.grade import bundle, canary, evidence
from quintain.grade.build import verifier_build
from quintain.grade.doubt import Pressure, doubt, is_the_houses, settled
from quintain.grade.judge import both, unplaced
from quintain.grade.sanitise import sanitise
from quintain.grade.seal import CANARIES, Note, Sealed, probes_of, seal, seal_probes
from quintain.grade.unsealed import Told, read_told, unsealed
from quintain.sandbox import DEFAULT_LIMITS, Backend, Sandbox, Warm
from quintain.tasks import PythonSuite
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

#: How many canaries make a sealed run: fewer could be passed by luck.
ENOUGH_CANARIES = 3
_GRACE_SECONDS = 3.0
_RUNNER_BYTES = 192 * MEBIBYTE
_MAX_REPORT = 8 * MEBIBYTE
_KEPT_NOTES = 64


class SealedOracle:
    """Grades Python suites in the answer's own interpreter, under pytest. `site` are the folders of packages that hold
    pytest, as the backend makes them readable (`warm_sealed(site=...)`); `confirm` and `python` as for `Oracle`;
    `canaries=0` leaves them out, and reaches L2."""

    def __init__(
        self, backend: Backend, *, python: str = "python3", confirm: bool = True, site: Sequence[Path] = (),
        canaries: int = CANARIES,
    ) -> None:
        self._backend = backend
        self._python = python
        self._confirm = confirm
        self._site = ":".join(f"/opt/site/{n}" for n in range(len(site)))
        self._canaries = canaries
        self._warm: bool | None = None
        self._notes: dict[str, tuple[Note, ...]] = {}

    async def grade(
        self, suite: PythonSuite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS,
        seed: int = 0, confirm: bool | None = None, reference: Mapping[str, bytes] | None = None,
        given: Mapping[str, bytes] | None = None,
    ) -> Verdict:
        """What the suite says of the program. `reference` is a right answer (the exam's oracle), by which canaries get
        fresh inputs; `given` the tree as the task gave it. Raises HouseError, and TaskError for a suite that is no
        Python or needs a pytest that is not there."""
        clean = sanitise(program.files, given=given, allowed=tuple(reference or ()), trusted=tuple(suite.files))
        notes = await self._noted(suite, reference, image=image, limits=limits) if reference else ()
        run = _Runner(self, suite, clean.files, image=image, limits=limits, notes=notes)
        verdict = await run.sure(seed, shuffled=False)
        if verdict.solved and (self._confirm if confirm is None else confirm):
            verdict = both(verdict, await run.sure(seed + 1, shuffled=True))
        return msgspec.structs.replace(verdict, evidence=(*clean.evidence, *verdict.evidence))

    async def _noted(
        self, suite: PythonSuite, reference: Mapping[str, bytes], *, image: str, limits: Limits
    ) -> tuple[Note, ...]:
        """What the reference gives for fresh inputs; asked once for each suite and reference."""
        key = content_digest([suite, dict(reference)])
        if key not in self._notes and self._canaries:
            while len(self._notes) >= _KEPT_NOTES:
                self._notes.pop(next(iter(self._notes)))
            probes = probes_of(suite, _fresh())
            run = _Runner(self, suite, dict(reference), image=image, limits=limits, notes=())
            told, _ = await run.told(seal_probes(suite, probes), seed=0, shuffled=False)
            values = [(probes[n], canary.noted(text)) for n, text in told.notes if n < len(probes)]
            self._notes[key] = tuple(Note(probe, value[0]) for probe, value in values if value is not None)
        return self._notes.get(key, ())

    def _has_warm(self) -> bool:
        if self._warm is None:
            self._warm = self._python == "python3" and self._backend.probe().warm
        return self._warm


class _Runner:
    """One answer under one suite, run under as many seals as are asked for."""

    def __init__(
        self, oracle: SealedOracle, suite: PythonSuite, files: Mapping[str, bytes], *, image: str, limits: Limits,
        notes: Sequence[Note],
    ) -> None:
        self._oracle = oracle
        self._suite = suite
        self._files = files
        self._image = image
        self._limits = limits
        self._notes = notes

    async def sure(self, seed: int, *, shuffled: bool) -> Verdict:
        """One run; where its failure may be the house's, two (see `doubt`)."""
        before = Pressure.read(time.monotonic())
        verdict, outcome = await self.once(seed, shuffled=shuffled)
        pressure = Pressure.read(time.monotonic()).since(before)
        why = doubt(verdict, verifier=None, candidate=outcome, pressure=pressure)
        if why is None:
            return verdict
        again, _ = await self.once(seed, shuffled=shuffled)
        told = Evidence(source="doubt", text=f"run again: {why}")
        verdict = settled(verdict, both(verdict, again), again)
        return msgspec.structs.replace(verdict, evidence=(*verdict.evidence, told))

    async def once(self, seed: int, *, shuffled: bool) -> tuple[Verdict, Outcome | None]:
        """One run under a seal of its own."""
        started = time.monotonic()
        sealed = seal(self._suite, _fresh(), notes=self._notes, canaries=self._oracle._canaries)
        expected = list(self._suite.required) or list(dict.fromkeys(sealed.names.values()))
        try:
            told, outcome = await self.told(sealed, seed=seed, shuffled=shuffled)
        except OSError as error:
            if is_the_houses(error, self._files, self._limits):
                raise HouseError(FaultKind.SANDBOX_LOST, f"the answer cannot be written: {error}") from None
            verdict = unplaced(content_digest(self._suite), expected, error, time.monotonic() - started)
            return msgspec.structs.replace(verdict, level="L3", build=verifier_build()), None
        tests, fault, seen = unsealed(sealed, told, outcome, expected=expected, files=self._files)
        enough = len(sealed.canaries) >= ENOUGH_CANARIES
        verdict = Verdict(
            suite=content_digest(self._suite), level="L3" if enough else "L2", tests=tests, fault=fault,
            wall_seconds=time.monotonic() - started, cpu_seconds=outcome.cpu_seconds, build=verifier_build(),
            evidence=(*seen, *evidence.of_outcome("tests and answer", outcome), Evidence(
                source="canary", text=f"{len(sealed.canaries)} tests that must fail, {len(sealed.decoys)} decoys")),
        )
        return verdict, outcome

    async def told(self, sealed: Sealed, *, seed: int, shuffled: bool) -> tuple[Told, Outcome]:
        """One sealed run. Raises HouseError; OSError when the answer's files do not fit."""
        word = secrets.token_hex(8)
        root = secrets.token_hex(4)
        warm = not shuffled and self._oracle._has_warm()
        config = {
            "tests": [list(row) for row in sealed.tests], "conftests": [list(row) for row in sealed.conftests],
            "magic": importlib.util.MAGIC_NUMBER,
            "paths": [f"/work/{root}/{p}" if p != "." else f"/work/{root}" for p in (*sealed.paths, ".", "src")],
            "seed": secrets.randbits(63), "word": word, "run_seconds": self._limits.wall_seconds,
        }
        say = bundle.warm_stdin_for if warm else bundle.stdin_for
        flags = ["-s", "-P", "-S", "-B"]
        argv = ["-c", bundle.BOOT_WARM] if warm else [self._oracle._python, *flags, "-c", bundle.BOOT]
        environment = {"PYTHONHASHSEED": str(seed % 2**32), "PYTHONPATH": self._oracle._site}
        async with self._oracle._backend.open(self._image, limits=_wide(self._limits)) as (sandbox,):
            tree = {**self._files, **sealed.helpers}
            await sandbox.files.make_dir(root)
            await sandbox.files.write_many({f"{root}/{path}": content for path, content in tree.items()})
            report, outcome = await _listen(
                sandbox, argv, stdin=say("sealed", "seal", config), env=environment, cwd=f"/work/{root}", warm=warm)
        told = read_told(report, word)
        if told.unready is not None:
            raise TaskError(f"the tests need pytest: {told.unready}", kind=FaultKind.TASK_ENVIRONMENT)
        if not told.ready:
            said = outcome.error_text[-300:].strip()
            raise HouseError(FaultKind.VERIFIER_ERROR, f"the sealed run never began ({outcome.status.value}): {said}")
        return told, outcome


async def _listen(sandbox: Sandbox, argv: list[str], **how: Any) -> tuple[bytes, Outcome]:
    """Run a command and gather what it says on its channel, as far as that is kept."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    report = bytearray()

    async def gather() -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(ours, 262_144):
            report.extend(data[: max(0, _MAX_REPORT - len(report))])

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(gather())
            try:
                outcome = await sandbox.run(argv, channel=theirs.fileno(), **how)
            finally:
                with suppress(OSError):
                    theirs.shutdown(socket.SHUT_RDWR)
    except* HouseError as errors:
        raise next(e for e in errors.exceptions if isinstance(e, HouseError)) from None
    finally:
        ours.close()
        theirs.close()
    return bytes(report), outcome


def _wide(limits: Limits) -> Limits:
    """Room for the runner beside the answer."""
    seconds = limits.wall_seconds + _GRACE_SECONDS
    return msgspec.structs.replace(
        limits, wall_seconds=seconds, cpu_seconds=limits.cpu_seconds + _GRACE_SECONDS,
        memory_bytes=limits.memory_bytes + _RUNNER_BYTES, processes=limits.processes + 2,
    )


def _fresh() -> random.Random:
    """Randomness that nobody can have foreseen: canaries are a secret."""
    return random.Random(secrets.randbits(128))


def warm_sealed(*, site: tuple[Path, ...]) -> Warm:
    """A warm interpreter with pytest and the sealed run loaded. `site` holds pytest and what the tests import."""
    return Warm(preload=("pytest", "unittest.mock", "_pytest.unittest", "ctypes"), site=site,
                prelude=bundle.prelude(("sealed",)) + "SIDES['sealed']['rehearse']()\n")
