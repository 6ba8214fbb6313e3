"""The files of a sandbox, taken out of it as bytes and put into another: both done inside, as the program's user."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress

import msgspec

from quintain.sandbox import _wire
from quintain.sandbox._agent import Agent
from quintain.sandbox._running import Exit
from quintain.sandbox.base import Snapshot
from quintain.sandbox.image import Image
from quintain.types import FaultKind, HouseError, Limits

WITHIN_SECONDS = 120.0
PIPE_BYTES = 1024 * 1024
SPARE_BYTES = 4096  # of headers, for each entry


async def save(agent: Agent, limits: Limits, image: Image) -> Snapshot:
    """All that is in the writable trees. Raises HouseError(SANDBOX_LOST) when it cannot be read to the end."""
    most = limits.disk_bytes + limits.inodes * SPARE_BYTES
    content = bytearray()
    ours, theirs = _pipe()
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        with suppress(BlockingIOError):
            while len(content) <= most and (piece := os.read(ours, PIPE_BYTES)):
                content.extend(piece)
        if len(content) > most:  # it blocks on the full pipe until its time is over; a tenant's own fault
            loop.remove_reader(ours)

    os.set_blocking(ours, False)
    loop.add_reader(ours, on_readable)
    try:  # a staged stdin, because a program may have shut the way to /dev/null
        done = await agent.run(
            ["snapshot"], stdin=b"\n", env={}, cwd="/", limits=_patient(limits), channel=theirs, warm=False,
            on_stdout=None, on_stderr=None, flags=_wire.RUN_SAVE,
        )
        os.close(theirs)
        theirs = -1
        on_readable()
    finally:
        loop.remove_reader(ours)
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    _check(done, "taken")
    if len(content) > most:
        raise HouseError(FaultKind.SANDBOX_LOST, f"expected a snapshot of at most {most} bytes, found more")
    left_out = tuple(item.decode("utf-8", "surrogateescape") for item in done.stdout.split(b"\0") if item)
    return Snapshot(image=image.name + ("+rw" if image.writable else ""), image_digest=image.digest,
                    content=bytes(content), left_out=left_out)


async def restore(agent: Agent, limits: Limits, snapshot: Snapshot) -> None:
    """Make the trees anew in a fresh sandbox. Raises HouseError(SANDBOX_CREATE_FAILED) naming what did not fit."""
    theirs, ours = _pipe()
    loop = asyncio.get_running_loop()
    left = memoryview(snapshot.content)

    def finish() -> None:
        nonlocal ours
        if ours >= 0:  # the reader learns by it that no more will come
            loop.remove_writer(ours)
            os.close(ours)
            ours = -1

    def on_writable() -> None:
        nonlocal left
        try:
            while left:
                left = left[os.write(ours, left[:PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads any more: the exit says why
            pass
        finish()

    os.set_blocking(ours, False)
    loop.add_writer(ours, on_writable)
    try:
        done = await agent.run(
            ["restore"], stdin=b"", env={}, cwd="/", limits=_patient(limits), channel=theirs, warm=False,
            on_stdout=None, on_stderr=None, flags=_wire.RUN_RESTORE,
        )
    finally:
        finish()
        os.close(theirs)
    try:
        _check(done, "restored")
    except HouseError as error:
        raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, error.message) from None


def _pipe() -> tuple[int, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    with suppress(OSError):  # a bigger pipe is only faster
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return read, write


def _patient(limits: Limits) -> Limits:
    return msgspec.structs.replace(limits, wall_seconds=WITHIN_SECONDS, cpu_seconds=WITHIN_SECONDS)


def _check(done: Exit, verb: str) -> None:
    code = os.waitstatus_to_exitcode(done.wait_status)
    if code or done.flags & _wire.EXIT_NOT_STARTED:
        said = os.strerror(done.error) if done.error else done.stderr.decode("utf-8", "replace").strip()
        how = "not within 120 s" if done.flags & _wire.EXIT_TIMED_OUT else said or f"its process ended with {code}"
        raise HouseError(FaultKind.SANDBOX_LOST, f"the snapshot could not be {verb}: {how}")
