"""What leaves the agent's sandbox for the verifier: named, ordinary files, frozen, capped in number and size.

Covers: links are never followed (neither read nor kept), nor are FIFOs, sockets and devices opened; nothing outside the
asked folder and the allow-list crosses; the processes inside stand still while it is read, and are gone afterwards.
Does not cover: what an ordinary file says (see `sanitise`); hard links inside, which are ordinary files there.
"""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Sequence

import msgspec

from quintain.sandbox import Sandbox
from quintain.types import MEBIBYTE, Evidence

MAX_FILES = 4_000
MAX_DEPTH = 32


class Artefacts(msgspec.Struct, frozen=True, kw_only=True):
    """The files that crossed, by path below the folder, and what did not (path → why)."""

    files: dict[str, bytes]
    left_out: dict[str, str] = {}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        shown = ", ".join(f"{p} ({why})" for p, why in list(self.left_out.items())[:10])
        more = f" and {len(self.left_out) - 10} more" if len(self.left_out) > 10 else ""
        return (Evidence(source="files", text=f"not exported: {shown}{more}"),) if self.left_out else ()


async def export(
    sandbox: Sandbox, *, folder: str = "/work", allow: Sequence[str] = ("*",), max_bytes: int = 64 * MEBIBYTE,
    max_file_bytes: int = 16 * MEBIBYTE, max_files: int = MAX_FILES,
) -> Artefacts:
    """Freeze the sandbox, read what is allowed below a folder (`allow`: shell patterns of paths, `*` crosses `/`), and
    close it. Raises HouseError when the sandbox is lost; a file that vanishes or is refused is left out."""
    pause = getattr(sandbox, "pause", None)
    if pause is not None and inspect.iscoroutinefunction(pause):
        await pause()
    try:
        return await _read(sandbox, folder, allow, max_bytes, max_file_bytes, max_files)
    finally:
        await sandbox.close()


async def _read(
    sandbox: Sandbox, folder: str, allow: Sequence[str], max_bytes: int, max_file_bytes: int, max_files: int
) -> Artefacts:
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    room = max_bytes
    try:
        entries = await sandbox.files.list(folder, depth=MAX_DEPTH)
    except OSError as error:  # too many, too deep, or the folder itself is gone: the answer's doing
        return Artefacts(files={}, left_out={folder: str(error.strerror or error)})
    for entry in entries:
        path = entry.path.removeprefix(folder.rstrip("/") + "/")
        if entry.kind == "directory":
            continue
        why = _refused(path, entry.kind, entry.size_bytes, allow, min(room, max_file_bytes))
        if why is None and len(files) >= max_files:
            why = f"more than {max_files} files"
        if why is None:
            try:
                content = await sandbox.files.read(entry.path, max_bytes=min(room, max_file_bytes))
            except OSError as error:
                why = str(error.strerror or error)
            else:
                files[path] = content
                room -= len(content)
        if why is not None:
            left_out[path] = why
    return Artefacts(files=files, left_out=left_out)


def _refused(path: str, kind: str, size_bytes: int, allow: Sequence[str], room: int) -> str | None:
    if kind != "file":
        return f"{kind}, not a file"
    if not any(fnmatch.fnmatchcase(path, pattern) for pattern in allow):
        return "not on the list"
    return f"{size_bytes} bytes, more than may cross" if size_bytes > room else None
