"""The root file system of a layered image, as words for the engine: what lies over what, and what is put on top."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from quintain.sandbox import _layout
from quintain.sandbox._warm import Warm
from quintain.sandbox.image import Image, ImageError
from quintain.sandbox.image.host import host_parts
from quintain.sandbox.image.stack import Stack, is_opaque, is_whiteout, split
from quintain.types import FaultKind, HouseError

DOCKER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Made where the image has none. The program is user 0 in a writable root, a nameless stranger in a read-only one.
MINIMAL = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/machine-id": "0" * 32 + "\n",
}
#: Always ours, as container engines do it.
OURS = {"etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n", "etc/hostname": "sandbox\n", "etc/resolv.conf": ""}
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


def operations(image: Image, warm: Warm | None = None) -> list[str]:
    """The words of an image, as triples. Raises HouseError when a layer has gone."""
    if image.host and not image.layers and not image.writable:
        return _layout.host_image(warm)
    for layer in image.layers:
        if not Path(layer).is_dir():
            found = f"expected a layer of {image.name} at {layer}, found none"
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, found)
        work = Path(layer, "work")
        if not image.writable and work.is_dir() and not work.is_symlink() and any(work.iterdir()):
            raise ImageError(
                f"expected nothing in /work of a read-only image, found files that an empty /work would hide: "
                f"use {image.name}+rw, or keep them elsewhere"
            )
    root = _Overlays()
    root.over(".", [*reversed(image.layers)], above=("top",), writable=image.writable)
    for name in host_parts() if image.host else ():
        root.over(name, _shown(image.layers, name, f"/{name}"), writable=image.writable)
    ops = root.words
    stack = Stack(image.layers)
    minimal = MINIMAL if image.writable else {**MINIMAL, "etc/passwd": _layout.PASSWD.format(uid=1000)}
    for name, content in minimal.items():
        if stack.find(split(name)) is None:
            ops += ["file", name, content]
    for name, content in OURS.items():
        ops += ["file", name, content]
    for device in _layout.DEVICES:
        ops += ["dev", device, "-"]
    for name, target in LINKS.items():
        ops += ["link", target, f"dev/{name}"]
    for site, inside in warm.places() if warm and image.host else ():
        ops += ["ro", str(site), inside]
    return [*ops, "rw", "-", "-"] if image.writable else ops


def environment(image: Image) -> dict[str, str]:
    """What a program finds besides what its caller gives: ours, then the image's."""
    given = _layout.default_environment()
    if not image.host:
        given["PATH"] = DOCKER_PATH
    if image.writable:
        given.update(HOME="/root", USER="root", LOGNAME="root")
    return {**given, **image.env}


def _shown(layers: tuple[str, ...], name: str, host: str) -> list[str]:
    """The directories that make up `name`, highest first, down to the host's own or to whatever hides it."""
    found: list[str] = []
    for layer in reversed(layers):
        path, hidden = Path(layer), False
        for part in split(name):
            path = path / part
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                break
            if is_whiteout(status) or not stat.S_ISDIR(status.st_mode):
                return found
            hidden = hidden or is_opaque(path)
        else:
            found.append(str(path))
        if hidden:
            return found
    return [*found, host]


class _Overlays:
    """Numbers the directories that overlays are made of."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._count = 0

    def over(self, place: str, lowers: list[str], *, above: tuple[str, ...] = (), writable: bool) -> None:
        if not above and not writable and len(lowers) == 1:  # overlayfs wants two, or one and an upper
            self.words += ["ro", lowers[0], place]
            return
        if not lowers and not above:
            return
        names = []
        for path in lowers:
            self.words += ["layer", path, "-"]
            names.append(f"l{self._count}")
            self._count += 1
        self.words += ["over", place, ":".join([*above, *names])]
