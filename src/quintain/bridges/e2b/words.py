"""What E2B's requests say, as far as we read them. Names are the wire's own."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TypeVar

import msgspec

from quintain.bridges.e2b.connect import ConnectError
from quintain.sandbox import FileInfo

_T = TypeVar("_T", bound=msgspec.Struct)
#: E2B tells a timeout by this number, a killed process by 137.
_KINDS = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY", "symlink": "FILE_TYPE_SYMLINK"}


class NewSandbox(msgspec.Struct, frozen=True, rename="camel"):
    """`timeout` in seconds. `allow_internet_access` is spelled so on the wire too."""

    template_i_d: str = msgspec.field(default="base", name="templateID")
    timeout: float | None = None
    metadata: dict[str, str] = {}
    env_vars: dict[str, str] = {}
    allow_internet_access: bool | None = msgspec.field(default=None, name="allow_internet_access")
    auto_pause: bool | None = None
    network: dict[str, object] | None = None
    mcp: dict[str, object] | None = None
    volume_mounts: list[object] | None = None


class Timeout(msgspec.Struct, frozen=True):
    timeout: float | None = None


class Config(msgspec.Struct, frozen=True):
    cmd: str
    args: list[str] = []
    envs: dict[str, str] = {}
    cwd: str | None = None


class Size(msgspec.Struct, frozen=True):
    cols: int = 80
    rows: int = 24


class Pty(msgspec.Struct, frozen=True):
    size: Size = Size()


class Start(msgspec.Struct, frozen=True):
    """`stdin` absent means yes: so said the first SDKs."""

    process: Config
    pty: Pty | None = None
    tag: str | None = None
    stdin: bool = True


class Selector(msgspec.Struct, frozen=True):
    pid: int | None = None
    tag: str | None = None


class Selected(msgspec.Struct, frozen=True):
    process: Selector


class Input(msgspec.Struct, frozen=True):
    stdin: str | None = None
    pty: str | None = None

    def data(self) -> bytes:
        """Raises ConnectError for what is no base64."""
        try:
            return base64.b64decode(self.stdin or self.pty or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConnectError("invalid_argument", f"expected base64: {error}") from None


class SendInput(msgspec.Struct, frozen=True):
    process: Selector
    input: Input


class StreamStart(msgspec.Struct, frozen=True):
    process: Selector


class StreamData(msgspec.Struct, frozen=True):
    input: Input


class StreamInput(msgspec.Struct, frozen=True):
    start: StreamStart | None = None
    data: StreamData | None = None


class SendSignal(msgspec.Struct, frozen=True):
    process: Selector
    signal: str | int = 0

    def number(self) -> int:
        """Raises ConnectError for a signal that E2B does not know."""
        found = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9, 15: 15, 9: 9}.get(self.signal)
        if found is None:
            raise ConnectError("invalid_argument", f"expected SIGTERM or SIGKILL, found {self.signal!r}")
        return found


class Update(msgspec.Struct, frozen=True):
    process: Selector
    pty: Pty


class Path(msgspec.Struct, frozen=True):
    path: str = ""


class ListDir(msgspec.Struct, frozen=True):
    path: str = ""
    depth: int = 1


class Move(msgspec.Struct, frozen=True):
    source: str
    destination: str


def read(body: bytes, kind: type[_T]) -> _T:
    """Raises ConnectError for what is not of this kind."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.MsgspecError as error:
        raise ConnectError("invalid_argument", str(error)) from None


def entry(info: FileInfo) -> dict[str, object]:
    """A file as E2B tells of it. All belongs to the sandbox's one user."""
    rights = "".join(letter if info.mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    first = {"directory": "d", "symlink": "l"}.get(info.kind, "-")
    return {
        "name": PurePosixPath(info.path).name, "type": _KINDS.get(info.kind, "FILE_TYPE_UNSPECIFIED"),
        "path": info.path, "size": str(info.size_bytes), "mode": info.mode & 0o7777, "permissions": first + rights,
        "owner": "user", "group": "user", "modifiedTime": moment(info.modified_seconds or 0.0),
        "isSymlink": info.kind == "symlink",
    }


def moment(unix_seconds: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat().replace("+00:00", "Z")


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()
