"""The runs that tenants asked for: they wait, are played by processes of their own, and outlive the server."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from quintain.fleet import end_process, told_within
from quintain.rollout import settle
from quintain.serve.homes import JOURNAL, Home, Homes, Served, read_served, write_served
from quintain.serve.keys import Quota
from quintain.serve.words import Offer, Refusal, RunAsked, RunState, TasksetView, absent
from quintain.store import Definition, Run
from quintain.types import HouseError

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 5.0
_LOCK_SECONDS = 60.0
_TOLD_BYTES = 2000


class Player(Protocol):
    """Who knows how runs are made and played. `define` and `look` may block, and raise Refusal."""

    def offer(self) -> Offer: ...

    def define(self, asked: RunAsked, home: Home) -> Definition:
        """The definition of a run, checked: its tasks are there, its policy is offered."""
        ...

    def look(self, folder: Path) -> TasksetView:
        """What is in a folder of tasks that a tenant handed in, and whether it may be asked here."""
        ...

    def command(self, run: Path) -> Sequence[str]:
        """What plays a run, or goes on with it, and then ends."""
        ...


class Plays:
    """At most `at_once` runs are played at a time, of each tenant as many as its quota says; of those that wait the
    tenant goes first that has the fewest playing. When the server ends they are told to end, and wait for the next."""

    def __init__(
        self, homes: Homes, player: Player, quota: Callable[[str], Quota], *, at_once: int = 4,
        drain_seconds: float = 30.0,
    ) -> None:
        self.player = player
        self._homes = homes
        self._quota = quota
        self._at_once = at_once
        self._drain_seconds = drain_seconds
        self._runs: dict[str, dict[str, Served]] = {}
        self._playing: dict[tuple[str, str], asyncio.Event] = {}
        self._wake = asyncio.Event()
        self._draining = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Find the runs that are there, and play as long as the block lasts."""
        await asyncio.to_thread(self._find)
        async with asyncio.TaskGroup() as crew:
            steward = crew.create_task(self._steward(crew))
            try:
                yield
            finally:
                self._draining = True
                self._wake.set()
                for stopping in self._playing.values():
                    stopping.set()
                await steward

    def runs_of(self, tenant: str) -> list[tuple[str, Served]]:
        """Newest first."""
        found = self._runs.get(tenant, {}).items()
        return sorted(found, key=lambda one: (one[1].submitted_unix_seconds, one[0]), reverse=True)

    def get(self, tenant: str, run: str) -> Served:
        """Raises Refusal(404)."""
        served = self._runs.get(tenant, {}).get(run)
        if served is None:
            raise absent("run", run)
        return served

    def folder(self, tenant: str, run: str) -> Path:
        """Raises Refusal(404)."""
        self.get(tenant, run)
        return self._homes.of(tenant).runs / run

    async def submit(self, tenant: str, asked: RunAsked) -> str:
        """The id of a new run. Raises Refusal for what cannot be played, and for a quota that is used up."""
        quota, home = self._quota(tenant), self._homes.of(tenant)
        if quota.runs < 1:
            raise Refusal(403, "quota", expected="a tenant that may play runs", found="a quota of 0",
                          where="quota.runs")
        if asked.sandboxes > quota.run_sandboxes:
            raise Refusal(403, "quota", expected=f"at most {quota.run_sandboxes} sandboxes",
                          found=str(asked.sandboxes), where="body.sandboxes")
        waiting = sum(one.state is RunState.QUEUED for one in self._runs.get(tenant, {}).values())
        if waiting >= quota.waiting:
            raise Refusal(429, "quota", expected=f"at most {quota.waiting} runs that wait", found=str(waiting),
                          where="quota.waiting", retry_seconds=30)
        if asked.name is not None and asked.name in self._runs.get(tenant, {}):
            raise Refusal(409, "taken", expected="a name that is free", found=asked.name, where="body.name")
        served = Served(asked=asked, state=RunState.QUEUED, submitted_unix_seconds=time.time())
        run = await asyncio.to_thread(self._make, home, quota, served)
        self._runs.setdefault(tenant, {})[run] = served
        self._wake.set()
        return run

    def _make(self, home: Home, quota: Quota, served: Served) -> str:
        kept = home.kept_bytes()
        if kept >= quota.kept_bytes:
            raise Refusal(403, "quota", expected=f"less than {quota.kept_bytes} bytes kept (delete runs)",
                          found=str(kept), where="quota.kept_bytes")
        definition = self.player.define(served.asked, home)
        try:
            created = Run.create(home.runs, definition, name=served.asked.name)
        except HouseError:
            if served.asked.name is None or not (home.runs / served.asked.name).exists():
                raise
            raise Refusal(409, "taken", expected="a name that is free", found=served.asked.name,
                          where="body.name") from None
        with created as run:
            write_served(run.path, served)
            return run.name

    def stop(self, tenant: str, run: str, reason: str = "its tenant stopped it") -> Served:
        """Raises Refusal(404), and Refusal(409) for one that is over."""
        served = self.get(tenant, run)
        if not served.state.is_open:
            raise Refusal(409, "over", expected="a run that waits or is played", found=served.state.value,
                          where="path.run")
        stopping = self._playing.get((tenant, run))
        if stopping is None:
            return self._note(tenant, run, RunState.STOPPED, reason)
        noted = self._note(tenant, run, RunState.STOPPING, reason)
        stopping.set()
        return noted

    def resume(self, tenant: str, run: str) -> Served:
        """A run that was stopped or failed goes on with what is left of it."""
        served = self.get(tenant, run)
        if served.state not in (RunState.STOPPED, RunState.FAILED):
            raise Refusal(409, "not_stopped", expected="a run that was stopped or failed", found=served.state.value,
                          where="path.run")
        self._wake.set()
        return self._note(tenant, run, RunState.QUEUED, "")

    async def delete(self, tenant: str, run: str) -> None:
        """Raises Refusal(404), and Refusal(409) for one that is played."""
        folder, served = self.folder(tenant, run), self.get(tenant, run)
        if served.state.is_open:
            raise Refusal(409, "open", expected="a run that is over (stop it first)", found=served.state.value,
                          where="path.run")
        del self._runs[tenant][run]
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _find(self) -> None:
        for tenant in self._homes.tenants():
            runs = self._homes.of(tenant).runs
            for path in sorted(runs.iterdir()) if runs.is_dir() else ():
                served = read_served(path)
                if served is None:
                    continue
                if served.state.is_open:
                    state = RunState.STOPPED if served.state is RunState.STOPPING else RunState.QUEUED
                    served = msgspec.structs.replace(served, state=state)
                    write_served(path, served)
                self._runs.setdefault(tenant, {})[path.name] = served

    async def _steward(self, crew: asyncio.TaskGroup) -> None:
        while not self._draining:
            self._wake.clear()
            while (chosen := self._next()) is not None:
                self._playing[chosen] = asyncio.Event()
                crew.create_task(self._play(*chosen, self._playing[chosen]))
            await self._wake.wait()

    def _next(self) -> tuple[str, str] | None:
        if len(self._playing) >= self._at_once:
            return None
        busy = {tenant: sum(one == tenant for one, _ in self._playing) for tenant in self._runs}
        for tenant in sorted(busy, key=lambda one: busy[one]):
            if busy[tenant] < self._most(tenant):
                for run, served in reversed(self.runs_of(tenant)):
                    if served.state is RunState.QUEUED and (tenant, run) not in self._playing:
                        return tenant, run
        return None

    def _most(self, tenant: str) -> int:
        try:
            return self._quota(tenant).runs
        except HouseError as error:  # who damages the file of keys stops new runs, and nothing else
            _log.error("%s", error)
            return 0

    async def _play(self, tenant: str, run: str, stopping: asyncio.Event) -> None:
        folder = self._homes.of(tenant).runs / run
        try:
            self._note(tenant, run, RunState.PLAYING, "")
            code, told = await self._lived(tenant, folder, stopping)
            reason = self._runs[tenant][run].reason
            if (folder / "result.json").exists() and code in (0, 1):
                self._note(tenant, run, RunState.ENDED, "")
            elif self._runs[tenant][run].state is RunState.STOPPING:
                self._note(tenant, run, RunState.STOPPED, reason)
            elif self._draining:
                self._note(tenant, run, RunState.QUEUED, "the server ended: it goes on with the next")
            else:
                self._note(tenant, run, RunState.FAILED, f"exit code {code}: {told}")
        except (OSError, HouseError) as error:
            _log.error("run %s of %s cannot be played: %s", run, tenant, error)
            self._runs[tenant][run] = msgspec.structs.replace(
                self._runs[tenant][run], state=RunState.FAILED, reason="the server cannot play it now: resume it later")
        finally:
            del self._playing[tenant, run]
            self._wake.set()

    async def _lived(self, tenant: str, folder: Path, stopping: asyncio.Event) -> tuple[int | None, str]:
        """How the process ended, and what it said last."""
        until = time.monotonic() + _LOCK_SECONDS
        while _is_written(folder) and time.monotonic() < until:  # by who played it before us, and is about to end
            await told_within(stopping, 0.2)
        setpriv = shutil.which("setpriv")
        dying = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
        process = await asyncio.create_subprocess_exec(
            *dying, *self.player.command(folder), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True)
        told = bytearray()
        try:
            async with asyncio.TaskGroup() as group:
                hearing = group.create_task(_hear(process, told))
                watching = group.create_task(self._watch(tenant, folder.name, stopping))
                await asyncio.wait({hearing, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not hearing.done():
                    process.terminate()
                    await asyncio.wait({hearing}, timeout=self._drain_seconds)
                hearing.cancel()
                watching.cancel()
        finally:
            await settle(end_process(process, self._drain_seconds), within=self._drain_seconds + 5)
        return process.returncode, told.decode("utf-8", "replace").strip()

    async def _watch(self, tenant: str, run: str, stopping: asyncio.Event) -> None:
        """Until it is to end: it is told so, or its tenant keeps too much."""
        home, most = self._homes.of(tenant), self._quota(tenant).kept_bytes
        while not stopping.is_set():
            await told_within(stopping, _LOOK_SECONDS)
            kept = await asyncio.to_thread(home.kept_bytes)
            if kept > most and not stopping.is_set():
                self._runs[tenant][run] = msgspec.structs.replace(
                    self._runs[tenant][run], state=RunState.STOPPING,
                    reason=f"its tenant keeps {kept} bytes and may keep {most}")
                return

    def _note(self, tenant: str, run: str, state: RunState, reason: str) -> Served:
        ended = None if state.is_open else time.time()
        served = msgspec.structs.replace(
            self._runs[tenant][run], state=state, reason=reason[-_TOLD_BYTES:], ended_unix_seconds=ended)
        self._runs[tenant][run] = served
        write_served(self._homes.of(tenant).runs / run, served)
        return served


async def _hear(process: asyncio.subprocess.Process, told: bytearray) -> None:
    """All that it says, of which the end is kept."""
    assert process.stdout is not None
    while piece := await process.stdout.read(65_536):
        told += piece
        del told[:-_TOLD_BYTES]
    await process.wait()


def _is_written(folder: Path) -> bool:
    try:
        with (folder / JOURNAL).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
