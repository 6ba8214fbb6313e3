"""A site for chaos: a run of real episodes by `quintain run --workers`, with an init that starts again what dies, and a
hand that kills it. What is found of it in the end is found by the kernel, not by what was told."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from quintain.fleet import serve_nats

TOKEN = "chaos"
WORKERS = 2
ENGINE = "quintain-sandbox"
#: What the control groups of one slot of sandboxes are called: by user and number.
SLOT = re.compile(r"quintain-(\d+)-(\d+)")

#: Whom it hits, and how often beside the others.
WEIGHTS = {"worker": 10, "spawner": 6, "server": 3, "supervisor": 2}


def parents() -> dict[int, tuple[int, str]]:
    """Each process of this host: its parent and its state."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            found[int(folder.name)] = (int(parent), state)
    return found


def below(pid: int, table: dict[int, tuple[int, str]]) -> list[int]:
    """All that a process has started, and what those have, zombies left out."""
    children: dict[int, list[int]] = {}
    for child, (parent, _) in table.items():
        children.setdefault(parent, []).append(child)
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            if table[child][1] != "Z":
                found.append(child)
    return found


def words_of(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def program_of(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe").rpartition("/")[2]
    return ""


def strike(pid: int, still: Callable[[int], bool]) -> bool:
    """kill -9, if it is still the process that was meant."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if still(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


class Site:
    """One run in `folder`, its queue a NATS server of its own (`kind` is "nats") or a file ("sqlite")."""

    def __init__(
        self, folder: Path, kind: str, *, words: list[str], env: dict[str, str], chance: random.Random,
    ) -> None:
        self.folder = folder
        self.kind = kind
        self.run = folder / "run"
        self.kills: Counter[str] = Counter()
        self.restarts = 0
        self.tried_again = 0
        self.odd_exits: list[str] = []
        self.ended = asyncio.Event()
        self.killed_at: list[float] = []
        self._words = words
        self._env = env
        self._chance = chance
        self._supervisor: asyncio.subprocess.Process | None = None
        self._struck: set[int] = set()
        self._server = 0
        self._queue = ""

    async def play(self, most: int, pause_seconds: float, *, until: float) -> None:
        """The run, to its end, under at most so many kills, none of them later than `until` (monotonic)."""
        self.folder.mkdir(parents=True)
        up = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self._serve(up)) if self.kind == "nats" else None
            if serving is not None:
                await up.wait()
            killing = group.create_task(self._kill(most, pause_seconds, until))
            await self._init()
            killing.cancel()
            if serving is not None:
                serving.cancel()

    async def _serve(self, up: asyncio.Event) -> None:
        """A queue server, and another on the same port and files when it dies."""
        port = -1
        while True:
            async with serve_nats(self.folder / "nats", port=port, token=TOKEN) as server:
                port = int(server.url.rpartition(":")[2])
                self._queue, self._server = f"{server.url}/chaos", server.pid
                up.set()
                while server.pid in parents():  # noqa: ASYNC110 - the kernel sends no event
                    await asyncio.sleep(0.1)
            await asyncio.sleep(self._chance.uniform(0.0, 1.0))

    async def _init(self) -> None:
        """What a site's init does: the supervisor is started again until it says that all is done."""
        with (self.folder / "supervisor.log").open("ab") as log:
            while True:
                begun = (self.run / "run.json").exists()
                words = ["--resume", str(self.run)] if begun else [*self._words, "--out", str(self.run)]
                where = ["--queue", self._queue] if self._queue else []
                self._supervisor = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "quintain", "run", *words, *where, "--workers", str(WORKERS), "--json",
                    stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, cwd=self.folder.parent,
                )
                code = await self._supervisor.wait()
                if code == 0:
                    break
                if self._supervisor.pid in self._struck and code == -signal.SIGKILL:
                    self.restarts += 1
                elif code == 1 and self.tried_again < 20:
                    self.tried_again += 1  # the house failed somewhere; its last line says to resume
                else:
                    self.odd_exits.append(f"the supervisor ended with {code}")
                    break
        self.ended.set()

    async def _kill(self, most: int, pause_seconds: float, until: float) -> None:
        while sum(self.kills.values()) < most and not self.ended.is_set() and time.monotonic() < until:
            await asyncio.sleep(min(4 * pause_seconds, self._chance.expovariate(1 / pause_seconds)))
            if not any(self._targets("spawner")):
                continue  # nobody is at work: whoever is killed now costs no episode anything
            names = [name for name in WEIGHTS if name != "server" or self._server]
            name = self._chance.choices(names, [WEIGHTS[name] for name in names])[0]
            if self._strike(name):
                self.kills[name] += 1
                self.killed_at.append(time.monotonic())

    def _strike(self, name: str) -> bool:
        known = sorted(self._targets(name))
        if not known:
            return False
        pid = self._chance.choice(known)
        struck = strike(pid, lambda pid: pid in set(self._targets(name)))
        if struck:
            self._struck.add(pid)
        return struck

    def _targets(self, name: str) -> Iterator[int]:
        if name == "server":
            if program_of(self._server) == "nats-server":
                yield self._server
            return
        supervisor = self._supervisor
        if supervisor is None or supervisor.returncode is not None:
            return
        if name == "supervisor":
            yield supervisor.pid
            return
        table = parents()
        workers = {pid for pid in below(supervisor.pid, table) if self._works(pid)}
        if name == "worker":
            yield from workers
            return
        keepers = {pid for pid, (parent, _) in table.items() if parent in workers and program_of(pid) == ENGINE}
        yield from keepers  # and what they keep: the spawner, and the warm interpreter
        yield from (pid for pid, (parent, _) in table.items() if parent in keepers)

    def _works(self, pid: int) -> bool:
        words = words_of(pid)
        return "worker" in words and str(self.run) in words and not words[0].endswith("setpriv")


def groups() -> set[str]:
    """Control groups of sandboxes, on the whole host."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup"):
            root = Path(left.split(" ")[4])
            found |= {str(path) for path in root.glob("**/quintain-*-*") if SLOT.fullmatch(path.name)}
    return found


def mounts(folder: Path) -> set[str]:
    """Mounts of ours that are seen from here."""
    points = {line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return {point for point in points if "quintain" in point or point.startswith(str(folder))}


def reap() -> None:
    """Bury what came to us for want of another parent."""
    for pid, (parent, state) in parents().items():
        if parent == os.getpid() and state == "Z":
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def make_room(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
