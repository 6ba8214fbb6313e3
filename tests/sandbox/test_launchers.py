"""Backends that start other people's launchers fail with words, and leave nothing, whatever becomes of the house."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from quintain.sandbox import (
    Backend,
    BubblewrapBackend,
    ContainerBackend,
    GvisorBackend,
    NativeBackend,
    _slots,
    clean,
)
from quintain.sandbox._ground import Ground, remove_tree
from quintain.types import FaultKind, HouseError, Limits, Network
from tests.sandbox.test_janitor import alive, descendants, groups

BWRAP = BubblewrapBackend().probe()
needs_bubblewrap = pytest.mark.skipif(not BWRAP.available, reason=f"bubblewrap is missing {BWRAP.missing}")

HOUSE = """
import asyncio, sys
from quintain.sandbox import BubblewrapBackend

async def main():
    async with BubblewrapBackend() as backend, backend.open(count=2) as boxes, asyncio.TaskGroup() as group:
        for box in boxes:
            group.create_task(box.run(["sh", "-c", "setsid sleep 301 & sleep 302"]))
        await asyncio.sleep(0.5)
        print(boxes[0].id, flush=True)

asyncio.run(main())
"""


def opened(backend: Backend, **how: object) -> None:
    async def once() -> None:
        async with backend.open(**how):  # type: ignore[arg-type]
            pass

    asyncio.run(once())


@pytest.mark.parametrize(
    ("backend", "remedy"),
    [(BubblewrapBackend(program="no-such"), "install bubblewrap"), (GvisorBackend(program="no-such"), "install runsc"),
     (ContainerBackend(program="no-such"), "install podman")],
)
def test_a_launcher_that_is_not_there_is_named_with_its_remedy(backend: Backend, remedy: str) -> None:
    can = backend.probe()
    assert not can.available
    assert remedy in " ".join(can.missing.values())
    with pytest.raises(HouseError, match=remedy) as caught:
        opened(backend)
    assert caught.value.kind is FaultKind.SANDBOX_CREATE_FAILED


@pytest.mark.parametrize("backend", [NativeBackend(), BubblewrapBackend()], ids=lambda backend: backend.name)
def test_what_the_house_ignores_no_program_finds_ignored(backend: Backend) -> None:
    """A shell starts what it sends to the background with SIGINT ignored, and that is inherited."""
    if not backend.probe().available:
        pytest.skip(str(backend.probe().missing))

    async def main() -> bytes:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(backend.aclose)
            [box] = await stack.enter_async_context(backend.open())
            return (await box.run(["grep", "SigIgn", "/proc/self/status"])).stdout

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert int(asyncio.run(main()).split()[1], 16) == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("backend", [BubblewrapBackend(), GvisorBackend(), ContainerBackend()])
def test_another_image_or_network_is_refused_and_nothing_weaker_given(backend: Backend) -> None:
    for how in ({"image": "debian:12"}, {"network": Network.FULL}):
        with pytest.raises(HouseError, match="expected image 'host' and network 'none'"):
            opened(backend, **how)


@needs_bubblewrap
def test_a_launcher_that_fails_is_quoted_and_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'no room at the inn' >&2\nexit 3\n")
    broken.chmod(0o755)
    before = descendants(os.getpid())

    async def all_of_it() -> str:
        async with BubblewrapBackend(program=str(broken)) as backend:
            with pytest.raises(HouseError, match="no room at the inn"):
                async with backend.open(count=3):
                    pass
            assert backend._ground is not None
            slot = backend._ground.slot.name
            assert not [g for g in groups(slot) if not g.endswith(slot)]
            return slot

    assert groups(asyncio.run(all_of_it())) == []
    assert descendants(os.getpid()) <= before


@pytest.mark.slow
@needs_bubblewrap
def test_nothing_is_left_of_bubblewrap_when_the_house_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", HOUSE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    number = process.stdout.readline().strip().split("-")[1]
    slot = f"quintain-{os.geteuid()}-{number}"
    kin = descendants(process.pid)
    assert len(kin) >= 6  # two launchers, two agents, their programs
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    deadline = time.monotonic() + 5
    while (alive(kin) or groups(slot)) and time.monotonic() < deadline:
        time.sleep(0.05)
        clean()
    assert alive(kin) == set()
    assert groups(slot) == []
    assert not (_slots.directory() / f"launch-{number}").exists()


def test_a_ground_gives_everything_back() -> None:
    ground = Ground()
    ground.fence(ground.place(), Limits())
    (ground.folder / "left.txt").write_text("left")
    assert ground.folder.is_dir()
    ground.close()
    assert groups(ground.slot.name) == []
    assert not ground.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount something")
def test_nothing_is_removed_through_a_mount(tmp_path: Path) -> None:
    """A launcher binds the host's directories below our folder; were that bind visible, removal would go through it."""
    precious, folder = tmp_path / "precious", tmp_path / "folder"
    precious.mkdir()
    (precious / "file").write_text("precious")
    (folder / "root" / "usr").mkdir(parents=True)
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or subprocess.run(
        [mount, "--bind", precious, folder / "root" / "usr"], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs the right to mount")
    try:
        with pytest.raises(HouseError, match="unmount it"):
            remove_tree(folder)
        assert (precious / "file").read_text() == "precious"
    finally:
        subprocess.run([unmount, folder / "root" / "usr"], check=True)
    remove_tree(folder)
    assert not folder.exists()
