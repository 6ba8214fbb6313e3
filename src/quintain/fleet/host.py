"""What an engine has on each of its nodes: worker processes, kept as a crew's are, with what they need from afar."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Self

import msgspec

from quintain.fleet.local import CANNOT, Crew, keep
from quintain.types import FaultKind, HouseError


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the host from which a crew is sent: who has it under the same kernel sees the same disk."""

    path: str
    content: bytes
    boot: str

    @classmethod
    def of(cls, path: Path) -> Self:
        return cls(path=str(path.resolve()), content=path.read_bytes(), boot=_boot())

    def is_here(self) -> bool:
        try:
            return self.boot == _boot() and Path(self.path).read_bytes() == self.content
        except OSError:
            return False


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to every node. `words` start a worker: in them `{python}` is the node's interpreter, `{folder}` a
    folder of this crew's own, where `files` lie, and `{name}` what the worker is to be called. `env` is added to the
    node's environment; secrets belong there, not into the words. `cwd` is used where it exists. With `witness` only
    nodes that are the sender's own host will do: a queue or a register in a file reaches no further."""

    crew_id: str
    words: tuple[str, ...]
    files: dict[str, bytes] = {}
    env: dict[str, str] = {}
    cwd: str = ""
    crew: Crew = Crew(workers=1)
    witness: Witness | None = None


class Host:
    """Workers on one node: `stand` starts them, and starts again those that die, until `leave` is said. They end with
    this process, however it ends (where `setpriv` is installed). `name` is the node's."""

    def __init__(self, post: Post, name: str) -> None:
        self._post = post
        self._name = name
        self._told = asyncio.Event()

    async def stand(self) -> None:
        """Returns when all are gone that were told to leave. Raises HouseError where this node cannot serve."""
        post = self._post
        if post.witness is not None and not post.witness.is_here():
            raise HouseError(FaultKind.STORE_ERROR, f"node {self._name} is another host than {post.witness.path}: "
                             "expected a queue nats://… and a register postgresql://… that it can reach")
        folder = self._furnished()
        async with asyncio.TaskGroup() as group:
            kept = [group.create_task(self._keep(folder, nth)) for nth in range(post.crew.workers)]
        if any(task.result() == CANNOT for task in kept):
            raise HouseError(FaultKind.UNKNOWN, f"node {self._name} has a worker that can never work: see its output")
        shutil.rmtree(folder, ignore_errors=True)  # every log was handed in, or is begun anew elsewhere

    def leave(self) -> None:
        """Tell the workers to end: each lets what runs go on for a while, and gives back the rest."""
        self._told.set()

    async def _keep(self, folder: Path, nth: int) -> int | None:
        names = {"{python}": sys.executable, "{folder}": str(folder), "{name}": f"{self._name}-{nth}"}
        words = [names.get(word, word) for word in self._post.words]
        cwd = self._post.cwd if os.path.isdir(self._post.cwd) else None  # noqa: ASYNC240 - once, at the start
        return await keep(words, self._post.crew, self._told, env=self._post.env, cwd=cwd)

    def _furnished(self) -> Path:
        """The same folder for each host of a crew on this node, so that one that is started again finds its logs."""
        home = Path(tempfile.gettempdir()) / f"quintain-hosts-{os.geteuid()}"
        folder = home / f"{self._post.crew_id}-{self._name}"
        home.mkdir(mode=0o700, exist_ok=True)
        if home.stat().st_uid != os.geteuid():
            raise HouseError(FaultKind.STORE_ERROR, f"expected {home} to be this user's own, found somebody else's")
        folder.mkdir(exist_ok=True)
        for name, content in self._post.files.items():
            path = folder / name
            if not path.exists():
                path.write_bytes(content)
        return folder


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
