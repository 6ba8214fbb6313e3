"""A sandbox of ours as Harbor's environment, by import path. Written against harbor 0.26, which needs Python 3.12.

    harbor run -p TASK -a AGENT -e quintain.bridges.harbor:QuintainEnvironment --ek bases='{"ubuntu:24.04": "host"}'
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from harbor.environments.base import BaseEnvironment, ExecResult, HealthcheckError, SandboxBuildFailedError
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.definition import require_agent_environment_definition
from harbor.environments.options import EnvironmentOptions
from harbor.environments.tar_transfer import extract_dir, pack_dir
from harbor.models.task.config import NetworkMode
from harbor.models.trial.config import ResourceMode
from harbor.models.trial.paths import EnvironmentPaths
from pydantic import Field

from quintain.bridges.harbor_image import COMPOSE, image_of
from quintain.sandbox import Interactive, NativeBackend, Process
from quintain.types import MEBIBYTE, HouseError, Limits, Network, Outcome, TaskError

#: What a task has that says nothing of it, as where our own run of a Harbor task begins.
DEFAULTS = Limits(
    wall_seconds=7 * 24 * 3600.0, cpu_seconds=7 * 24 * 3600.0, memory_bytes=2048 * MEBIBYTE,
    disk_bytes=1024 * MEBIBYTE, inodes=262_144, processes=512, output_bytes=16 * MEBIBYTE)
_NETWORKS = {NetworkMode.NO_NETWORK: Network.NONE, NetworkMode.ALLOWLIST: Network.ALLOW_LIST,
             NetworkMode.PUBLIC: Network.FULL}
_PIECE = MEBIBYTE
_ROOT = (None, "", 0, "0", "root")


class QuintainOptions(EnvironmentOptions):
    """`bases`: what to take for the images of a registry, which cannot be fetched here: {"ubuntu:24.04": "host"},
    {"*": "oci:/path:12"} ("*": any other)."""

    bases: dict[str, str] = Field(default_factory=dict)


class _Engine:
    """The backend that all environments of this process share, while there is one."""

    def __init__(self) -> None:
        self._users = 0
        self._backend: NativeBackend | None = None

    def enter(self) -> NativeBackend:
        self._users += 1
        if self._backend is None:
            self._backend = NativeBackend(terminals=True)
        return self._backend

    async def leave(self) -> None:
        self._users -= 1
        if not self._users and self._backend is not None:
            backend, self._backend = self._backend, None
            await backend.aclose()


_ENGINE = _Engine()


class QuintainEnvironment(BaseEnvironment):
    """One sandbox with a writable root, without Docker. What a command leaves running lives on until `stop`.

    Refused with ValueError: compose files, mounts, users other than root, and (by Harbor itself, for it is not
    declared) GPUs, TPUs, Windows, streams, and a network that changes after the start. A task that cannot be built is
    SandboxBuildFailedError; a sandbox that is gone is HealthcheckError: Harbor believes no reward of such a trial.
    """

    options_model = QuintainOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._stack = AsyncExitStack()
        self._running: Interactive | None = None
        self._workdir = "/"
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "quintain"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True, network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv6_addresses=True, network_allowlist_ipv4_cidrs=True,
            network_allowlist_ipv6_cidrs=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Cores are not bounded here, so neither a limit nor a request of them can be asked for; what a task says of
        them is let be, as Harbor does with `auto`."""
        return EnvironmentResourceCapabilities(memory_limit=True, fractional_cpus=True)

    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        super().preflight(kwargs)
        if not (found := NativeBackend().probe()).available:
            raise SystemExit("expected a host on which native sandboxes can be made, found what `quintain doctor` "
                             "tells: " + "; ".join(found.missing.values()))

    def _validate_definition(self) -> None:
        require_agent_environment_definition(self.environment_dir, docker_image=self.task_env_config.docker_image)
        if there := [name for name in COMPOSE if (self.environment_dir / name).exists()]:
            raise ValueError(f"expected one container: a sandbox of Quintain is one, found {there[0]}")
        if self._host_mounts:
            raise ValueError("expected no mounts: a sandbox of Quintain shows nothing of the host, found "
                             + ", ".join(str(mount["target"]) for mount in self._host_mounts))

    # ---- its life ----
    async def start(self, force_build: bool) -> None:
        """`force_build` changes nothing: layers are kept by content. Raises SandboxBuildFailedError, HealthcheckError,
        ValueError."""
        backend = _ENGINE.enter()
        self._stack.push_async_callback(_ENGINE.leave)
        try:
            with _told():
                await self._open(backend)
                await self._make_folders()
                await self._upload_environment_dir_after_start()
        except BaseException:
            await self.stop(delete=True)
            raise

    async def _open(self, backend: NativeBackend) -> None:
        config, network = self.task_env_config, _NETWORKS[self._network_policy.network_mode]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quintain"
        image = await asyncio.to_thread(
            image_of, self.environment_dir, docker_image=config.docker_image, bases=self.options.bases, cache=cache,
            backend=backend)
        allow = self._network_policy.allowed_hosts if network is Network.ALLOW_LIST else ()
        opening = backend.open(image, limits=self._limits(), network=network, allow=allow)
        (box,) = await self._stack.enter_async_context(opening)
        self._running = cast(Interactive, box)
        self._workdir = config.workdir or getattr(box, "workdir", "/")

    def _limits(self) -> Limits:
        memory = self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)
        storage = self._effective_storage_mb
        return msgspec.structs.replace(
            DEFAULTS, memory_bytes=max(memory, 64) * MEBIBYTE if memory else DEFAULTS.memory_bytes,
            disk_bytes=max(storage, 1) * MEBIBYTE if storage else DEFAULTS.disk_bytes)

    async def stop(self, delete: bool) -> None:
        if not delete:
            self.logger.warning("expected --delete: a sandbox of Quintain ends with its trial, and nothing is kept")
        self._running = None
        await self._stack.aclose()

    def _box(self) -> Interactive:
        if self._running is None:
            raise RuntimeError("expected an environment that was started, found none")
        return self._running

    # ---- commands ----
    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None, timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """By bash. Of each stream the first and the last 8 MiB are kept. Raises RuntimeError when it takes longer than
        `timeout_sec`, ValueError for a user other than root, HealthcheckError."""
        if (wanted := self._resolve_user(user)) not in _ROOT:
            raise ValueError(f"expected root: a sandbox of Quintain has one user, found {wanted!r}")
        with _told():
            process = await self._begin(
                command, cwd=cwd or self._workdir, env=self._merge_env(env), seconds=timeout_sec)
            outcome = await _ended(process, self._output_callback())
        if outcome.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=outcome.text, stderr=_and_why(outcome), return_code=_code(outcome))

    async def _begin(
        self, command: str, *, cwd: str = "/", env: dict[str, str] | None = None, seconds: float | None = None,
        stdin: bytes | None = b"", linger: bool = True,
    ) -> Process:
        limits = self._limits()
        if seconds:
            limits = msgspec.structs.replace(limits, wall_seconds=seconds)
        argv = ("/bin/bash", "-c", command)
        return await self._box().start(argv, cwd=cwd, env=env, limits=limits, stdin=stdin, linger=linger)

    async def _make_folders(self) -> None:
        """The work folder, and what Harbor expects to lie there, open to all."""
        paths = EnvironmentPaths.for_os(self.os)
        logs = {str(paths.agent_dir), str(paths.verifier_dir), str(paths.artifacts_dir)}
        logs |= set(self._mount_targets(writable_only=True))
        for folder in (*sorted(logs), self._workdir):
            await self._box().files.make_dir(folder)
        await self._box().run(["chmod", "777", *sorted(logs)], cwd="/")

    # ---- files ----
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """With its mode."""
        content, mode = await asyncio.to_thread(_read, Path(source_path))
        with _told():
            await self._box().files.write(target_path, content, mode=mode)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """What is in it, into `target_dir`, with modes and links. Raises RuntimeError where it does not fit."""
        with tempfile.TemporaryFile() as archive, _told():
            await asyncio.to_thread(pack_dir, source_dir, archive, compress=False, include_root=False)
            archive.seek(0)
            into = shlex.quote(target_dir)
            process = await self._begin(f"mkdir -p {into} && exec tar -xof - -C {into}", stdin=None, linger=False)
            while piece := archive.read(_PIECE):
                await process.send(piece)
            await process.end_input()
            _well(await process.wait(), f"put {source_dir} into {target_dir}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Raises OSError as the kernel said it inside, also for what is no regular file."""
        with _told(), await asyncio.to_thread(_written, Path(target_path)) as file:
            async for piece in self._pieces(source_path):
                file.write(piece)

    async def _pieces(self, path: str) -> AsyncIterator[bytes]:
        at = 0
        while piece := await self._box().files.read_piece(path, offset=at, size=_PIECE):
            at += len(piece)
            yield piece
            if len(piece) < _PIECE:
                return

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """What is in it, into `target_dir`. Links that lead out of it and what is neither file, folder nor link are
        left out. Raises RuntimeError where it is not there, or larger than the task's storage."""
        most = self._limits().disk_bytes
        with tempfile.TemporaryFile() as archive, _told():
            process = await self._begin(f"exec tar -cf - -C {shlex.quote(source_dir)} .", linger=False)
            async for stream, piece in process.output():
                if stream == "stdout":
                    archive.write(piece)
                if archive.tell() > most:
                    await process.kill()
                    raise RuntimeError(f"expected at most {most} bytes in {source_dir}, the task's storage, found more")
            outcome = await process.wait()
            if b"file changed as we read it" not in outcome.stderr:
                _well(outcome, f"read {source_dir}")
            archive.seek(0)
            await asyncio.to_thread(_extract, archive, Path(target_dir))


def _read(path: Path) -> tuple[bytes, int]:
    return path.read_bytes(), path.stat().st_mode & 0o777


def _written(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _extract(archive: IO[bytes], target: Path) -> None:
    extract_dir(archive, target)


@contextmanager
def _told() -> Iterator[None]:
    """Our faults as errors of which Harbor knows that they say nothing of the agent."""
    try:
        yield
    except HouseError as error:
        raise HealthcheckError(f"the sandbox is gone: {error}") from error
    except TaskError as error:
        raise SandboxBuildFailedError(str(error)) from error


async def _ended(process: Process, callback: Callable[[str, Any], Awaitable[None]] | None) -> Outcome:
    """Cancelling kills it."""
    try:
        if callback is not None:
            decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
            async for name, piece in process.output():
                if text := decoders[name].decode(piece):
                    await callback(text, name)
        return await process.wait()
    except BaseException:
        await process.kill()
        raise


def _well(outcome: Outcome, what: str) -> None:
    if outcome.exit_code != 0:
        raise RuntimeError(f"cannot {what}: {outcome.error_text.strip()[-500:] or outcome.status.value}")


def _code(outcome: Outcome) -> int:
    """As a shell tells it: 127 for what cannot be started, 128 + N for what signal N has ended."""
    if outcome.exit_code is not None:
        return outcome.exit_code
    return 128 + outcome.signal if outcome.signal else 127


def _and_why(outcome: Outcome) -> str:
    """What it said, and why it did not end by itself, or that not all of it was kept."""
    said = outcome.error_text
    if outcome.exit_code is None:
        said += f"\nquintain: {outcome.status.value}"
    cut = [name for name in ("stdout", "stderr") if getattr(outcome, f"{name}_truncated")]
    return said + f"\nquintain: the middle of {' and '.join(cut)} was left out" if cut else said
