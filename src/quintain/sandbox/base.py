"""What any sandbox can do, whoever makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from quintain.types import Isolation, Limits, Network, Outcome

DEFAULT_LIMITS = Limits()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do on this host. Quotas are 'hard' (the kernel enforces), 'soft' or 'none'. `missing` says,
    for each layer that is not there, what to do about it; a backend that is not `available` opens nothing."""

    name: str
    available: bool
    isolation: Isolation
    memory: str = "none"
    processes: str = "none"
    cpu: str = "none"
    disk: str = "none"
    networks: tuple[Network, ...] = ()
    unique_uid: bool = False
    channel: bool = False
    warm: bool = False
    covers: tuple[str, ...] = ()
    does_not_cover: tuple[str, ...] = ()
    missing: dict[str, str] = {}


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute inside the sandbox; `kind` is 'file', 'directory', 'symlink' or 'other'."""

    path: str
    kind: str
    size_bytes: int
    mode: int


class Files(Protocol):
    """The sandbox's files, always read and written inside its walls as its own user: no link leads out.
    Relative paths start at /work. Raises FileNotFoundError, IsADirectoryError, PermissionError, OSError as the kernel
    said them."""

    async def read(self, path: str, *, max_bytes: int = 16 * 1024 * 1024) -> bytes: ...
    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None: ...
    async def write_many(self, files: Mapping[str, bytes]) -> None: ...
    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]: ...
    async def exists(self, path: str) -> bool: ...
    async def remove(self, path: str) -> None: ...
    async def make_dir(self, path: str) -> None: ...


class Sandbox(Protocol):
    """One place where an untrusted program runs. Used once: opened, used, closed."""

    @property
    def id(self) -> str: ...
    @property
    def files(self) -> Files: ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run to the end and say what happened; every process that it started is gone afterwards.

        `env` is the whole environment besides PATH, HOME, LANG and TMPDIR. `limits` is clipped by the sandbox's own.
        `warm`: argv names a Python program (`-c CODE`, `-m MODULE` or a path, without the interpreter), run in a fork
        of the backend's warm interpreter; ValueError where the backend has none (`Capabilities.warm`).
        `channel` is a file descriptor of ours that the program gets as its descriptor 3 (the caller keeps its copy).
        Raises HouseError(SANDBOX_LOST) when the sandbox is no longer there through no act of the program.
        """
        ...

    async def close(self) -> None: ...


class Backend(Protocol):
    """A maker of sandboxes. Says what it covers and what it does not; never downgrades in silence."""

    @property
    def name(self) -> str: ...

    def probe(self) -> Capabilities: ...

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """`count` fresh sandboxes, all or none. Raises HouseError(SANDBOX_CREATE_FAILED)."""
        ...

    async def aclose(self) -> None: ...
