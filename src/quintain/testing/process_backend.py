"""Plain subprocesses in a temporary directory that answer to the sandbox protocol, for trusted code and tests.

Covers: wall time, bounded output, the whole process group is killed, a temporary directory of its own.
Does not cover: anything else. There is NO isolation: the program is the caller's user, sees its files and its network.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePosixPath

from quintain.sandbox import DEFAULT_LIMITS, Capabilities, FileInfo, Sandbox
from quintain.types import FaultKind, HouseError, Isolation, KilledBy, Limits, Network, Outcome, Status

_WORK = PurePosixPath("/work")
_LAST_WORDS_SECONDS = 2.0  # how long a dead program's pipes are read to their end


class ProcessFiles:
    """The files below one temporary directory, which plays the part of `/work`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def place(self, path: str) -> Path:
        """Where a path of the sandbox lies on the host. Raises PermissionError outside `/work`."""
        inside = PurePosixPath(os.path.normpath(_WORK / path))
        if not inside.is_relative_to(_WORK):
            raise PermissionError(f"expected a path below /work, found {path!r}")
        return self._root / inside.relative_to(_WORK)

    async def read(self, path: str, *, max_bytes: int = 16 * 1024 * 1024) -> bytes:
        with self.place(path).open("rb") as file:
            return file.read(max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)

    async def write_many(self, files: Mapping[str, bytes]) -> None:
        for path, content in files.items():
            await self.write(path, content)

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        return self._below(self.place(path), depth)

    def _below(self, place: Path, depth: int) -> Sequence[FileInfo]:
        found: builtins.list[FileInfo] = []
        for child in sorted(place.iterdir()):
            status = child.lstat()
            real_directory = child.is_dir() and not child.is_symlink()
            kind = "symlink" if child.is_symlink() else "directory" if real_directory else "file"
            inside = str(_WORK / child.relative_to(self._root))
            size = status.st_size if kind == "file" else 0
            found.append(FileInfo(path=inside, kind=kind, size_bytes=size, mode=status.st_mode & 0o7777))
            if real_directory and depth > 1:
                found += self._below(child, depth - 1)
        return found

    async def exists(self, path: str) -> bool:
        place = self.place(path)
        return place.exists() or place.is_symlink()

    async def remove(self, path: str) -> None:
        place = self.place(path)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    async def make_dir(self, path: str) -> None:
        self.place(path).mkdir(parents=True, exist_ok=True)


class _Kept:
    """The first and the last half of a stream that may be long."""

    def __init__(self, limit: int, tell: Callable[[bytes], None] | None) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._tell = tell
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self._head_room - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._tail_room + 65536:
            del self._tail[: -self._tail_room or None]
        if self._tell is not None:
            self._tell(chunk)

    @property
    def data(self) -> bytes:
        return bytes(self._head + (self._tail[-self._tail_room:] if self._tail_room else b""))


class ProcessSandbox:
    """One temporary directory and the process groups started in it."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root
        self._limits = limits
        self._closed = False
        self.files = ProcessFiles(root)

    @property
    def id(self) -> str:
        return self._root.name

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        if warm:
            raise ValueError("the process backend has no warm interpreter")
        if self._closed:
            raise HouseError(FaultKind.SANDBOX_LOST, f"sandbox {self.id} is closed")
        limits = self._limits if limits is None else limits.within(self._limits)
        kept = (_Kept(limits.output_bytes, on_stdout), _Kept(limits.output_bytes, on_stderr))
        started = time.monotonic()
        # descriptor 3 is set by a tiny first program, so that no Python runs between fork and exec in this process
        lead = [sys.executable, "-I", "-S", "-c", _LEAD, str(-1 if channel is None else channel), *argv]
        try:
            process = await asyncio.create_subprocess_exec(
                *lead, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**self._environment(), **(env or {})}, cwd=self.files.place(cwd), start_new_session=True,
                pass_fds=() if channel is None else (channel,),
            )
        except OSError as error:
            return Outcome(status=Status.NOT_STARTED, stderr=str(error).encode())
        try:
            killed_by = await self._attend(process, stdin, kept, limits.wall_seconds)
        finally:
            _kill_group(process)
        return _outcome(process, kept, killed_by, time.monotonic() - started)

    def _environment(self) -> dict[str, str]:
        home = str(self._root)
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8", "TMPDIR": home}

    async def _attend(
        self, process: asyncio.subprocess.Process, stdin: bytes, kept: tuple[_Kept, _Kept], wall_seconds: float
    ) -> KilledBy | None:
        killed_by: KilledBy | None = None
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(_feed(process.stdin, stdin))
            reading = [group.create_task(_drain(process.stdout, kept[0])),
                       group.create_task(_drain(process.stderr, kept[1]))]
            try:
                async with asyncio.timeout(wall_seconds):
                    await process.wait()
            except TimeoutError:
                killed_by = KilledBy.TIMEOUT
            _kill_group(process)
            feeding.cancel()
            await asyncio.wait(reading, timeout=_LAST_WORDS_SECONDS)
            for task in reading:
                task.cancel()
        await process.wait()
        return killed_by

    async def close(self) -> None:
        self._closed = True
        shutil.rmtree(self._root, ignore_errors=True)


_LEAD = """
import os, sys
channel = int(sys.argv[1])
if channel >= 0 and channel != 3:
    os.dup2(channel, 3)
    os.close(channel)
if channel == 3:
    os.set_inheritable(3, True)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write(f"{sys.argv[2]}: {error.strerror}")
    sys.stderr.flush()
    os._exit(127)
"""


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        stream.write(data)
        await stream.drain()
    stream.close()


async def _drain(stream: asyncio.StreamReader, kept: _Kept) -> None:
    while chunk := await stream.read(65536):
        kept.add(chunk)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _outcome(
    process: asyncio.subprocess.Process, kept: tuple[_Kept, _Kept], killed_by: KilledBy | None, wall_seconds: float
) -> Outcome:
    code = process.returncode
    assert code is not None
    status = Status.OK if code == 0 else Status.FAILED if code > 0 else Status.SIGNALLED
    if killed_by is KilledBy.TIMEOUT:
        status = Status.TIMED_OUT
    elif code == 127:
        status = Status.NOT_STARTED
    elif code == -signal.SIGXCPU:
        status, killed_by = Status.CPU_LIMIT, KilledBy.CPU
    out, err = kept
    return Outcome(
        status=status, exit_code=code if code >= 0 and status is not Status.NOT_STARTED else None,
        signal=-code if code < 0 else None, killed_by=killed_by, stdout=out.data, stderr=err.data,
        stdout_bytes=out.total, stderr_bytes=err.total, stdout_truncated=out.total > len(out.data),
        stderr_truncated=err.total > len(err.data), wall_seconds=wall_seconds,
    )


class ProcessBackend:
    """Makes sandboxes that are none: plain subprocesses. For trusted code and for tests of the house itself."""

    name = "process"

    def probe(self) -> Capabilities:
        return Capabilities(
            name=self.name, available=True, isolation=Isolation.PROCESS, networks=(Network.FULL,), channel=True,
            covers=("wall time", "bounded output", "the process group dies with its command"),
            does_not_cover=("isolation of any kind", "memory", "processes", "cpu", "disk", "network"),
            missing={"isolation": "use the native backend for programs that are not your own"},
        )

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.FULL,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """As the protocol says. Only `Network.FULL` is honest here: another one raises SANDBOX_CREATE_FAILED."""
        return self._open(image, limits, count, network)

    @asynccontextmanager
    async def _open(self, image: str, limits: Limits, count: int, network: Network) -> AsyncIterator[Sequence[Sandbox]]:
        if image != "host" or network is not Network.FULL:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"expected image 'host' and network 'full', found {image!r} and {network.value!r}",
            )
        boxes = [ProcessSandbox(Path(tempfile.mkdtemp(prefix="quintain-")), limits) for _ in range(count)]
        try:
            yield boxes
        finally:
            for box in boxes:
                await box.close()

    async def aclose(self) -> None:
        return None
