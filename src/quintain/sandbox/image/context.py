"""What COPY and ADD take from a build context: chosen by name, told apart by content, placed in a layer."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from quintain.sandbox.image.stack import Parts
from quintain.sandbox.image.unpack import Draft, unpack
from quintain.sandbox.image.words import ImageError


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One source: where it lies (links followed), its name for the destination, a digest of all its content."""

    path: Path
    name: str
    digest: str
    archive: bool
    entries: tuple[str, ...]  # of a directory: what is in it, relative, parents first


def choose(context: Path, patterns: Sequence[str], *, archives: bool) -> list[Chosen]:
    """What the patterns of a COPY or ADD name. Raises ImageError for what is absent, outside, or no file."""
    root = context.resolve()
    ignored = _ignored(root)
    found: list[Chosen] = []
    for pattern in patterns:
        if re.match(r"(https?|ftp)://|git@|.+\.git(#|$)", pattern):
            raise ImageError(f"expected a file of the context, found {pattern!r}: nothing is fetched")
        clean = os.path.normpath(pattern.lstrip("/") or ".")
        if clean == ".." or clean.startswith("../"):
            raise ImageError(f"expected a file inside the context, found {pattern!r}")
        names = sorted(glob.glob(clean, root_dir=root, include_hidden=True)) if glob.has_magic(clean) else [clean]
        taken = [n for n in names if not ignored(n) and os.path.lexists(root / n)]
        if not taken:
            raise ImageError(f"expected {pattern!r} in the context {context}, found nothing of that name")
        found += [_chosen(root, name, ignored, archives) for name in taken]
    return found


def _chosen(root: Path, name: str, ignored: Ignored, archives: bool) -> Chosen:
    path = (root / name).resolve()
    if not path.is_relative_to(root) or not path.exists():
        raise ImageError(f"expected {name!r} to lie inside the context, found a link to {path}")
    digest = hashlib.sha256()
    entries = tuple(_walk(path, "", root, ignored)) if path.is_dir() else ()
    for entry in entries or ("",):
        _describe(path / entry, entry, digest)
    archive = archives and path.is_file() and tarfile.is_tarfile(path)
    own = path.name if name == "." else Path(name).name
    return Chosen(path=path, name=own, digest=digest.hexdigest(), archive=archive, entries=entries)


def _walk(folder: Path, prefix: str, root: Path, ignored: Ignored) -> Iterator[str]:
    for name in sorted(os.listdir(folder / prefix)):
        entry = f"{prefix}/{name}" if prefix else name
        path = folder / entry
        out = ignored(str(path.relative_to(root)))
        directory = path.is_dir() and not path.is_symlink()
        if not out:
            yield entry
        if directory and (not out or ignored.exceptions):
            yield from _walk(folder, entry, root, ignored)


def _describe(path: Path, entry: str, digest: hashlib._Hash) -> None:
    status = os.lstat(path)
    line = f"{entry}\0{stat.S_IFMT(status.st_mode)}\0{status.st_mode & 0o777}\0"
    digest.update(line.encode("utf-8", "surrogateescape"))
    if stat.S_ISLNK(status.st_mode):
        digest.update(os.fsencode(os.readlink(path)))
    elif stat.S_ISREG(status.st_mode):
        with open(path, "rb") as source:
            digest.update(hashlib.file_digest(source, "sha256").digest())
    elif not stat.S_ISDIR(status.st_mode):
        raise ImageError(f"expected files, directories and links in the context, found another kind at {path}")


def copy(draft: Draft, item: Chosen, target: Parts, *, into: bool, mode: int | None) -> None:
    """A directory's content into `target`; a file as `target`, or in it where `into` or where that is a directory."""
    if item.path.is_dir():
        draft.directory(target)
        for entry in item.entries:
            _put(draft, item.path / entry, (*draft.resolve(target), *entry.split("/")), mode)
        return
    found = draft.find(draft.resolve(target))
    whole = (*target, item.name) if into or not target or (found is not None and found.is_dir) else target
    _put(draft, item.path, draft.resolve(whole), mode)


def add(draft: Draft, item: Chosen, target: Parts, *, into: bool, mode: int | None) -> None:
    """As `copy`, but a tar archive is unpacked into `target`."""
    if not item.archive:
        copy(draft, item, target, into=into, mode=mode)
        return
    draft.directory(target)
    prefix = "/".join(target)
    with open(item.path, "rb") as source:
        unpack(source, draft, rename=lambda name: f"{prefix}/{name}", layer=False, mode="r|*")


def _put(draft: Draft, path: Path, name: Parts, mode: int | None) -> None:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        draft.symlink(name, os.readlink(path), mtime=status.st_mtime)
    elif stat.S_ISDIR(status.st_mode):
        draft.directory(name, mode=mode or status.st_mode, mtime=status.st_mtime)
    else:
        with open(path, "rb") as source:
            draft.file(name, source, size=status.st_size, mode=mode or status.st_mode, mtime=status.st_mtime)


class Ignored:
    """The patterns of a .dockerignore: the last that fits decides."""

    def __init__(self, lines: Sequence[str]) -> None:
        cleaned = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        self._rules = [(line.startswith("!"), _expression(line.lstrip("!").strip())) for line in cleaned]
        self.exceptions = any(keep for keep, _ in self._rules)

    def __call__(self, name: str) -> bool:
        parts = name.split("/")
        above = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        out = False
        for keep, expression in self._rules:
            if any(expression.fullmatch(path) for path in above):
                out = not keep
        return out


def _expression(pattern: str) -> re.Pattern[str]:
    pattern = os.path.normpath(pattern.lstrip("/"))
    pieces = []
    for piece in pattern.split("/"):
        if piece == "**":
            pieces.append("(?:[^/]+/)*")
        else:
            pieces.append(fnmatch.translate(piece)[4:-3].replace(".*", "[^/]*") + "/")
    return re.compile("".join(pieces).rstrip("/"), re.DOTALL)


def _ignored(root: Path) -> Ignored:
    path = root / ".dockerignore"
    return Ignored(path.read_text("utf-8").splitlines() if path.is_file() else [])
