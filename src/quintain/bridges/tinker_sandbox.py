"""A sandbox of ours as tinker-cookbook's. Written against tinker-cookbook 0.5: `tinker_cookbook.sandbox`.

    sandbox = await TinkerSandbox.create()          # where a recipe makes a ModalSandbox
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from tinker_cookbook.sandbox.sandbox_interface import SandboxResult, SandboxTerminatedError

from quintain.sandbox import Backend
from quintain.sdk import SANDBOX_LIMITS, Sandbox
from quintain.types import FaultKind, HouseError, Limits, Network

#: What tinker-cookbook's own sandbox keeps of an output, where nothing else is said.
MOST_BYTES = 128 * 1024
#: As GNU timeout says that time was up, and as a shell says that a signal ended a command.
_TIMED_OUT, _SIGNALLED = 124, 128
_GONE = frozenset({FaultKind.SANDBOX_LOST})


class TinkerSandbox:
    """Satisfies `SandboxInterface`; made by `create`, ended by `cleanup`.

    A command that fails, is late (exit code 124) or is killed is a result; a sandbox that is gone raises
    SandboxTerminatedError, by which a recipe throws the episode away instead of paying 0. Files stay between commands,
    processes do not. A heartbeat renews the sandbox's time.
    """

    def __init__(self, sandbox: Sandbox, *, workdir: str, lifetime: float) -> None:
        self._sandbox = sandbox
        self._workdir = workdir
        self._lifetime = lifetime

    @classmethod
    async def create(
        cls, image: str = "host+rw", *, timeout: float = 600.0, workdir: str = "/work", limits: Limits = SANDBOX_LIMITS,
        allow: Sequence[str] = (), backend: Backend | None = None,
    ) -> Self:
        """`timeout` is the sandbox's life in seconds, `allow` the hosts that it reaches ('pypi.org:443'; empty: none).
        Share one `NativeBackend` among many. Raises HouseError where no sandbox can be had."""
        network = Network.ALLOW_LIST if allow else Network.NONE
        sandbox = await Sandbox.create(
            image, timeout=timeout, limits=limits, network=network, allow=allow, backend=backend)
        return cls(sandbox, workdir=workdir, lifetime=timeout)

    @property
    def sandbox_id(self) -> str:
        return self._sandbox.sandbox_id

    async def send_heartbeat(self, timeout: int = 30) -> None:
        """Raises SandboxTerminatedError for a sandbox that is gone."""
        if not await self._sandbox.is_running():
            raise SandboxTerminatedError(f"sandbox {self.sandbox_id} is gone")
        self._sandbox.set_timeout(self._lifetime)

    async def run_command(
        self, command: str, workdir: str | None = None, timeout: int = 60, max_output_bytes: int | None = None,
    ) -> SandboxResult:
        most = MOST_BYTES if max_output_bytes is None else max_output_bytes
        async with _alive():
            ended = await self._sandbox.commands.run(
                ["/bin/bash", "-c", command], cwd=workdir or self._workdir, timeout=timeout)
        code = ended.exit_code
        if code is None:
            code = _TIMED_OUT if ended.timed_out else _SIGNALLED + (ended.signal or 0)
        why = "" if ended.exit_code is not None else f"\n{ended.status.value}"
        return SandboxResult(
            stdout=_cut(ended.outcome.stdout, most), stderr=_cut(ended.outcome.stderr, most) + why, exit_code=code,
            metrics={"wall_seconds": ended.wall_seconds, "cpu_seconds": ended.cpu_seconds or 0.0})

    async def read_file(self, path: str, max_bytes: int | None = None, timeout: int = 60) -> SandboxResult:
        """A file that is not there is exit code 1, as of `cat`."""
        how = "cat" if max_bytes is None else f"head -c {int(max_bytes)}"
        return await self.run_command(
            f"{how} -- {_quoted(path)}", timeout=timeout, max_output_bytes=max_bytes or SANDBOX_LIMITS.output_bytes)

    async def write_file(
        self, path: str, content: str | bytes, executable: bool = False, timeout: int = 60,
    ) -> SandboxResult:
        """Folders on the way are made. What is in the way is exit code 1."""
        place = posixpath.join(self._workdir, path)
        try:
            async with _alive():
                await self._sandbox.files.write(
                    place, content.encode() if isinstance(content, str) else content,
                    mode=0o755 if executable else 0o644)
        except OSError as error:
            return SandboxResult(stdout="", stderr=f"{path}: {error.strerror or error}", exit_code=1)
        return SandboxResult(stdout="", stderr="", exit_code=0)

    async def cleanup(self) -> None:
        await self._sandbox.kill()


@asynccontextmanager
async def _alive() -> AsyncIterator[None]:
    try:
        yield
    except HouseError as error:
        if error.kind in _GONE:
            raise SandboxTerminatedError(str(error)) from error
        raise


def _cut(data: bytes, most: int) -> str:
    return data[:most].decode("utf-8", "replace")


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
