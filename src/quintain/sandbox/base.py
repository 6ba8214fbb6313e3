"""What any sandbox can do, whoever makes it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from quintain.types import Isolation, Limits, Network, Outcome

DEFAULT_LIMITS = Limits()


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do on this host. Quotas are 'hard' (the kernel enforces), 'soft' or 'none'. `missing` says,
    for each layer that is not there, what to do about it; a backend that is not `available` opens nothing.
    `images` are the kinds of image that it opens; a word with `+` is a suffix to any of them."""

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
    snapshot: bool = False
    images: tuple[str, ...] = ("host",)
    covers: tuple[str, ...] = ()
    does_not_cover: tuple[str, ...] = ()
    missing: dict[str, str] = {}


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is absolute inside the sandbox; `kind` is 'file', 'directory', 'symlink' or 'other'.
    `modified_seconds` is the wall clock's, `None` where a backend does not tell."""

    path: str
    kind: str
    size_bytes: int
    mode: int
    modified_seconds: float | None = None


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A process as seen inside. `state` is the letter of proc(5), `resident_bytes` what of it is in memory."""

    pid: int
    parent: int
    state: str
    argv: tuple[str, ...]
    resident_bytes: int


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


class Process(Protocol):
    """A command that runs while its caller does something else. Steering one that has ended does nothing."""

    @property
    def pid(self) -> int: ...

    @property
    def ended(self) -> bool: ...
    @property
    def gone(self) -> bool:
        """Whether nothing that it left behind lives any more, either."""
        ...

    async def wait(self) -> Outcome:
        """How it ended; may be asked by several, and again. Cancelling a wait does not end the command."""
        ...

    async def kill(self) -> None:
        """Its whole tree, sessions and orphans included; also what a lingering command has left behind."""
        ...

    async def signal(self, number: int) -> None:
        """To the program and its process group."""
        ...

    async def send(self, data: bytes) -> None:
        """To its stdin; waits while 256 KiB are under way and not read."""
        ...

    async def end_input(self) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...

    def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Pieces of ('stdout' | 'stderr', bytes) as they come, to one reader; from now on the program waits while its
        reader is 256 KiB behind. What came before is given first, as far as it was kept."""
        ...


class InteractiveFiles(Files, Protocol):
    async def info(self, path: str) -> FileInfo: ...
    async def rename(self, path: str, to: str) -> None: ...
    async def read_piece(self, path: str, *, offset: int, size: int) -> bytes: ...


class Interactive(Sandbox, Protocol):
    """A sandbox in which several commands can live at a time, watched and steered."""

    @property
    def files(self) -> InteractiveFiles: ...

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, stdin: bytes | None = b"", channel: int | None = None,
        terminal: tuple[int, int] | None = None, linger: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Process:
        """Begin a command; each has its own tree, killed whole when it ends, or when `Process.kill` says so.

        `stdin=None` keeps a pipe open for `Process.send`. `terminal` = (rows, columns) gives it a pty, whose output is
        all stdout. With `linger` what it leaves behind lives on, its output dropped, until killed.
        Raises HouseError(SANDBOX_LOST). A program that cannot be executed is an Outcome (NOT_STARTED).
        """
        ...

    async def processes(self) -> Sequence[ProcessInfo]: ...
    async def pause(self) -> None: ...
    async def resume(self) -> None: ...
    def let_go(self) -> None:
        """End everything inside at once, without waiting; `close` still follows."""
        ...


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


class Networked(Backend, Protocol):
    """A backend that can let a sandbox out to listed hosts (`Capabilities.networks` has ALLOW_LIST)."""

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        allow: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """As `Backend.open`. `allow` lists what ALLOW_LIST lets through: 'host', '*.suffix', an address or a range,
        each with ':port' or without. Addresses that are not public must be listed as addresses, under FULL too.

        Raises ValueError for an entry that is none of these, or a list beside NONE.
        """
        ...


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="quintain-snapshot-1"):
    """The files of a sandbox as bytes, the same for the same trees (names, modes, links, content).

    `content` is a GNU tar: work/, tmp/, shm/, or root/ (all that differs from the image, with the whiteouts of
    an OCI layer) and shm/ where the whole root is writable. `left_out` names what is not kept, as 'KIND PATH': FIFOs,
    sockets, devices, what could not be read. Processes and memory are not in it.
    """

    image: str
    image_digest: str
    content: bytes
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """sha256 (hex) of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def encode(self) -> bytes:
        """For the blob store, or another host."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot:
        """Raises ValueError for what `encode` has not made."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"expected an encoded snapshot, found {error}") from None


class Forking(Sandbox, Protocol):
    """A sandbox whose files can be kept and multiplied (`Capabilities.snapshot`)."""

    async def snapshot(self) -> Snapshot:
        """What its files are now. A tree that programs change meanwhile may be caught between two states.
        Raises HouseError(SANDBOX_LOST) when it cannot be read to the end within 120 s."""
        ...

    def fork(self, count: int = 1, *, limits: Limits | None = None) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """`count` new sandboxes of the same image and network with the same files, under `limits` or its own.
        Raises HouseError."""
        ...


class Snapshots(Backend, Protocol):
    """A backend whose sandboxes are `Forking`."""

    def restore(
        self, snapshot: Snapshot, *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
        allow: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        """`count` new sandboxes with the files of a snapshot, taken here or elsewhere. Raises
        HouseError(SANDBOX_CREATE_FAILED): it does not fit into `limits`, or its image is not the same here."""
        ...
