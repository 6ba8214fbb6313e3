"""Our sandboxes as a provider of NeMo Gym's sandboxes, found by entry point: `sandbox: {quintain: {}}`. Written against
nemo-gym 0.7 (nemo_gym/sandbox/providers/base.py), which asks for Python 3.13.14.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import msgspec
from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

from quintain.sandbox import Interactive, NativeBackend
from quintain.sdk import SANDBOX_LIMITS
from quintain.types import MEBIBYTE, HouseError, Limits, Network, Outcome, Status, TaskError

#: NeMo Gym's return code for what is no process's own.
NO_PROCESS = 125
_OURS = ("host", "dir:", "oci:", "build:")
_ROOT = (None, "", 0, "0", "root")
_MIB_OF_A_GIB = 1024


class _Made(msgspec.Struct):
    """What a handle holds."""

    box: Interactive
    stack: AsyncExitStack
    workdir: str
    env: dict[str, str]
    limits: Limits
    state: SandboxStatus = SandboxStatus.RUNNING
    timer: asyncio.TimerHandle | None = None

    def expire(self) -> None:
        self.state = SandboxStatus.STOPPED
        self.box.let_go()


class QuintainProvider:
    """One sandbox with a writable root for each `create`, all on one engine. What a command leaves running lives on.

    `bases` says what to take for the images of a registry ({"python:3.12-slim": "host"}, "*": any other); without an
    image it is the host. `network`: none, full, or allow_list with `allow` (see `quintain.sandbox`). `timeout_s` is a
    command's that says none. Cores are not bounded. Refused with SandboxCreateError: GPUs, ports, entry points,
    provider options, images that nothing stands for.
    """

    name = "quintain"

    def __init__(
        self, *, bases: Mapping[str, str] | None = None, network: str = "none", allow: Sequence[str] = (),
        timeout_s: float = 180.0, memory_mib: int = 2048, disk_gib: float = 1,
    ) -> None:
        """Raises ValueError for a network that is not known."""
        self._bases = dict(bases or {})
        self._network = Network(network)
        self._allow = tuple(allow)
        self._timeout = timeout_s
        self._memory_mib = memory_mib
        self._disk_gib = disk_gib
        self._backend: NativeBackend | None = None

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Raises SandboxCreateError, also when it takes longer than `spec.ready_timeout_s`."""
        image, limits = self._image(spec), self._limits(spec)
        if self._backend is None:
            self._backend = NativeBackend(terminals=True)
        workdir = spec.workdir or "/work"
        try:
            async with asyncio.timeout(spec.ready_timeout_s), AsyncExitStack() as stack:
                opening = self._backend.open(image, limits=limits, network=self._network, allow=self._allow)
                (box,) = await stack.enter_async_context(opening)
                await box.files.make_dir(workdir)
                made = _Made(box=cast(Interactive, box), stack=stack.pop_all(), workdir=workdir, env=dict(spec.env),
                             limits=limits)
        except TimeoutError:
            raise SandboxCreateError(f"no sandbox within {spec.ready_timeout_s} s") from None
        except (HouseError, TaskError, ValueError, OSError) as error:
            raise SandboxCreateError(str(error)) from error
        if spec.ttl_s is not None:
            made.timer = asyncio.get_running_loop().call_later(spec.ttl_s, made.expire)
        return SandboxHandle(sandbox_id=made.box.id, provider_name=self.name, raw=made)

    def _image(self, spec: SandboxSpec) -> str:
        named = spec.image or "host"
        image = named if named.removesuffix("+rw") == "host" or named.startswith(_OURS[1:]) else (
            self._bases.get(named) or self._bases.get("*"))
        if image is None:
            raise SandboxCreateError(f"the image {named!r} is a registry's: say what to take for it "
                                     f"(bases: {{{named!r}: 'oci:PATH'}})")
        return image if image.endswith("+rw") else image + "+rw"

    def _limits(self, spec: SandboxSpec) -> Limits:
        wanted = spec.resources if isinstance(spec.resources, SandboxResources) else SandboxResources()
        refused = {"gpu": wanted.gpu, "gpu_type": wanted.gpu_type, "ports": tuple(spec.ports),
                   "entrypoint": spec.entrypoint, "provider_options": spec.provider_options}
        if there := [name for name, value in refused.items() if value]:
            raise SandboxCreateError(f"expected no {' and no '.join(there)}: a sandbox of Quintain has none")
        memory = wanted.memory_mib or self._memory_mib
        disk = int((wanted.disk_gib or self._disk_gib) * _MIB_OF_A_GIB)
        return msgspec.structs.replace(
            SANDBOX_LIMITS, memory_bytes=memory * MEBIBYTE, disk_bytes=disk * MEBIBYTE, inodes=262_144, processes=512,
            output_bytes=16 * MEBIBYTE)

    async def exec(
        self, handle: SandboxHandle, command: str, *, cwd: str | None = None, env: dict[str, str] | None = None,
        timeout_s: int | float | None = None, user: str | int | None = None,
    ) -> SandboxExecResult:
        """By bash. A time-out and a lost sandbox are results, as with NeMo Gym's own providers: 125, and `error_type`
        "timeout" or "sandbox". Raises ValueError for a user other than root."""
        if user not in _ROOT:
            raise ValueError(f"expected root: a sandbox of Quintain has one user, found {user!r}")
        made = _made(handle)
        seconds = timeout_s if timeout_s is not None else self._timeout
        try:
            outcome = await self._run(made, command, _inside(made, cwd or "."), {**made.env, **(env or {})}, seconds)
        except HouseError as error:
            return SandboxExecResult(stdout=None, stderr=str(error), return_code=NO_PROCESS, error_type="sandbox")
        if outcome.timed_out:
            said = f"{outcome.error_text}\ncommand timed out after {seconds:g}s"
            return SandboxExecResult(stdout=outcome.text, stderr=said, return_code=NO_PROCESS, error_type="timeout")
        return SandboxExecResult(stdout=outcome.text, stderr=outcome.error_text, return_code=_code(outcome))

    async def _run(self, made: _Made, command: str, cwd: str, env: dict[str, str], seconds: float) -> Outcome:
        limits = msgspec.structs.replace(made.limits, wall_seconds=seconds)
        process = await made.box.start(("/bin/bash", "-c", command), cwd=cwd, env=env, limits=limits, linger=True)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await process.kill()
            raise

    async def exec_with_background_services(
        self, handle: SandboxHandle, command: str, *, cwd: str | None = None, timeout_s: int | float | None = None,
    ) -> SandboxExecResult:
        """As `exec`, which leaves services running, too."""
        return await self.exec(handle, command, cwd=cwd, timeout_s=timeout_s)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        made, source = _made(handle), Path(source_path)
        content = await asyncio.to_thread(source.read_bytes)
        mode = (await asyncio.to_thread(source.stat)).st_mode & 0o777
        await made.box.files.write(_inside(made, target_path), content, mode=mode)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Raises OSError as the kernel said it inside."""
        made, target = _made(handle), Path(target_path)
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        with await asyncio.to_thread(target.open, "wb") as file:
            at, path = 0, _inside(made, source_path)
            while piece := await made.box.files.read_piece(path, offset=at, size=MEBIBYTE):
                file.write(piece)
                at += len(piece)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        made = _made(handle)
        if made.state is SandboxStatus.RUNNING:
            try:
                await made.box.files.exists("/")
            except HouseError:
                made.state = SandboxStatus.ERROR
        return made.state

    async def pause(self, handle: SandboxHandle) -> None:
        """Processes stand still, and live on in memory; the time to live goes on."""
        await _made(handle).box.pause()
        _made(handle).state = SandboxStatus.PAUSED

    async def resume(self, handle: SandboxHandle) -> None:
        await _made(handle).box.resume()
        _made(handle).state = SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        made = _made(handle)
        made.state = SandboxStatus.STOPPED
        if made.timer is not None:
            made.timer.cancel()
        await made.stack.aclose()

    async def aclose(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.aclose()


def _made(handle: SandboxHandle) -> _Made:
    if not isinstance(handle.raw, _Made):
        raise ValueError(f"expected a handle of Quintain's, found one of {handle.provider_name!r}")
    return handle.raw


def _inside(made: _Made, path: str) -> str:
    return os.path.normpath(os.path.join(made.workdir, path))


def _code(outcome: Outcome) -> int:
    """As a shell tells it: 127 for what cannot be started, 128 + N for what signal N has ended."""
    if outcome.exit_code is not None:
        return outcome.exit_code
    return 127 if outcome.status is Status.NOT_STARTED else 128 + (outcome.signal or 9)
