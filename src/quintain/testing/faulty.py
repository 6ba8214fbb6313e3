"""Faults that a house can have, done to a real backend: what must never be laid on the policy, nor paid.

Covers: a sandbox that cannot be opened, one that is lost, processes of the house or of a sandbox killed with SIGKILL
from outside, memory and disk of a sandbox that run out too early, and delays. Only processes inside sandboxes that this
very backend opened, and the spawner that made them, are ever killed.
Does not cover: faults of the kernel, and a disk that returns wrong bytes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from quintain.sandbox import DEFAULT_LIMITS, Backend, Capabilities, FileInfo, Files, Sandbox
from quintain.types import MEBIBYTE, FaultKind, HouseError, Limits, Network, Outcome

_PIECE_BYTES = 64 * 1024


class Blow(StrEnum):
    """What is done to a sandbox."""

    REFUSE = "refuse"  # it cannot be opened
    LOSE = "lose"  # it is no longer there when something is to run in it
    KILL_SPAWNER = "kill_spawner"  # the process that made it
    KILL_AGENT = "kill_agent"  # its first process
    KILL_PROGRAM = "kill_program"  # what runs in it
    STARVE = "starve"  # `amount` bytes of memory instead of its own
    FILL = "fill"  # its work tree is full before anything is written
    DELAY = "delay"  # every opening, writing and running waits `seconds` first


class Planned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One blow to the `nth` sandbox that is opened (from 0; -1: every one). Kills come `seconds` after its command
    began; each blow but DELAY and STARVE falls once."""

    blow: Blow
    nth: int = 0
    seconds: float = 0.0
    amount: int = 0


@runtime_checkable
class Seen(Protocol):
    """A sandbox whose first process the host can see."""

    @property
    def pid(self) -> int: ...


class FaultyBackend:
    """Another backend, and what goes wrong with it. `struck` lists the blows that really fell, in order: a kill that
    came when there was nothing left to kill is not among them."""

    def __init__(self, inner: Backend, planned: Sequence[Planned] = ()) -> None:
        self._inner = inner
        self._planned = tuple(planned)
        self._opened = 0
        self.struck: list[Planned] = []

    @property
    def name(self) -> str:
        return self._inner.name

    def probe(self) -> Capabilities:
        return self._inner.probe()

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    async def aclose(self) -> None:
        await self._inner.aclose()

    @asynccontextmanager
    async def _open(self, image: str, limits: Limits, count: int, network: Network) -> AsyncIterator[Sequence[Sandbox]]:
        first, self._opened = self._opened, self._opened + count
        plans = [tuple(p for p in self._planned if p.nth in (n, -1)) for n in range(first, first + count)]
        for plan in (p for mine in plans for p in mine):
            limits = await self._before(plan, limits)
        async with self._inner.open(image, limits=limits, count=count, network=network) as boxes:
            faulty = [FaultySandbox(box, mine, self.struck) for box, mine in zip(boxes, plans, strict=True)]
            for box in faulty:
                await box.begin()
            yield faulty

    async def _before(self, plan: Planned, limits: Limits) -> Limits:
        if plan.blow is Blow.REFUSE:
            self.struck.append(plan)
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "no sandbox could be made (a planned fault)")
        if plan.blow is Blow.DELAY:
            self.struck.append(plan)
            await asyncio.sleep(plan.seconds)
        if plan.blow is Blow.STARVE:
            self.struck.append(plan)
            return msgspec.structs.replace(limits, memory_bytes=min(limits.memory_bytes, plan.amount))
        if plan.blow is Blow.FILL:
            return msgspec.structs.replace(limits, disk_bytes=min(limits.disk_bytes, 2 * MEBIBYTE))
        return limits


class FaultySandbox:
    """One sandbox of a faulty backend."""

    def __init__(self, inner: Sandbox, plans: Sequence[Planned], struck: list[Planned]) -> None:
        self._inner = inner
        self._plans = plans
        self._struck = struck
        self.files: Files = SlowFiles(inner.files, sum(p.seconds for p in plans if p.blow is Blow.DELAY))

    @property
    def id(self) -> str:
        return self._inner.id

    async def begin(self) -> None:
        """What is done before anybody gets it."""
        for plan in self._plans:
            if plan.blow is Blow.FILL:
                await _fill(self._inner.files)
                self._struck.append(plan)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        plans, self._plans = self._plans, [p for p in self._plans if p.blow is Blow.DELAY]
        for plan in plans:
            if plan.blow is Blow.DELAY:
                await asyncio.sleep(plan.seconds)
            if plan.blow is Blow.LOSE:
                self._struck.append(plan)
                raise HouseError(FaultKind.SANDBOX_LOST, "the sandbox is gone (a planned fault)")
        outcome: Outcome | HouseError
        async with asyncio.TaskGroup() as group:
            kills = [group.create_task(self._kill(p)) for p in plans if p.blow.value.startswith("kill")]
            try:
                outcome = await self._inner.run(
                    argv, stdin=stdin, env=env, cwd=cwd, limits=limits, channel=channel, warm=warm,
                    on_stdout=on_stdout, on_stderr=on_stderr,
                )
            except HouseError as error:  # raised below: a task group would wrap it
                outcome = error
            finally:
                for kill in kills:
                    kill.cancel()
        if isinstance(outcome, HouseError):
            raise outcome
        return outcome

    async def _kill(self, plan: Planned) -> None:
        await asyncio.sleep(plan.seconds)
        if not isinstance(self._inner, Seen):
            raise ValueError(f"expected a sandbox whose first process can be seen, found {type(self._inner).__name__}")
        killed = [_kill(pid) for pid in _victims(plan.blow, self._inner.pid)]
        if any(killed):
            self._struck.append(plan)

    async def close(self) -> None:
        await self._inner.close()


class SlowFiles:
    """The files of a sandbox on a slow disk."""

    def __init__(self, inner: Files, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    async def read(self, path: str, *, max_bytes: int = 16 * MEBIBYTE) -> bytes:
        await asyncio.sleep(self._seconds)
        return await self._inner.read(path, max_bytes=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await asyncio.sleep(self._seconds)
        await self._inner.write(path, content, mode=mode)

    async def write_many(self, files: Mapping[str, bytes]) -> None:
        await asyncio.sleep(self._seconds)
        await self._inner.write_many(files)

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        await asyncio.sleep(self._seconds)
        return await self._inner.list(path, depth=depth)

    async def exists(self, path: str) -> bool:
        return await self._inner.exists(path)

    async def remove(self, path: str) -> None:
        await asyncio.sleep(self._seconds)
        await self._inner.remove(path)

    async def make_dir(self, path: str) -> None:
        await asyncio.sleep(self._seconds)
        await self._inner.make_dir(path)


async def _fill(files: Files) -> None:
    """Write until there is no room for one more byte, or one more file."""
    size, number = _PIECE_BYTES, 0
    while size:
        try:
            await files.write(f".full/{number}", b"\1" * size)
        except OSError:
            size //= 4
        number += 1


def _victims(blow: Blow, first: int) -> list[int]:
    """The processes that a kill is meant for, by the number of a sandbox's first process."""
    if blow is Blow.KILL_AGENT:
        return [first]
    if blow is Blow.KILL_SPAWNER:
        above = _ancestors(first)
        return above[:1] if os.getpid() in above[1:] else []
    world = _world(first)
    if world is None or world == _world(os.getpid()):
        return []
    inside = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in inside if pid != first and _world(pid) == world and _is_python(pid)]


def _parent(pid: int) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _ancestors(pid: int) -> list[int]:
    """Its parent first, up to the first process of this host."""
    found: list[int] = []
    parent = _parent(pid)
    while parent:
        found.append(parent)
        parent = _parent(parent)
    return found


def _world(pid: int) -> str | None:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return None


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    return False


def _kill(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False
