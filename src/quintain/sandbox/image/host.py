"""The host's own system as the lowest layer of an image: a copy of the part of /etc that programs need."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from quintain.sandbox import _layout
from quintain.sandbox.image.place import published


def host_layer(cache: Path) -> Path:
    """The layer's directory. /usr is not in it, it is shared as it lies. Made again when the host's /etc changes."""
    sources = [Path("/etc", name) for name in (*_layout.ETC, *_layout.ETC_COPIED) if Path("/etc", name).exists()]
    place = cache / "layers" / f"host-{_fingerprint(sources)}"
    with published(place) as draft:
        if draft is not None:
            (draft / "etc").mkdir()
            (draft / "etc").chmod(0o755)  # whatever the umask
            for source in sources:
                _copy(source.resolve(), draft / "etc" / source.name)
            for name in ("bin", "sbin", "lib", "lib64", "lib32"):
                if Path("/", name).is_symlink():
                    os.symlink(os.readlink(Path("/", name)), draft / name)
    return place


def _fingerprint(sources: list[Path]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        for path in sorted(source.resolve().rglob("*")) if source.is_dir() else [source.resolve()]:
            status = os.lstat(path)
            line = f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_mode}\0"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _copy(source: Path, target: Path) -> None:
    """What any user of the host could read; private keys and the like stay away."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_unreadable)
    elif source.stat().st_mode & 0o004:
        shutil.copy2(source, target)


def _unreadable(folder: str, names: list[str]) -> list[str]:
    found = []
    for name in names:
        status = os.lstat(os.path.join(folder, name))
        link = (status.st_mode & 0o170000) == 0o120000
        if not link and not status.st_mode & 0o004:
            found.append(name)
    return found


def host_parts() -> list[str]:
    """The host's directories that an image on top of the host shares, relative to /."""
    names = ["usr", *(n for n in ("bin", "sbin", "lib", "lib64", "lib32") if _real_directory(Path("/", n)))]
    prefix = _layout.interpreter_prefix()
    return [*names, str(prefix).lstrip("/")] if prefix else names


def _real_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
