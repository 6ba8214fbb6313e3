"""Sandboxes opened by the many get their control groups with their first program, and not one program runs without."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from quintain.sandbox import NativeBackend, Warm
from quintain.types import MEBIBYTE, Limits, Outcome, Status

LIMITS = Limits(memory_bytes=64 * MEBIBYTE, processes=16, cpu_seconds=1.0, wall_seconds=20.0)
HOG = ["python3", "-c", "x = bytearray(200 << 20); print(len(x))"]
CROWD = ["sh", "-c", "for i in $(seq 40); do sleep 3 & done; wait; echo all"]
SPIN = ["python3", "-c", "import os\nfor _ in range(3): os.fork()\nwhile True: pass"]


def groups(box: Any) -> str:
    return Path(f"/proc/{box.pid}/cgroup").read_text()


@pytest.mark.parametrize("rootless", [False, True])
def test_the_first_program_is_bounded_like_any_other(rootless: bool) -> None:
    async def main() -> list[Outcome]:
        backend = NativeBackend(engines=1, rootless=rootless or None)
        async with backend, backend.open(count=66, limits=LIMITS) as boxes:
            for box in boxes:
                await box.files.write("given.txt", b"before any program\n")
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(boxes[i].run(argv)) for i, argv in enumerate((HOG, CROWD, SPIN))]
            read = await boxes[3].run(["cat", "given.txt"])
            return [run.result() for run in runs] + [read]

    if rootless and os.geteuid() != 0:
        pytest.skip("without root nobody hands down control groups on v1")
    hog, crowd, spin, read = asyncio.run(main())
    assert hog.status is Status.OUT_OF_MEMORY, hog
    assert crowd.peak_processes is not None and crowd.peak_processes <= 18
    assert "all" not in crowd.text or "fork" in crowd.error_text.lower()
    assert spin.status is Status.CPU_LIMIT and spin.cpu_seconds < 3
    assert read.text == "before any program\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory").is_dir(), reason="needs root and cgroup v1")
def test_only_those_that_run_something_take_groups_and_all_are_given_back() -> None:
    async def main() -> tuple[list[str], list[str], bool]:
        async with NativeBackend(engines=1, warm=Warm()) as backend:
            async with backend.open(count=65, limits=LIMITS) as boxes:
                before = [groups(box) for box in boxes]
                async with asyncio.TaskGroup() as group:  # at once in one sandbox: it joins once
                    for _ in range(4):
                        group.create_task(boxes[0].run(["true"]))
                await boxes[1].run(["-c", "pass"], warm=True)
                after = [groups(box) for box in boxes]
                slot = backend_groups(after[0])
            return before, after, slot.exists()

    before, after, left = asyncio.run(main())
    assert len(set(before)) == 1, "none has a group of its own"
    assert after[2:] == before[2:]
    assert after[0] != before[0] and after[1] != before[1] and after[0] != after[1]
    assert not left


def backend_groups(text: str) -> Path:
    """Where the memory group of /proc/PID/cgroup is."""
    line = next(line for line in text.splitlines() if ":memory:" in line)
    return Path("/sys/fs/cgroup/memory") / line.split(":", 2)[2].lstrip("/")


def test_one_that_ends_before_it_joined_leaves_the_others_alone() -> None:
    async def main() -> list[str]:
        async with NativeBackend(engines=1) as backend, backend.open(count=65, limits=LIMITS) as boxes:
            tasks = [asyncio.ensure_future(box.run(["sleep", "5"])) for box in boxes[:2]]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            return [(await box.run(["echo", "here"])).text for box in boxes]

    assert asyncio.run(main()) == ["here\n"] * 65
