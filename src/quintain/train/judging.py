"""What a trainer asks of those who execute: the reward of an attempt, once for each content."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from quintain.types import FaultKind, HouseError, Verdict, content_digest


class Attempted(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One answer to one task: the task's id, a digest of all by which answers to it are judged, and the files that are
    handed in. Tasks that differ in what is asked only may have the same `exam`."""

    task: str
    exam: str
    files: dict[str, bytes]

    @cached_property
    def digest(self) -> str:
        """sha256 of the exam's digest and the files: the same digest, the same content under the same tests."""
        return content_digest((self.exam, self.files))


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution came to. `reward` is `None` where there is none to train on."""

    reward: float | None
    solved: bool = False
    verdict: Verdict | None = None


#: Executes answers in sandboxes and judges them, in their order. A failure of the house is a reward of `None`.
Judge = Callable[[Sequence[Attempted]], Awaitable[Sequence[Judged]]]


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the memory's file."""

    digest: str
    judged: Judged


class Memory:
    """Asks a judge for each content once, and knows the answer afterwards: no reward comes from here that was not
    executed under the same digest. `requested` and `executed` count, `seconds` is the time in the judge, `cpu_seconds`
    this thread's CPU time in it. Only rewards are remembered, failures of the house are asked again. With a `file` what
    was executed is known to a run that goes on later (a torn last line is left out). Raises HouseError(STORE_ERROR) for
    a file that cannot be written."""

    def __init__(self, judge: Judge, *, file: Path | None = None) -> None:
        self._judge = judge
        self._known: dict[str, Judged] = {}
        self._file = file
        self.requested = 0
        self.executed = 0
        self.seconds = self.cpu_seconds = 0.0
        if file is not None and file.exists():
            self._read(file)

    def _read(self, file: Path) -> None:
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        for line in content[:whole].splitlines():
            row = msgspec.json.decode(line, type=Executed)
            self._known[row.digest] = row.judged
        if whole < len(content):
            with file.open("r+b") as torn:
                torn.truncate(whole)

    async def judge(self, attempts: Sequence[Attempted]) -> list[Judged]:
        """One judgement for each attempt; equal ones are executed once."""
        digests = [attempt.digest for attempt in attempts]
        new = {d: a for d, a in zip(digests, attempts, strict=True) if d not in self._known}
        began, used = time.monotonic(), time.thread_time()
        found = dict(zip(new, await self._judge(list(new.values())), strict=True)) if new else {}
        self.seconds += time.monotonic() - began
        self.cpu_seconds += time.thread_time() - used
        self.requested += len(attempts)
        self.executed += len(new)
        fresh = {digest: judged for digest, judged in found.items() if judged.reward is not None}
        self._known |= fresh
        self._keep(fresh)
        return [self._known.get(digest) or found[digest] for digest in digests]

    def _keep(self, fresh: dict[str, Judged]) -> None:
        if self._file is None or not fresh:
            return
        lines = [msgspec.json.encode(Executed(digest=d, judged=_lean(j))) + b"\n" for d, j in fresh.items()]
        try:
            with self._file.open("ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._file}: {error.strerror}") from error

    @property
    def executed_share(self) -> float | None:
        """Of all rewards asked for, the share in [0, 1] that was executed just then; the others were before."""
        return self.executed / self.requested if self.requested else None


def _lean(judged: Judged) -> Judged:
    """Without what nobody trains on."""
    if judged.verdict is None:
        return judged
    return msgspec.structs.replace(judged, verdict=msgspec.structs.replace(judged.verdict, evidence=()))


class Lost:
    """Failures of the house on purpose: tells of the n-th request of a step whether it is lost. The same seed, the same
    losses. For trials of how a training bears them."""

    def __init__(self, share: float, *, seed: int) -> None:
        if not 0.0 <= share < 1.0:
            raise ValueError(f"expected a share of at least 0 and below 1, found {share!r}")
        self.share = share
        self._seed = seed

    def among(self, step: int, count: int) -> list[bool]:
        if not self.share:
            return [False] * count
        dice = random.Random(f"{self._seed} lost {step}")
        return [dice.random() < self.share for _ in range(count)]


def write_atomically(path: Path, content: bytes, *, sync: bool = True) -> None:
    """The file is there whole, or as it was before, whenever this process is killed; with `sync` it is on disk when
    this returns, and so survives the host."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    draft.replace(path)
    if not sync:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

