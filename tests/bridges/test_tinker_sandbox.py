"""tinker-cookbook's sandbox interface, by sandboxes of ours."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("tinker_cookbook.sandbox.sandbox_interface", reason="needs tinker-cookbook")

from tinker_cookbook.sandbox import sandbox_interface as interface

from quintain.bridges.tinker_sandbox import TinkerSandbox
from quintain.sandbox import NativeBackend

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


@pytest.mark.bridge("tinker-cookbook", "ours in theirs", "SandboxInterface: commands, files, time-out, a lost sandbox")
def test_commands_files_and_a_sandbox_that_is_gone() -> None:
    async def play() -> None:
        sandbox = await TinkerSandbox.create()
        assert isinstance(sandbox, interface.SandboxInterface) and sandbox.sandbox_id
        done = await sandbox.run_command("echo out; echo err >&2; exit 3")
        assert isinstance(done, interface.SandboxResult)
        assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3)
        assert (await sandbox.write_file("/app/deep/x.sh", "#!/bin/sh\necho hi $1\n", executable=True)).exit_code == 0
        assert (await sandbox.run_command("./x.sh you", workdir="/app/deep")).stdout == "hi you\n"
        assert (await sandbox.read_file("/app/deep/x.sh", max_bytes=9)).stdout == "#!/bin/sh"
        assert (await sandbox.read_file("/app/nothing")).exit_code == 1
        assert (await sandbox.write_file("/app/deep/x.sh/y", "z")).exit_code == 1
        late = await sandbox.run_command("echo before; sleep 60", timeout=1)
        assert (late.exit_code, late.stdout) == (124, "before\n")
        assert len((await sandbox.run_command("yes", timeout=1, max_output_bytes=100)).stdout) == 100
        await sandbox.send_heartbeat()
        await sandbox.cleanup()
        await sandbox.cleanup()
        with pytest.raises(interface.SandboxTerminatedError):
            await sandbox.send_heartbeat()
        with pytest.raises(interface.SandboxTerminatedError):
            await sandbox.run_command("true")

    asyncio.run(play())
