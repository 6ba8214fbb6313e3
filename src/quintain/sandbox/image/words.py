"""What an image is, once it lies on this machine."""

from __future__ import annotations

import hashlib

import msgspec

from quintain.types import FaultKind, TaskError


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """Layers (directories on this host, lowest first) and what is recorded beside them.

    `host`: the host's own /usr lies below the layers. `digest` names the content, and is the same on every host for an
    OCI image; `writable`: each sandbox may write anywhere, and is root there. `user`, `command`, `entrypoint`,
    `labels` and `ports` are recorded and have no effect: a sandbox has one user and runs what it is told.
    """

    name: str
    digest: str = ""
    layers: tuple[str, ...] = ()
    host: bool = False
    writable: bool = False
    env: dict[str, str] = {}
    workdir: str = ""
    user: str = ""
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    ports: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Equal for images whose sandboxes an engine can make alike."""
        return hashlib.sha256(msgspec.json.encode((self.layers, self.host, self.writable))).hexdigest()


HOST = Image(name="host", digest="host", host=True)


class ImageError(TaskError):
    """An image cannot be read or built, which is its task's fault: what was expected, what was found, where."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message, file=file, line=line, kind=FaultKind.TASK_ENVIRONMENT)
