"""Images by name: `host`, `dir:/path`, `oci:/layout[:tag]`, `build:/context`, each also `+rw`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

from quintain.sandbox.image.build import Build, Run
from quintain.sandbox.image.host import host_layer
from quintain.sandbox.image.oci import read_layout
from quintain.sandbox.image.words import HOST, Image, ImageError

KINDS = ("host", "dir:", "oci:", "build:")
WRITABLE = "+rw"


def default_cache() -> Path:
    """Where layers are kept unless told otherwise ($XDG_CACHE_HOME/quintain/images)."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "quintain" / "images"
    try:
        return Path.home() / ".cache" / "quintain" / "images"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"quintain-{os.geteuid()}" / "images"


class Images:
    """Finds images, once each: what a name meant first it means for as long as this lives.

    `run` executes a RUN step of a Dockerfile in a sandbox of the image so far.
    """

    def __init__(self, cache: Path | None, run: Run) -> None:
        self._cache = (cache or default_cache()).absolute()
        self._run = run
        self._known: dict[str, Image] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def find(self, reference: str) -> Image:
        """The image of that name, unpacked or built first if need be. Raises ImageError."""
        name = reference.removesuffix(WRITABLE)
        async with self._locks.setdefault(reference, asyncio.Lock()):
            if reference not in self._known:
                found = await self._find(name, writable=name != reference)
                self._known[reference] = msgspec.structs.replace(found, name=name, writable=name != reference)
            return self._known[reference]

    async def _find(self, name: str, *, writable: bool) -> Image:
        kind, colon, rest = name.partition(":")
        match kind + colon:
            case "host":
                return await self._host() if writable else HOST
            case "dir:":
                return _directory(rest)
            case "oci:":
                return await asyncio.to_thread(read_layout, rest, self._cache)
            case "build:":
                return await self._build(rest)
        raise ImageError(f"expected an image host, dir:PATH, oci:LAYOUT[:TAG] or build:CONTEXT, found {name!r}")

    async def _host(self) -> Image:
        layer = await asyncio.to_thread(host_layer, self._cache)
        return msgspec.structs.replace(HOST, layers=(str(layer),))

    async def _build(self, where: str) -> Image:
        dockerfile = _dockerfile(where)

        async def base(name: str) -> Image:
            if name == "host":
                return await self._host()
            return await asyncio.to_thread(read_layout, _layout_of(name, dockerfile.parent), self._cache)

        return await Build(dockerfile.parent, dockerfile, self._cache, base=base, run=self._run).image()


def _dockerfile(where: str) -> Path:
    path = Path(where)
    if not path.is_absolute() or not path.exists():
        raise ImageError(f"expected the absolute path of a build context after build:, found {where!r}")
    return path if path.is_file() else path / "Dockerfile"


def _layout_of(name: str, context: Path) -> str:
    """The OCI layout that a FROM names: absolute, or relative to the context."""
    reference = name.removeprefix("oci:")
    path = reference if reference.startswith("/") else str(context / reference)
    if not Path(path).exists() and not Path(path.rpartition(":")[0]).exists():
        raise ImageError(
            f"expected FROM scratch, host, or an OCI layout on the disk, found {name!r}: no registry is asked "
            f"(skopeo copy docker://{name} oci:DIRECTORY)"
        )
    return path


def _directory(where: str) -> Image:
    path = Path(where)
    if not path.is_absolute() or not path.is_dir():
        raise ImageError(f"expected the absolute path of a directory after dir:, found {where!r}")
    return Image(name=f"dir:{where}", layers=(str(path.resolve()),))
