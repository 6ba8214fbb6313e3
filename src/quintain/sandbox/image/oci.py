"""Images out of OCI layouts on the disk: a directory or a tar of it, read without any daemon.

Follows the OCI image specification 1.1 (image-layout, index, manifest, config, layer); reads Docker's media types too.
Every blob is checked against its digest, every layer also against its diff id.
"""

from __future__ import annotations

import gzip
import hashlib
import platform
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import msgspec

from quintain.sandbox.image.place import published
from quintain.sandbox.image.unpack import Draft, Readable, unpack
from quintain.sandbox.image.words import Image, ImageError

MOST_JSON = 8 * 1024 * 1024
REF_NAME = "org.opencontainers.image.ref.name"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x"}


class _Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    size: int = -1
    media_type: str = ""
    platform: _Platform | None = None
    annotations: dict[str, str] | None = None


class _Index(msgspec.Struct, frozen=True):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct, frozen=True):
    config: _Descriptor
    layers: list[_Descriptor]


class _Running(msgspec.Struct, frozen=True):
    Env: list[str] | None = None
    WorkingDir: str | None = None
    User: str | None = None
    Cmd: list[str] | None = None
    Entrypoint: list[str] | None = None
    Labels: dict[str, str] | None = None
    ExposedPorts: dict[str, dict[str, str]] | None = None


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: list[str]


class _Config(msgspec.Struct, frozen=True):
    rootfs: _RootFs
    config: _Running | None = None


def read_layout(reference: str, cache: Path) -> Image:
    """`PATH[:TAG]` → an image whose layers lie in `cache`. Blocking, and long for what is not cached yet.
    Raises ImageError naming the layout, the blob, what was expected and what was found."""
    path, tag = split_reference(reference)
    try:
        with _opened(path) as blobs:
            return _read(blobs, path, tag, cache)
    except ImageError as error:
        raise ImageError(error.message, file=str(path)) from None
    except (msgspec.DecodeError, OSError, tarfile.TarError) as error:
        raise ImageError(f"expected an OCI image layout, found {error}", file=str(path)) from None


def split_reference(reference: str) -> tuple[Path, str | None]:
    """Path and tag; a path that exists as it stands has no tag."""
    path = Path(reference)
    head, colon, tag = reference.rpartition(":")
    if colon and not path.exists() and "/" not in tag:
        path = Path(head)
        if not path.exists():
            raise ImageError(f"expected an OCI layout at {head}, found nothing there")
        return path, tag
    if not path.exists():
        raise ImageError(f"expected an OCI layout at {path}, found nothing there")
    return path, None


class _Blobs(ABC):
    """Named files of a layout, wherever they lie."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes]: ...

    def json(self, name: str) -> bytes:
        with self.open(name) as source:
            content = source.read(MOST_JSON + 1)
        if len(content) > MOST_JSON:
            raise ImageError(f"expected {name} to be at most {MOST_JSON} bytes, found more")
        return content

    def checked(self, descriptor: _Descriptor) -> bytes:
        content = self.json(_blob(descriptor.digest))
        found = "sha256:" + hashlib.sha256(content).hexdigest()
        if found != descriptor.digest:
            raise ImageError(f"expected the blob {descriptor.digest}, found {found} under its name")
        return content


class _Directory(_Blobs):
    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str) -> IO[bytes]:
        try:
            return open(self._root / name, "rb")
        except FileNotFoundError:
            raise ImageError(f"expected a file {name}, found none{_hint(self._root)}") from None


def _hint(root: Path) -> str:
    old = (root / "manifest.json").exists() and not (root / "index.json").exists()
    return " (this is a `docker save` archive of the old kind: skopeo copy docker-archive:… oci:…)" if old else ""


class _Archive(_Blobs):
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {m.name.removeprefix("./"): m for m in tar.getmembers() if m.isreg()}

    def open(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        content = self._tar.extractfile(member) if member else None
        if content is None:
            raise ImageError(f"expected a file {name} in the archive, found none")
        return content


@contextmanager
def _opened(path: Path) -> Iterator[_Blobs]:
    if path.is_dir():
        yield _Directory(path)
        return
    with tarfile.open(path) as tar:
        yield _Archive(tar)


def _blob(digest: str) -> str:
    algorithm, _, name = digest.partition(":")
    if algorithm != "sha256" or len(name) != 64 or not all(c in "0123456789abcdef" for c in name):
        raise ImageError(f"expected a digest sha256:<64 hex digits>, found {digest!r}")
    return f"blobs/sha256/{name}"


def _choose(index: _Index, tag: str | None) -> _Descriptor:
    """The manifest that is meant: by tag, by platform, or because it is the only one."""
    found = index.manifests
    if tag is not None:
        found = [m for m in found if (m.annotations or {}).get(REF_NAME, "").rpartition(":")[2] == tag]
    machine = ARCHITECTURES.get(platform.machine(), platform.machine())
    fitting = [m for m in found if m.platform is None or (m.platform.os, m.platform.architecture) == ("linux", machine)]
    if len(fitting) > 1 and tag is None:
        fitting = [m for m in fitting if (m.annotations or {}).get(REF_NAME, "").rpartition(":")[2] == "latest"]
    if len(fitting) != 1:
        known = [(m.annotations or {}).get(REF_NAME) or m.digest[:19] for m in index.manifests]
        asked = f"tagged {tag!r}" if tag else "or one tagged 'latest'"
        raise ImageError(f"expected one manifest for linux/{machine} {asked}, found {', '.join(known) or 'none'}")
    return fitting[0]


def _read(blobs: _Blobs, path: Path, tag: str | None, cache: Path) -> Image:
    chosen = _choose(msgspec.json.decode(blobs.json("index.json"), type=_Index), tag)
    content = blobs.checked(chosen)
    for _ in range(3):  # an index may lead to an index
        if b'"manifests"' not in content or b'"layers"' in content:
            break
        chosen = _choose(msgspec.json.decode(content, type=_Index), None)
        content = blobs.checked(chosen)
    manifest = msgspec.json.decode(content, type=_Manifest)
    config = msgspec.json.decode(blobs.checked(manifest.config), type=_Config)
    if len(config.rootfs.diff_ids) != len(manifest.layers):
        raise ImageError(f"expected {len(manifest.layers)} diff ids, found {len(config.rootfs.diff_ids)}")
    layers: tuple[str, ...] = ()
    chain = ""
    for descriptor, diff_id in zip(manifest.layers, config.rootfs.diff_ids, strict=True):
        chain = hashlib.sha256(f"{chain} {diff_id}".encode()).hexdigest()
        layers = (*layers, _layer(blobs, descriptor, diff_id, cache / "layers" / f"oci-{chain[:32]}", layers))
    run = config.config or _Running()
    return Image(
        name=f"oci:{path}{':' + tag if tag else ''}", digest=chosen.digest, layers=layers,
        env=dict(pair.split("=", 1) for pair in run.Env or () if "=" in pair), workdir=run.WorkingDir or "",
        user=run.User or "", command=tuple(run.Cmd or ()), entrypoint=tuple(run.Entrypoint or ()),
        labels=run.Labels or {}, ports=tuple(run.ExposedPorts or ()),
    )


def _layer(blobs: _Blobs, descriptor: _Descriptor, diff_id: str, place: Path, below: tuple[str, ...]) -> str:
    """The directory of one layer, unpacked unless it lies there already."""
    with published(place) as draft:
        if draft is not None:
            with blobs.open(_blob(descriptor.digest)) as source, _plain(source) as (content, compressed):
                layer = Draft(draft, below)
                unpack(content, layer)
                content.drain()
                layer.finish()
                _compare("blob", descriptor.digest, compressed.digest)
                _compare("layer", diff_id, content.digest)
    return str(place)


def _compare(what: str, wanted: str, found: str) -> None:
    if wanted != found:
        raise ImageError(f"expected the {what} {wanted}, found {found}")


class _Hashing:
    """Counts a digest of all that is read through it."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._source.read(size)
        self._hash.update(content)
        return content

    def drain(self) -> None:
        while self.read(1024 * 1024):
            pass

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


@contextmanager
def _plain(source: IO[bytes]) -> Iterator[tuple[_Hashing, _Hashing]]:
    """The uncompressed stream and the compressed one below it; by the first bytes, whatever the media type says."""
    magic = source.read(4)
    source.seek(0)
    compressed = _Hashing(source)
    try:
        if magic[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=cast(IO[bytes], compressed)) as plain:
                yield _Hashing(plain), compressed
        elif magic == b"\x28\xb5\x2f\xfd":
            with _zstandard(compressed) as plain:
                yield _Hashing(plain), compressed
        else:
            yield compressed, compressed
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ImageError(f"expected a whole gzip stream, found {error}") from None


@contextmanager
def _zstandard(compressed: _Hashing) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if program is None:
        raise ImageError("expected the program zstd for a layer compressed with it: apt-get install zstd")
    with tempfile.TemporaryFile() as packed:
        while piece := compressed.read(1024 * 1024):
            packed.write(piece)
        packed.seek(0)
        process = subprocess.Popen([program, "-dcq", "--memory=256MB"], stdin=packed, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.stdout.close()
            if process.wait() not in (0, -13):
                raise ImageError("expected a whole zstd stream, found a damaged one")
