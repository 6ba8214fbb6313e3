"""The backend of plain subprocesses answers to the sandbox protocol, and says that it isolates nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from quintain.sandbox import Sandbox
from quintain.testing import ProcessBackend
from quintain.types import HouseError, Isolation, KilledBy, Limits, Network, Outcome, Status

T = TypeVar("T")
PYTHON = sys.executable


def inside(what: Callable[[Sandbox], Awaitable[T]], limits: Limits | None = None) -> T:
    async def use() -> T:
        async with ProcessBackend().open(limits=limits or Limits()) as (sandbox,):
            return await what(sandbox)

    return asyncio.run(use())


def run(*argv: str, limits: Limits | None = None, **options: object) -> Outcome:
    return inside(lambda sandbox: sandbox.run(argv, **options), limits)  # type: ignore[arg-type]


def test_it_says_that_it_isolates_nothing() -> None:
    capabilities = ProcessBackend().probe()
    assert capabilities.isolation is Isolation.PROCESS
    assert "isolation of any kind" in capabilities.does_not_cover
    assert not capabilities.warm


def test_a_network_that_it_cannot_take_away_is_refused() -> None:
    async def refuse() -> None:
        async with ProcessBackend().open(network=Network.NONE):
            pass

    with pytest.raises(HouseError, match="network 'full'"):
        asyncio.run(refuse())


def test_a_command_gets_its_input_environment_and_folder() -> None:
    code = "import os,sys; print(sys.stdin.read(), os.environ['A'], os.getcwd()); sys.exit(3)"

    async def use(sandbox: Sandbox) -> Outcome:
        await sandbox.files.make_dir("sub")
        return await sandbox.run([PYTHON, "-c", code], stdin=b"in", env={"A": "1"}, cwd="/work/sub")

    outcome = inside(use)
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 3)
    assert outcome.text.split()[:2] == ["in", "1"]
    assert outcome.text.strip().endswith("/sub")
    assert "HOME" not in os.environ or os.environ["HOME"] not in outcome.text


def test_time_is_bounded_and_the_whole_group_dies() -> None:
    code = "import os,time; os.fork(); print(os.getpid(), flush=True); time.sleep(60)"
    outcome = run(PYTHON, "-c", code, limits=Limits(wall_seconds=1.0))
    assert (outcome.status, outcome.killed_by) == (Status.TIMED_OUT, KilledBy.TIMEOUT)
    assert outcome.wall_seconds < 5
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
                   for pid in outcome.text.split())


def test_output_keeps_its_beginning_and_its_end() -> None:
    code = "print('a' * 300 + 'b' * 100_000 + 'c' * 300, end='')"
    outcome = run(PYTHON, "-c", code, limits=Limits(output_bytes=1000))
    assert outcome.stdout_truncated
    assert outcome.stdout_bytes == 100_600
    assert outcome.stdout == b"a" * 300 + b"b" * 400 + b"c" * 300
    short = run(PYTHON, "-c", "print('x' * 990, end='')", limits=Limits(output_bytes=1000))
    assert (short.stdout, short.stdout_truncated) == (b"x" * 990, False)


def test_the_channel_is_descriptor_three() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = "import os; os.write(3, os.read(3, 9)[::-1])"
        ours.sendall(b"abc")
        outcome = run(PYTHON, "-c", code, channel=theirs.fileno())
        assert outcome.status is Status.OK
        assert ours.recv(9) == b"cba"


def test_a_signal_and_a_missing_program_have_names() -> None:
    assert run(PYTHON, "-c", "import os; os.kill(os.getpid(), 9)").signal == 9
    missing = run("/no/such/program")
    assert (missing.status, missing.exit_code) == (Status.NOT_STARTED, None)
    assert "No such file" in missing.error_text


def test_files_stay_below_work() -> None:
    async def use(sandbox: Sandbox) -> None:
        await sandbox.files.write_many({"a/b.txt": b"1", "/work/c": b"22"})
        assert await sandbox.files.read("a/b.txt") == b"1"
        assert await sandbox.files.read("c", max_bytes=1) == b"2"
        listed = await sandbox.files.list(depth=2)
        assert [(f.path, f.kind, f.size_bytes) for f in listed] == [
            ("/work/a", "directory", 0), ("/work/a/b.txt", "file", 1), ("/work/c", "file", 2)]
        await sandbox.files.remove("a")
        assert not await sandbox.files.exists("a/b.txt")
        for path in ("../x", "/etc/passwd"):
            with pytest.raises(PermissionError, match="below /work"):
                await sandbox.files.read(path)

    inside(use)


def test_a_closed_sandbox_and_a_warm_start_are_refused() -> None:
    async def use(sandbox: Sandbox) -> None:
        with pytest.raises(ValueError, match="no warm interpreter"):
            await sandbox.run(["-c", "1"], warm=True)
        await sandbox.close()
        with pytest.raises(HouseError, match="closed"):
            await sandbox.run(["true"])

    inside(use)
