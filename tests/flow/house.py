"""What the end-to-end tests share: a small taskset of our own, and the command line as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend
from quintain.store import Run
from quintain.tasks import new_task
from quintain.types import Closed, Opened

needs_sandbox = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="this host offers no sandbox: `quintain doctor` says what is missing",
)

#: A policy that takes its time, so that a run can be ended in the middle.
SLOW = '''\
import asyncio

from quintain.types import Turn

REPLY = "```python\\ndef total(numbers):\\n    return sum(numbers)\\n```\\n"


class Slow:
    name = "slow"

    async def act(self, conversation, *, task, seed):
        await asyncio.sleep(0.4)
        return Turn(text=REPLY)

    async def aclose(self):
        pass
'''


def small_set(folder: Path, count: int) -> Path:
    for nth in range(count):
        new_task(folder / "set" / f"sum-{nth}")
    return folder / "set"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "quintain", *arguments]


def quintain(*arguments: str, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, check=False, timeout=timeout,
    )


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.stdout, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def start_slow_run(cwd: Path, *, tasks: int, size: int, run: str) -> subprocess.Popen[str]:
    """A run of the slow policy, started and left running."""
    small_set(cwd, tasks)
    (cwd / "slow.py").write_text(SLOW)
    words = ("run", "set", "--policy", "slow:Slow", "-n", str(size), "--sandboxes", "2", "--out", run, "--json")
    return subprocess.Popen(
        command(*words), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=_heeding_interrupts,
    )


def _heeding_interrupts() -> None:
    """As from a terminal, also where a shell started the tests in the background, and so deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until_closed(process: subprocess.Popen[str], run: Path, *, episodes: int, within: float = 60) -> None:
    """Until so many episodes of a run are closed, by its journal's own lines."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        journal = run / "journal.jsonl"
        if journal.exists() and journal.read_bytes().count(b'"closed"') >= episodes:
            return
        if process.poll() is not None:
            pytest.fail(f"the run ended early with {process.returncode}: {process.communicate()[1]}")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail(f"{episodes} episodes were not closed within {within} s: {process.communicate()[1]}")


def closings(run: Path) -> Counter[str]:
    """How often each episode of a run was closed."""
    with Run.open(run) as opened:
        return Counter(event.episode for event in opened.journal.read() if isinstance(event, Closed))


def openings(run: Path) -> Counter[str]:
    """How often each episode of a run was opened."""
    with Run.open(run) as opened:
        return Counter(event.episode for event in opened.journal.read() if isinstance(event, Opened))


def descendants(pid: int) -> set[tuple[int, str]]:
    """The processes that a process has started, and theirs: (pid, start time), so that a pid used again is no match."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents.setdefault(int(after_name[1]), []).append((int(folder.name), after_name[19]))
    found: set[tuple[int, str]] = set()
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child[0])
    return found


def alive(processes: set[tuple[int, str]]) -> set[int]:
    """Those that still run."""
    left = set()
    for pid, started in processes:
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after_name[19] == started and after_name[0] != "Z":
            left.add(pid)
    return left
