"""The files of a sandbox as a tree that can be compared: what is there, and what differs. Pure.

A snapshot's tar holds times as well; here they do not count, so two trees are equal when names, kinds, modes, links and
content are. Nothing is ever unpacked: links and names that lead elsewhere are words here.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import tarfile
from collections.abc import Mapping

import msgspec

from quintain.sandbox import Snapshot

#: Of a changed file a diff is told when both are text and not larger.
DIFF_BYTES = 64 * 1024


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a tree. `content` is the sha256 (hex) of a file, the target of a link, "" else."""

    kind: str
    mode: int
    size_bytes: int
    content: str


def tree_of(snapshot: Snapshot) -> dict[str, Leaf]:
    """Path → entry. Raises ValueError for a snapshot that is no tar."""
    found: dict[str, Leaf] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot.content)) as archive:
            for member in archive:
                found[member.name] = _leaf(archive, member)
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise ValueError(f"expected a snapshot's tar, found {error}") from None
    return found


def _leaf(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Leaf:
    if member.isfile():
        stream = archive.extractfile(member)
        digest = hashlib.sha256(stream.read() if stream else b"").hexdigest()
        return Leaf(kind="file", mode=member.mode, size_bytes=member.size, content=digest)
    kind = ("directory" if member.isdir() else "symlink" if member.issym() else "hardlink" if member.islnk()
            else "other")
    return Leaf(kind=kind, mode=member.mode, size_bytes=0, content=member.linkname)


def tree_of_files(files: Mapping[str, bytes]) -> dict[str, Leaf]:
    """The same of the files of a program."""
    return {path: Leaf(kind="file", mode=0o644, size_bytes=len(content), content=hashlib.sha256(content).hexdigest())
            for path, content in files.items()}


def listing(tree: Mapping[str, Leaf]) -> bytes:
    """A tree as lines, one for each entry, sorted: equal trees are equal lines."""
    return "".join(
        f"{path!r} {leaf.kind} {leaf.mode:o} {leaf.size_bytes} {leaf.content!r}\n"
        for path, leaf in sorted(tree.items())
    ).encode("utf-8", "backslashreplace")


def digest_of(tree: Mapping[str, Leaf]) -> str:
    """sha256 (hex) of the listing."""
    return hashlib.sha256(listing(tree)).hexdigest()


def compared(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """What differs, a line for each path and a unified diff for texts. Raises ValueError as `tree_of`."""
    old, new = tree_of(before), tree_of(after)
    lines: list[str] = []
    for path in sorted({*old, *new}):
        one, other = old.get(path), new.get(path)
        if one == other:
            continue
        if one is None or other is None:
            lines.append(f"{'added' if one is None else 'gone'}: {path!r}")
        else:
            lines.append(f"changed: {path!r} ({one.kind} {one.mode:o}, {one.size_bytes} bytes -> "
                         f"{other.kind} {other.mode:o}, {other.size_bytes} bytes)")
            if one.kind == other.kind == "file" and max(one.size_bytes, other.size_bytes) <= DIFF_BYTES:
                lines += _texts(_content(before, path), _content(after, path), path)
    return tuple(lines)


def _content(snapshot: Snapshot, path: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(snapshot.content)) as archive:
        stream = archive.extractfile(path)
        return stream.read() if stream else b""


def _texts(before: bytes, after: bytes, path: str) -> list[str]:
    try:
        old, new = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return ["  (binary)"]
    return list(difflib.unified_diff(old, new, f"recorded/{path}", f"again/{path}", lineterm="", n=2))
