"""What a run's programs stood on: image, interpreter, packages, backend, network, and our own code.

It is noted once for each image that a run uses, beside its journal, and compared when a step is run again: so a package
that was upgraded since is told apart from a program that never gives the same answer twice.
Covers: the digest of the image where the backend has one, distribution, kernel, python3, installed Python and Debian
packages by version, and the digest of /etc. Does not cover: files of the image that belong to no package, where the
backend cannot make a digest of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec

from quintain import __version__
from quintain.env import Around, Environment, Shown, Work
from quintain.grade import verifier_build
from quintain.sandbox import Backend, Forking
from quintain.store import Ledger
from quintain.tasks import Item
from quintain.types import (
    MEBIBYTE,
    HouseError,
    Limits,
    Network,
    Program,
    Reward,
    Verdict,
)

NAME = "surroundings.jsonl"
_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=20.0, output_bytes=4 * MEBIBYTE)
#: Of packages the folders' names are read, for their metadata takes ten times as long.
_PROBE = r"""
echo "== distribution"; sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null
echo "== kernel"; uname -sr
python3 -c '
import os, sys
print("== python\n" + sys.version + "\n== python_packages")
found = {name for path in sys.path if os.path.isdir(path) for name in os.listdir(path)}
for name in sorted(found):
    if name.endswith((".dist-info", ".egg-info")): print(name.rpartition(".")[0].replace("-", " ", 1))' 2>/dev/null
echo "== system_packages"; dpkg-query -W -f '${Package} ${Version}\n' 2>/dev/null
echo "== etc"; find /etc -xdev -type f ! -name hosts ! -name hostname ! -name resolv.conf ! -name mtab \
  ! -name machine-id -size -256k -exec cksum {} + 2>/dev/null | sort -k3
echo "== environment"; env | sort | grep -v -e '^_=' -e '^PWD=' -e '^SHLVL='
"""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`facts` are single things (python, kernel, image_digest …), `packages` versions by name; "" is not known."""

    image: str
    backend: str
    network: Network = Network.NONE
    code_version: str = __version__
    verifier_build: str = ""
    facts: dict[str, str] = {}
    packages: dict[str, str] = {}


async def survey(backend: Backend, image: str, *, network: Network = Network.NONE) -> Surroundings:
    """Look at an image from inside. Raises HouseError as the backend does."""
    digest = ""
    async with backend.open(image, limits=_LIMITS) as [box]:
        said = await box.run(["sh", "-c", _PROBE])
        if hasattr(box, "snapshot"):
            digest = (await cast(Forking, box).snapshot()).image_digest
    parts = _parts(said.text)
    packages = {}
    for kind in ("python_packages", "system_packages"):
        for line in parts.pop(kind, "").splitlines():
            name, _, version = line.partition(" ")
            packages[f"{kind.partition('_')[0]}:{name}"] = version
    etc, env = parts.pop("etc", ""), parts.pop("environment", "")
    facts = {**parts, "image_digest": digest, "etc": _digest(etc), "environment": _digest(env)}
    return Surroundings(image=image, backend=backend.name, network=network, verifier_build=verifier_build(),
                        facts=facts, packages=packages)


def _parts(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("== "):
            name = line[3:]
            found[name] = []
        elif name:
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def environment_changes(then: Surroundings, now: Surroundings) -> tuple[str, ...]:
    """What of the image is not what it was, in words; a fact that one of them does not know is no change."""
    changes = [
        f"{name} was {then.facts[name]!r}, is {now.facts[name]!r}" for name in sorted({*then.facts} & {*now.facts})
        if then.facts[name] and now.facts[name] and then.facts[name] != now.facts[name]
    ]
    if then.image != now.image:
        changes.append(f"the image was {then.image!r}, is {now.image!r}")
    if then.packages and now.packages:
        for name in sorted({*then.packages, *now.packages}):
            before, after = then.packages.get(name, "absent"), now.packages.get(name, "absent")
            if before != after:
                changes.append(f"package {name} was {before}, is {after}")
    return tuple(changes)


def noted(folder: Path) -> dict[str, Surroundings]:
    """What a run noted, by image: the latest. Raises HouseError for a damaged file; none where there is none."""
    return {one.image: one for one in Ledger(folder / NAME, Surroundings).read()}


class Noting(Around):
    """Keeps `Environment`: an environment that notes, before an image is first used, what programs stand on in it.

    `look` is `survey` of a backend and an image; `image_of` says which image a task means. A survey that fails is no
    reason not to play: the episode itself will say what is wrong. Use one for one run folder.
    """

    def __init__(
        self, inner: Environment, folder: Path, look: Callable[[str], Awaitable[Surroundings]],
        image_of: Callable[[Item], str],
    ) -> None:
        super().__init__(inner)
        self._ledger = Ledger(folder / NAME, Surroundings)
        self._look = look
        self._image_of = image_of
        self._known: dict[str, asyncio.Lock] = {}
        self._done: set[str] = set()

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        await self._note(item)
        return await super().run(item, program, episode=episode, limits=limits)

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        await self._note(item)
        return await super().grade(item, work, episode=episode, seed=seed)

    async def _note(self, item: Item) -> None:
        image = self._image_of(item)
        async with self._known.setdefault(image, asyncio.Lock()):
            if image in self._done:
                return
            self._done.add(image)
            try:
                found = await self._look(image)
            except HouseError:
                return
            await asyncio.to_thread(self._ledger.change, lambda known: () if found in known else (found,))
