"""Our sandboxes as Inspect's: `Task(..., sandbox="quintain")`, or `("quintain", IMAGE)`. Inspect finds this module by
its entry point. Written against inspect-ai 0.3.285 (https://inspect.aisi.org.uk/extensions.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import msgspec
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError, SandboxUserUnsupportedError

from quintain.sandbox import NativeBackend
from quintain.sdk import SANDBOX_LIMITS, CommandResult, Sandbox
from quintain.types import HouseError, Status

_WORKDIR = "/work"


class _Engine:
    """The backend that all samples of all tasks of this process share, while there is a task."""

    def __init__(self) -> None:
        self._users = 0
        self.backend: NativeBackend | None = None

    def enter(self) -> None:
        self._users += 1
        if self.backend is None:
            self.backend = NativeBackend(terminals=True)

    async def leave(self) -> None:
        self._users -= 1
        if not self._users and self.backend is not None:
            backend, self.backend = self.backend, None
            await backend.aclose()


_ENGINE = _Engine()


@sandboxenv(name="quintain")
class QuintainSandboxEnvironment(SandboxEnvironment):
    """One sandbox for each sample, without a network. Relative paths start at /work. There is one user, and no other
    can be asked for. Output beyond Inspect's limit is OutputLimitExceededError."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self.sandbox = sandbox

    @classmethod
    async def task_init(cls, task_name: str, config: object) -> None:
        _ENGINE.enter()

    @classmethod
    async def task_cleanup(cls, task_name: str, config: object, cleanup: bool) -> None:
        await _ENGINE.leave()

    @classmethod
    async def sample_init(
        cls, task_name: str, config: object, metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        """`config` is the image. Raises ValueError for a configuration of another kind, HouseError."""
        if config is not None and not isinstance(config, str):
            raise ValueError(f'expected the name of an image, as in ("quintain", "host"), found {config!r}')
        limits = msgspec.structs.replace(
            SANDBOX_LIMITS, output_bytes=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE)
        sandbox = await Sandbox.create(config or "host", timeout=None, limits=limits, backend=_ENGINE.backend)
        return {"default": cls(sandbox)}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: object, environments: dict[str, Any], interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls).sandbox.kill()

    async def exec(
        self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None,
        env: dict[str, str] | None = None, user: str | None = None, timeout: int | None = None,
        timeout_retry: bool = True, concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            raise SandboxUserUnsupportedError(f"expected no user: a sandbox of Quintain has one, found {user!r}")
        with _living():
            process = await self.sandbox.commands.run(
                cmd, stdin=input or b"", cwd=_inside(cwd or "."), env=env, timeout=timeout, background=True)
            result = await process.wait()
        if result.timed_out:
            raise TimeoutError(f"the command took longer than {timeout} s")
        if result.stdout_truncated or result.stderr_truncated:
            raise OutputLimitExceededError(
                limit_str=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                truncated_output=result.stdout + result.stderr)
        if result.status is Status.NOT_STARTED and "ermission denied" in result.stderr:
            raise PermissionError(result.stderr)
        return ExecResult(result.ok, _code(result), result.stdout, result.stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        with _living():
            await self.sandbox.files.write(_inside(file), contents)

    async def read_file(self, file: str, text: bool = True) -> Any:
        path = _inside(file)
        with _living():
            info = await self.sandbox.files.get_info(path)
            if info.kind == "directory":
                raise IsADirectoryError(21, "expected a file, found a directory", path)
            if info.size_bytes > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
                raise OutputLimitExceededError(
                    limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, truncated_output=None)
            data = b"".join([piece async for piece in self.sandbox.files.stream(path)])
        return data.decode() if text else data

    def default_polling_interval(self) -> float:
        return 0.2


@contextmanager
def _living() -> Iterator[None]:
    try:
        yield
    except HouseError as error:
        raise SandboxUnavailableError(str(error)) from error


def _inside(path: str) -> str:
    return str(PurePosixPath(_WORKDIR, path))


def _code(result: CommandResult) -> int:
    """As a shell tells it: 127 for what cannot be started, 128 + N for what signal N has ended."""
    if result.exit_code is not None:
        return result.exit_code
    return 127 if result.status is Status.NOT_STARTED else 128 + (result.signal or 9)
