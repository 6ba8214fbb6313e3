"""An answer as it was left: the files that cross from the place where it was made to the place where it is judged.

Covers: only regular files cross, never a link, device, pipe or socket; only what is named, and never the tests, the
reward, the oracle, or the programs and libraries of the system; counts and sizes are bounded. Pure: a snapshot goes in.
Does not cover: what the files do when a test runs them.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from quintain.grade.shadow import Wording, withheld
from quintain.sandbox import Snapshot
from quintain.tasks import ScriptSuite

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024

#: What never crosses, whoever asks: the judge's own places, and what the system's programs consist of.
KEPT_BACK = (
    "tests", "logs/verifier", "solution", "usr", "bin", "sbin", "lib", "lib32", "lib64", "etc/ld.so.preload",
    "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/ld.so.cache", "etc/alternatives", "etc/ssl/openssl.cnf",
    "etc/profile", "etc/profile.d", "etc/bash.bashrc", "etc/environment", "proc",
    "sys", "dev", "opt/quintain", "root/.bashrc", "root/.profile", "root/.bash_profile", sys.base_prefix.strip("/"),
)


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files` maps paths relative to '/' to their content; `removed` are paths of the image that are gone; `left_out`
    says what does not cross, and why; `missing` are named artifacts of which nothing is there."""

    files: dict[str, bytes]
    executable: frozenset[str] = frozenset()
    removed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def as_frozen(files: Mapping[str, bytes], suite: ScriptSuite) -> Frozen:
    """A tree as a policy hands it in, its paths relative to the suite's root. A file that begins as a script or a
    program does is executable."""
    base = suite.root.strip("/")
    placed = {f"{base}/{path}" if base else path: content for path, content in files.items()}
    executable = frozenset(path for path, content in placed.items() if content.startswith((b"#!", b"\x7fELF")))
    return chosen(Frozen(files=placed, executable=executable), suite)


def freeze(snapshot: Snapshot, suite: ScriptSuite, *, artifacts: Sequence[str] = ()) -> Frozen:
    """What of a sandbox's files crosses; `artifacts` are a step's own, besides the suite's. Raises ValueError for a
    snapshot that is no tar."""
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    removed: list[str] = []
    left_out = [f"{item}: no regular file" for item in snapshot.left_out]
    try:
        with tarfile.open(fileobj=io.BytesIO(snapshot.content)) as archive:
            for member in archive:
                path = _placed(member.name)
                name = PurePosixPath(path).name
                if member.isdir() or not path:
                    continue
                if name.startswith(".wh."):
                    removed.append(str(PurePosixPath(path).with_name(name[len(".wh."):])))
                elif member.isfile() or member.islnk():
                    content = archive.extractfile(member)
                    files[path] = content.read() if content else b""
                    if member.mode & 0o100:
                        executable.add(path)
                else:
                    left_out.append(f"{path}: {'a link' if member.issym() else 'no regular file'}")
    except (tarfile.TarError, KeyError) as error:
        raise ValueError(f"expected a snapshot's tar, found {error}") from None
    whole = Frozen(files=files, executable=frozenset(executable), removed=tuple(removed), left_out=tuple(left_out))
    return chosen(whole, suite, artifacts=artifacts)


def chosen(whole: Frozen, suite: ScriptSuite, *, artifacts: Sequence[str] = ()) -> Frozen:
    """What is named, without what is kept back, within the bounds."""
    names = [path.strip("/") for path in (*suite.artifacts, *artifacts)]
    left_out = list(whole.left_out)
    kept_back = (*KEPT_BACK, suite.folder.strip("/"), *(path.strip("/") for path in suite.reward_files))
    if suite.workdir.strip("/") in whole.files:
        left_out = [*left_out, f"{suite.workdir}: a file where the work folder has to be"]
        kept_back = (*kept_back, suite.workdir.strip("/"))
    files: dict[str, bytes] = {}
    room = MAX_BYTES
    said = Wording.of(suite)
    for path, content in whole.files.items():
        if not _is_below(path, names):
            continue
        if _is_below(path, kept_back) or any(place.startswith(f"{path}/") for place in kept_back):
            left_out.append(f"{path}: never crosses")
        elif why := withheld(path, content, suite, said):
            left_out.append(f"{path}: never crosses: {why}")
        elif len(files) >= MAX_FILES or len(content) > room:
            left_out.append(f"{path}: more than {MAX_FILES} files or {MAX_BYTES} bytes")
        else:
            files[path] = content
            room -= len(content)
    gone = tuple(path for path in whole.removed
                 if _is_below(path, names) and not _is_below(path, kept_back) and path != "opt")
    return Frozen(
        files=files, executable=whole.executable & files.keys(), removed=gone, left_out=tuple(left_out),
        missing=tuple(f"/{name}" for name in names if name and not any(_is_below(path, [name]) for path in files)),
    )


def _placed(name: str) -> str:
    """Where a member lies, relative to '/': a writable root is below root/, shared memory below shm/."""
    head, _, tail = name.strip("/").partition("/")
    if head == "root":
        return tail
    if head == "shm":
        return f"dev/shm/{tail}" if tail else ""
    return name.strip("/") if tail else ""


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(not folder or path == folder or path.startswith(f"{folder}/") for folder in folders)
