"""The native sandbox on a unified cgroup tree, in every place where a process may find itself; run as the guest's root.

With names of situations, or without for all: makes each and runs the checks in it. `check NAME`: the checks, as the
process found itself. `house NAME`: opens sandboxes and waits to be killed. `clean NAME`: the janitor.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from quintain.sandbox import BubblewrapBackend, NativeBackend, clean
from quintain.types import MEBIBYTE, KilledBy, Limits, Outcome, Status

TREE = Path("/sys/fs/cgroup")
LIMITS = Limits(memory_bytes=96 * MEBIBYTE, processes=16, wall_seconds=60.0, cpu_seconds=30.0)
HOUSE = "quintain-house"
PYTHON = "/usr/bin/python3"
OWNED = ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
SPIN = "import os,time\nfor _ in range(3): os.fork()\nend=time.monotonic()+3\nwhile time.monotonic()<end: pass\n"
FORKS = (
    "import os,time,sys\nn=0\ntry:\n  for _ in range(64):\n    if os.fork()==0: time.sleep(20); os._exit(0)\n    n+=1\n"
    "except OSError as e: print(n,e.errno)\n"
)


class Place:
    """One situation: its group (made by root), who is in it, and what it must offer."""

    def __init__(
        self, name: str, group: str, *, uid: int = 0, controllers: str = "", owned: bool = False,
        memory: bool = True, cpu: bool = True, unshare: bool = False,
    ) -> None:
        self.name, self.group, self.uid, self.controllers, self.owned = name, TREE / group, uid, controllers, owned
        self.memory, self.cpu, self.unshare = memory, cpu, unshare

    def make(self) -> None:
        chain = list(reversed(self.group.relative_to(TREE).parents)) if self.group != TREE else []
        for part in chain:
            parent = TREE / part
            parent.mkdir(exist_ok=True)
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in self.controllers.split()))
        self.group.mkdir(exist_ok=True)
        if self.owned:
            for name in OWNED:
                os.chown(self.group / name, self.uid, self.uid)

    def start(self, *words: str, group: Path | None = None) -> subprocess.Popen[str]:
        """This program in the situation; the shell before it stays in the group, as a login shell would."""
        there = group or self.group  # a group that hands controllers down takes in nobody: then where its own have gone
        join = f"for g in {there} {there}/{HOUSE}; do echo $$ 2>/dev/null > $g/cgroup.procs && break; done; "
        drop = f"setpriv --reuid={self.uid} --regid={self.uid} --clear-groups " if self.uid else ""
        command = f"{drop}{PYTHON} {__file__} {' '.join(words)}"
        if self.unshare:
            command = f"unshare --cgroup --mount sh -c 'umount {TREE}; mount -t cgroup2 none {TREE}; {command}'"
        script = f"{join}{command}; exit $?"
        return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, cwd="/")


#: `controllers` are those that the parent hands to the situation's group.
PLACES = {p.name: p for p in (
    Place("root-in-the-root-group", ""),
    Place("root-in-a-scope", "user.slice/session-1.scope", controllers="cpu memory pids"),
    Place("root-in-a-container", "machine.slice/box", controllers="cpu memory pids", unshare=True),
    Place("user-delegated", "user.slice/run-1.scope", uid=1000, controllers="cpu memory pids", owned=True),
    Place("user-delegated-without-cpu", "app.slice/run-2.scope", uid=1000, controllers="memory pids", owned=True,
          cpu=False),
    Place("user-not-delegated", "other.slice/session-2.scope", uid=1000, controllers="cpu memory pids", memory=False,
          cpu=False),
)}


def groups() -> list[str]:
    """Every group of an engine, wherever it lies. The house's own is not one of them."""
    return sorted(p for p, _, _ in os.walk(TREE) if Path(p).name.startswith("quintain-") and Path(p).name != HOUSE)


def cells() -> list[str]:
    """Every group of a sandbox."""
    return sorted(p for group in groups() for p, _, _ in os.walk(group) if p != group)


def sandbox_processes() -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if "quintain-sandbox" in os.readlink(path / "exe"):
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def settle(condition: Callable[[], bool], seconds: float = 8.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def report(name: str, good: bool, detail: object) -> bool:
    print(f"{'ok  ' if good else 'FAIL'} {name:44} {detail}", flush=True)
    return good


def brief(outcome: Outcome) -> str:
    peak = outcome.peak_memory_bytes
    return (
        f"{outcome.status.value} by {outcome.killed_by.value if outcome.killed_by else '-'} cpu={outcome.cpu_seconds} "
        f"wall={outcome.wall_seconds:.2f} peak={peak and peak // MEBIBYTE}MiB peak_processes={outcome.peak_processes} "
        f"{outcome.text.strip()[:60]!r} {outcome.error_text.strip()[-80:]!r}"
    )


def hungry(mebibytes: int) -> list[str]:
    return [PYTHON, "-c", f"print(len(b'x' * ({mebibytes} << 20)) >> 20)"]


class Checks:
    """All that is asked of one situation."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.good = True

    def say(self, name: str, good: bool, detail: object) -> None:
        self.good &= report(name, good, detail)

    async def run(self) -> bool:
        try:
            await self._capabilities()
            async with NativeBackend(engines=2) as backend, backend.open(count=4, limits=LIMITS) as boxes:
                self.say("four sandboxes of two engines answer", all(
                    o.status is Status.OK for o in [await b.run(["true"]) for b in boxes]), "")
                await self._memory(boxes[0])
                await self._peaks(boxes[1])
                await self._processes(boxes[2])
                await self._cpu(boxes[3])
                await self._two_houses()
                await self._bubblewrap()
            await self._cycles()
        except Exception as error:  # the whole report is wanted, whatever happens
            self.say("no exception", False, f"{type(error).__name__}: {error}")
        return self.good

    async def _capabilities(self) -> None:
        can = NativeBackend().probe()
        want = ("hard" if self.place.memory else "soft", "hard" if self.place.cpu else "soft")
        self.say("memory and cpu are what they must be", (can.memory, can.cpu) == want and can.available,
                 json.dumps({"memory": can.memory, "cpu": can.cpu, "missing": can.missing}))

    async def _memory(self, box) -> None:
        outcome = await box.run(hungry(200))
        if self.place.memory:
            self.say("too much memory is OUT_OF_MEMORY by oom", (outcome.status, outcome.killed_by) ==
                     (Status.OUT_OF_MEMORY, KilledBy.OOM), brief(outcome))
        else:
            self.say("too much memory fails in the process", outcome.status is Status.FAILED and
                     "MemoryError" in outcome.error_text, brief(outcome))
        outcome = await box.run(["true"])
        self.say("the next command is not blamed for it", outcome.status is Status.OK, brief(outcome))

    async def _peaks(self, box) -> None:
        large, small = await box.run(hungry(48)), await box.run(["true"])
        self.say("peak memory of a large command", large.status is Status.OK and
                 48 <= (large.peak_memory_bytes or 0) // MEBIBYTE < 96, brief(large))
        self.say("peak memory of a small one after it", (small.peak_memory_bytes or 0) // MEBIBYTE < 30, brief(small))

    async def _processes(self, box) -> None:
        outcome = await box.run([PYTHON, "-c", FORKS])
        count = int(outcome.text.split()[0]) if outcome.text else 999
        self.say("processes are bounded by 16", outcome.text.endswith(" 11\n") and 10 <= count <= 16, brief(outcome))
        after = await box.run(["true"])
        self.say("all are gone afterwards", after.status is Status.OK, brief(after))

    async def _cpu(self, box) -> None:
        outcome = await box.run([PYTHON, "-c", SPIN])
        rate = (outcome.cpu_seconds or 0.0) / outcome.wall_seconds
        name = "eight spinners get one CPU" if self.place.cpu else "eight spinners run, unbounded"
        self.say(name, (0.5 < rate < 1.25) if self.place.cpu else rate > 0.5,
                 f"{rate:.2f} CPUs {brief(outcome)}")
        # without groups each process has a limit of its own, two seconds later
        program = SPIN.replace("+3", "+20") if self.place.memory else "while True: pass"
        most = 3.0 if self.place.memory else 4.5
        outcome = await box.run([PYTHON, "-c", program], limits=Limits(cpu_seconds=1.0, wall_seconds=20.0))
        self.say("a CPU limit of 1 s ends it", outcome.status is Status.CPU_LIMIT and
                 0.9 < (outcome.cpu_seconds or 0.0) < most, brief(outcome))

    async def _two_houses(self) -> None:
        async with NativeBackend(engines=1) as second, second.open(limits=LIMITS) as boxes:
            outcome = await boxes[0].run(["true"])
            self.say("a second backend beside it", outcome.status is Status.OK, outcome.status.value)
        where = sorted({str(Path(g).parent.relative_to(TREE)) for g in groups()})
        self.say("all engines' groups lie side by side", len(where) == self.place.memory, where)

    async def _bubblewrap(self) -> None:
        """The launchers make their groups by another way."""
        async with BubblewrapBackend() as other:
            can = other.probe()
            if not (can.available and can.memory == "hard"):
                return
            async with other.open(limits=LIMITS) as boxes:
                fine, outcome = await boxes[0].run(["true"]), await boxes[0].run(hungry(200))
                self.say("bubblewrap holds the limit of memory too", fine.status is Status.OK and
                         outcome.status is Status.OUT_OF_MEMORY, brief(outcome))

    async def _cycles(self) -> None:
        async with NativeBackend(engines=1) as backend:
            async def cycle() -> None:
                async with backend.open(limits=LIMITS) as boxes:
                    await boxes[0].run(["true"])
            await repeat(50, cycle)
            left = cells()
            self.say("50 cycles leave no group of a sandbox", not left, left)
        self.say("closing leaves no group of an engine", not groups(), groups())


async def repeat(times: int, what: Callable[[], Awaitable[None]]) -> None:
    for _ in range(times):
        await what()


async def house() -> None:
    async with NativeBackend(engines=2) as backend, backend.open(count=4, limits=LIMITS) as boxes:
        print("open", flush=True)
        async with asyncio.TaskGroup() as tasks:
            for box in boxes:
                tasks.create_task(box.run(["sleep", "60"]))


def killed(place: Place, *, keepers_too: bool) -> bool:
    """kill -9 of a house; then `clean`, from another group of the same user."""
    running = place.start("house", place.name)
    assert running.stdout is not None
    if running.stdout.readline().strip() != "open":
        return report("a house to be killed opens", False, running.wait())
    before = (len(groups()), len(sandbox_processes()))
    victims = [p for p in children_of(running.pid) if "situations.py" in command(p)]
    victims += sandbox_processes() if keepers_too else []
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    running.wait()
    what = "house and engines" if keepers_too else "house"
    good = True
    if not keepers_too:
        gone = settle(lambda: not groups() and not sandbox_processes())
        good &= report("kill -9 of the house: its keepers clear up", gone, f"{before} → {groups()}")
    elsewhere = TREE / "elsewhere.slice" / "shell"
    if not elsewhere.exists():
        elsewhere.parent.mkdir(exist_ok=True)
        elsewhere.mkdir()
    cleaner = place.start("clean", place.name, group=None if place.unshare else elsewhere)
    said = cleaner.communicate()[0].strip()
    gone = settle(lambda: not groups() and not sandbox_processes(), 3.0)
    good &= report(f"kill -9 of {what}: clean() leaves nothing", gone, f"{before} → {groups()} {said}")
    house = place.group / HOUSE
    empty = house.exists() and "populated 0" in (house / "cgroup.events").read_text()
    return good & report("the group is as it was", place.unshare or not empty, "an empty house" if empty else "")


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def children_of(pid: int) -> list[int]:
    found = [pid]
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid:
                found += children_of(int(path.name))
    return found


def everywhere(names: list[str]) -> int:
    good = True
    for place in (PLACES[name] for name in names or PLACES):
        began = time.monotonic()
        print(f"== {place.name}", flush=True)
        place.make()
        running = place.start("check", place.name)
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
        good &= running.wait() == 0
        for keepers_too in (False, True):
            good &= killed(place, keepers_too=keepers_too)
        print(f"   {time.monotonic() - began:.0f} s", flush=True)
    print("ALL GOOD" if good else "NOT ALL GOOD", flush=True)
    return 0 if good else 1


def main(words: list[str]) -> int:
    if words[:1] == ["check"]:
        return 0 if asyncio.run(Checks(PLACES[words[1]]).run()) else 1
    if words[:1] == ["house"]:
        asyncio.run(house())
        return 0
    if words[:1] == ["clean"]:
        print(clean())
        return 0
    return everywhere(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
