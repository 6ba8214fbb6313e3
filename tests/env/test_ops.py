"""Configuration that was mended in a shell is judged by the services that start from it."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from quintain.env import OpsEnvironment, TerminalWorld
from quintain.policy import ScriptedPolicy
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.tasks import ScriptSuite, open_taskset
from quintain.tasks.formats.ops_real import OpsReal, host_has, item_of, rows
from quintain.types import TaskError, Verdict

TASKS = open_taskset("ops:own")
REAL = {f"ops-real/{name}": row for name, row in rows().items()}


def judged(id: str, cache: Path, *scripts: str) -> list[Verdict]:
    async def work() -> list[Verdict]:
        item, found = item_of(REAL[id]) if id in REAL else TASKS[id], []
        async with NativeBackend() as backend:
            world = TerminalWorld(backend, cache=cache)
            for script in scripts:
                made = await world.make(item, {"solve.sh": f"#!/bin/bash\n{script}\n".encode()})
                found.append(await world.grade(item, made.trees))
        return found

    return asyncio.run(work())


def test_modes_cross_and_a_program_that_an_answer_changes_is_put_back(tmp_path: Path) -> None:
    mended = "echo \"password = $(cat etc/secret)\" >> etc/kv.ini\n"
    right, readable, changed = judged(
        "ops/open-store", tmp_path, f"{mended}chmod 600 etc/kv.ini", mended,
        f"{mended}chmod 600 etc/kv.ini; echo 'raise SystemExit' > bin/kv.py")
    assert right.solved and right.level == "L4" and not readable.solved and changed.solved


def test_an_episode_in_a_shell_is_judged_by_what_it_leaves(tmp_path: Path) -> None:
    item = TASKS["ops/sessions-evicted"]
    said = ["```bash\ncat etc/kv.ini\n```", "```bash\nsed -i 's/oldest/volatile/' etc/kv.ini\n```\nSUBMIT"]

    async def play() -> bool:
        async with NativeBackend() as backend:
            environment = OpsEnvironment(backend, cache=tmp_path)
            (ticket,) = tickets(item, size=1, seed=0)
            episode = await Driver(environment, ScriptedPolicy({item.task.id: said}), lambda event: None).play(ticket)
            return episode.solved

    assert asyncio.run(play())


@pytest.mark.parametrize("id", ["ops-real/nginx-prefix", "ops-real/redis-durable", "ops-real/postgres-schema"])
def test_a_real_service_is_mended_by_its_author_and_by_nobody_else(id: str, tmp_path: Path) -> None:
    row = REAL[id]
    if missing := [need for need in row.needs if not host_has(need)]:
        pytest.skip(f"the host has no {', '.join(missing)}")
    right, nothing, wrong = judged(id, tmp_path, row.mend, "true", row.wrong[-1])
    assert right.solved, right
    assert not nothing.solved and not wrong.solved


@pytest.mark.skipif(not host_has("nginx"), reason="the host has no nginx")
def test_a_disk_that_an_answer_filled_is_the_answers_fault(tmp_path: Path) -> None:
    row = REAL["ops-real/nginx-prefix"]
    full, blocked = judged("ops-real/nginx-prefix", tmp_path,
                           f"{row.mend}\ndd if=/dev/zero of=filler bs=1M count=4096 2>/dev/null",
                           f"{row.mend}\nrm -rf var/shared; echo > var/shared")
    assert not full.solved and not blocked.solved
    assert any("cannot be written" in test.fault.message for test in blocked.tests if test.fault)


def test_what_the_host_lacks_is_left_out_and_told() -> None:
    with pytest.warns(UserWarning, match=r"4 of 14 tasks are left out; the host lacks redis \(apt-get install redis"):
        ids = OpsReal(lambda need: need != "redis").ids()
    assert len(ids) == 10 and not any("redis" in id for id in ids)
    with pytest.raises(TaskError, match="apt-get install nginx-light"):
        OpsReal(lambda need: False)


@pytest.mark.parametrize("id", [*TASKS.ids, *REAL])
def test_each_task_is_whole(id: str) -> None:
    item = item_of(REAL[id]) if id in REAL else TASKS[id]
    suite = item.exam.hidden
    assert isinstance(suite, ScriptSuite) and suite.required and len(item.exam.null) >= 2
    ast.parse(suite.files["test_probe.py"])
    assert not any("test_probe" in path for path in item.task.files)
