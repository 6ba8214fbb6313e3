"""A program that fills its files cannot end its own sandbox: that would be the house's fault, and be sampled again."""

from __future__ import annotations

import asyncio

import pytest

from quintain.sandbox import NativeBackend
from quintain.types import MEBIBYTE, Limits, Status

PROBED = NativeBackend().probe()
pytestmark = pytest.mark.skipif(
    not PROBED.available or PROBED.memory != "hard", reason="needs the native backend with control groups"
)
FILL = "cat /dev/zero > /work/a; cat /dev/zero > /tmp/b; i=0; while echo $i > /work/n$i; do i=$((i+1)); done; echo full"


@pytest.mark.parametrize("mebibytes", [64, 128])
def test_files_as_large_as_the_memory_leave_room_for_what_follows(mebibytes: int) -> None:
    async def main() -> None:
        limits = Limits(memory_bytes=mebibytes * MEBIBYTE, disk_bytes=1024 * MEBIBYTE)
        async with NativeBackend() as backend, backend.open(limits=limits) as [sandbox]:
            await sandbox.run(["sh", "-c", FILL])
            for _ in range(3):
                with pytest.raises(OSError, match="No space left"):
                    await sandbox.files.write("more", bytes(MEBIBYTE))
                outcome = await sandbox.run(["echo", "alive"])
                assert (outcome.status, outcome.stdout) == (Status.OK, b"alive\n")

    asyncio.run(main())
