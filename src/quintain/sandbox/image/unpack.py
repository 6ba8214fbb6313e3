"""Layers out of tar streams: an OCI layer, or what a build step has changed.

Covers: names that lead out (`..`, absolute, through links: resolved inside the image's own root, across all its
layers), device nodes and FIFOs (left out), set-user-id bits and owners (dropped: every file is the house's, later the
program's), floods of bytes and of entries (refused), whiteouts and opaque directories.
Does not cover: extended attributes and ACLs (not kept).
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, Protocol, cast

import msgspec

from quintain.sandbox.image.place import remove
from quintain.sandbox.image.stack import OPAQUE, Found, Parts, Stack, is_whiteout, split
from quintain.sandbox.image.words import ImageError

WHITEOUT, OPAQUE_MARK = ".wh.", ".wh..wh..opq"
MOST_BYTES = 32 * 1024**3
MOST_ENTRIES = 4_000_000
CHUNK = 1024 * 1024


class Readable(Protocol):
    """All that is asked of a stream."""

    def read(self, size: int = -1, /) -> bytes: ...


class Unpacked(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one layer: entries made, and entries left out by kind."""

    entries: int
    bytes: int
    left_out: dict[str, int]


class Draft:
    """One layer in the making, above others. Everything is placed through here, so that no link leads out of it.

    Nobody else may write to `place` or the layers below meanwhile: they are the house's own directories.
    """

    def __init__(self, place: Path, below: tuple[str | Path, ...] = (), host: Sequence[Parts] = ()) -> None:
        self.place = place
        self._below = Stack(below, host)
        self._all = Stack((*below, place), host)
        self._modes: dict[Path, tuple[int, float]] = {}
        self._parents: dict[Parts, Path] = {(): place}
        self._asked: dict[Parts, Path] = {}  # the same by the names before links were followed; emptied when links go
        self.entries = self.bytes = 0

    def resolve(self, parts: Parts, *, last: bool = True) -> Parts:
        return self._all.resolve(parts, last=last)

    def find(self, parts: Parts) -> Found | None:
        return self._all.find(parts)

    def directory(self, parts: Parts, *, mode: int = 0o755, mtime: float | None = None) -> Path:
        """The layer's own directory of that name (links on the way followed), made where there is none."""
        if mtime is None and parts in self._asked:
            return self._asked[parts]
        asked, parts = parts, self.resolve(parts)
        known = self._parents.get(parts)
        if known is None:
            parent = self.directory(parts[:-1])
            known = parent / parts[-1]
            below = self._all.find(parts)
            status = _status(known)
            if status is None or not stat.S_ISDIR(status.st_mode):
                hidden = status is not None and is_whiteout(status)
                if status is not None:
                    os.unlink(known)
                os.mkdir(known, 0o700)
                if hidden or (below is not None and not below.is_dir):
                    os.setxattr(known, OPAQUE, b"y")
                same = below is not None and below.is_dir
                self._modes[known] = (
                    (stat.S_IMODE(below.status.st_mode), below.status.st_mtime) if below is not None and same
                    else (0o755, 0.0)
                )
                self._count(0)
            self._parents[parts] = known
        self._asked[asked] = known
        if mtime is not None and parts:
            self._modes[known] = (mode & 0o1777, mtime)
            os.chmod(known, 0o700)
        return known

    def replace(self, name: Parts) -> Path:
        """An empty place for something that is no directory."""
        place = self.directory(name[:-1]) / name[-1]
        status = _status(place)
        if status is not None:
            if stat.S_ISDIR(status.st_mode):
                remove(place)
                self._forget(place)
            else:
                os.unlink(place)
        if status is not None or self._below.find(place.relative_to(self.place).parts) is not None:
            self._asked.clear()
        return place

    def _forget(self, place: Path) -> None:
        for parts in [p for p, known in self._parents.items() if known == place or place in known.parents]:
            del self._parents[parts]
        for known in [k for k in self._modes if k == place or place in k.parents]:
            del self._modes[known]

    def _count(self, size: int) -> None:
        self.entries += 1
        self.bytes += size
        if self.entries > MOST_ENTRIES or self.bytes > MOST_BYTES:
            raise ImageError(
                f"expected a layer of at most {MOST_ENTRIES} entries and {MOST_BYTES} bytes, found more"
            )

    def file(self, name: Parts, source: IO[bytes], *, size: int, mode: int, mtime: float) -> None:
        self._count(size)
        place = self.replace(name)
        with open(place, "xb", opener=_create) as target:
            left = size
            while left:
                piece = source.read(min(CHUNK, left))
                if not piece:
                    raise ImageError(f"expected {size} bytes of /{'/'.join(name)}, found {size - left}")
                left -= len(piece)
                if piece.count(0) == len(piece):
                    target.seek(len(piece), os.SEEK_CUR)  # stays a hole
                else:
                    target.write(piece)
            target.truncate(size)
            os.fchmod(target.fileno(), mode & 0o1777)
            os.utime(target.fileno(), (mtime, mtime))

    def symlink(self, name: Parts, target: str, *, mtime: float) -> None:
        self._count(0)
        place = self.replace(name)
        os.symlink(target, place)
        os.utime(place, (mtime, mtime), follow_symlinks=False)

    def link(self, name: Parts, target: Parts) -> None:
        """A second name; where the first lies in a lower layer, a copy."""
        found = self.find(self.resolve(target, last=False))
        if found is None or found.is_dir:
            raise ImageError(f"expected a file at /{'/'.join(target)} to link /{'/'.join(name)} to, found none")
        if found.is_link:
            self.symlink(name, os.readlink(found.path), mtime=found.status.st_mtime)
        elif found.path.is_relative_to(self.place):
            place = self.directory(name[:-1]) / name[-1]
            if found.path != place:
                os.link(found.path, self.replace(name), follow_symlinks=False)
                self._count(0)
        else:
            with open(found.path, "rb") as source:
                status = found.status
                self.file(name, source, size=status.st_size, mode=status.st_mode, mtime=status.st_mtime)

    def whiteout(self, name: Parts) -> None:
        """Hide what lower layers have there; what this layer has put there stays."""
        parent = self.resolve(name[:-1])
        if self._below.find((*parent, name[-1])) is None:
            return
        place = self.directory(parent) / name[-1]
        if _status(place) is None:
            self._count(0)
            self._asked.clear()
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))

    def opaque(self, directory: Parts) -> None:
        os.setxattr(self.directory(directory), OPAQUE, b"y")

    def finish(self) -> None:
        """Set the modes and times of directories, deepest first."""
        for place, (mode, mtime) in sorted(self._modes.items(), key=lambda item: len(item[0].parts), reverse=True):
            os.utime(place, (mtime, mtime))
            os.chmod(place, mode)


def _create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


Rename = Callable[[str], str | None]


def unpack(
    source: Readable, draft: Draft, *, rename: Rename = lambda name: name, layer: bool = True,
    mode: Literal["r|", "r|*"] = "r|",
) -> Unpacked:
    """Place everything of a tar stream, read once from front to back. `rename` maps or drops (`None`) names; `layer`:
    names that begin with .wh. hide what lies below; `mode` "r|*" also takes compressed streams.
    Raises ImageError for what is no tar or would lead out."""
    left_out: dict[str, int] = {}
    try:
        with tarfile.open(fileobj=cast(IO[bytes], source), mode=mode, errors="surrogateescape", bufsize=CHUNK) as tar:
            for member in _members(tar):
                name = rename(member.name)
                if name is not None:
                    kind = _place(tar, member, name, draft, rename, layer)
                    if kind:
                        left_out[kind] = left_out.get(kind, 0) + 1
    except (tarfile.TarError, EOFError) as error:
        raise ImageError(f"expected a tar stream, found {error}") from None
    return Unpacked(entries=draft.entries, bytes=draft.bytes, left_out=left_out)


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        yield member
        vars(tar)["members"].clear()  # or a big layer is kept in memory, entry by entry


def _safe(name: str) -> Parts:
    if ".." in name.split("/"):
        raise ImageError(f"expected a name inside the layer, found {name!r}")
    return split(name)


def _place(
    tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, draft: Draft, rename: Rename, layer: bool
) -> str:
    """Places one entry; returns the kind of what was left out instead."""
    parts = _safe(name)
    if not parts:
        return ""
    mtime = float(member.mtime)
    if layer and parts[-1] == OPAQUE_MARK:
        draft.opaque(parts[:-1])
    elif layer and parts[-1].startswith(WHITEOUT):
        if parts[-1][len(WHITEOUT) :] in ("", ".", ".."):
            raise ImageError(f"expected the whiteout of a name, found {name!r}")
        draft.whiteout((*parts[:-1], parts[-1][len(WHITEOUT) :]))
    elif member.isdir():
        _directory(draft, parts, member.mode, mtime)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None
        draft.file(parts, content, size=member.size, mode=member.mode, mtime=mtime)
    elif member.issym():
        draft.symlink(parts, member.linkname, mtime=mtime)
    elif member.islnk():
        target = rename(member.linkname)
        if target is None:
            raise ImageError(f"expected {name!r} to be linked to an entry of the layer, found {member.linkname!r}")
        draft.link(parts, _safe(target))
    else:
        return "fifo" if member.isfifo() else "device" if member.isdev() else "other"
    return ""


def _directory(draft: Draft, parts: Parts, mode: int, mtime: float) -> None:
    """A directory entry replaces whatever else bears its name, a link to a directory included, as containerd does."""
    parts = (*draft.resolve(parts[:-1]), parts[-1])
    found = draft.find(parts)
    if found is not None and not found.is_dir:
        place = draft.replace(parts)
        os.mkdir(place, 0o700)
        os.setxattr(place, OPAQUE, b"y")
    draft.directory(parts, mode=mode, mtime=mtime)
