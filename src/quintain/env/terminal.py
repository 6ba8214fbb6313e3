"""Terminal tasks that were written for Docker, on a host without a registry or a network.

What a Dockerfile would fetch is taken from the host where the host has it (`for_the_host`), and by what name tests
fetch their own tools there are stand-ins (`_stand_ins`). Of an answer that is judged whole, what is no regular file
crosses too: folders, modes, links, and commands of its own below /usr/local.

Covers: no link crosses that leads to the tests, the reward or the oracle, by itself or through another; no command
that another of its name would be taken for; services that an answer left running are asked where they live (`_alive`).
Does not cover: what a task needs that the host lacks (it is refused, and told).
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import shlex
import shutil
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path, PurePosixPath
from typing import cast

import msgspec

from quintain.env import _stand_ins
from quintain.env._alive import Joined, Lasting, Living, Waiting, ports_of
from quintain.env._ops_judge import KIND, judge_ops
from quintain.grade import Frozen, Made, Wording, World, check_script, freeze, withheld
from quintain.sandbox import Backend, Forking, Interactive, Snapshot, Snapshots, published
from quintain.tasks import Item, Lacking, Needs, ScriptSuite, bases_of, context_digest, for_the_host
from quintain.types import FaultKind, HouseError, Network, TaskError, Verdict, content_digest

#: Where what is no regular file is told, for the sandbox of the judge.
RESTORE = "var/lib/quintain/restore.sh"
MAX_RESTORED = 5000
_START = f'sh /{RESTORE}; rm -rf /{PurePosixPath(RESTORE).parent}; exec "$@"'
_CLOSED = ("tests", "logs", "solution", "proc", "sys", "dev", "opt/quintain", "var/lib/quintain")
#: Commands that come with packages of another name.
_COMMANDS = {
    "build-essential": "gcc", "python3-pip": "pip3", "python3-venv": "python3", "python3-dev": "python3",
    "python-is-python3": "python3", "procps": "ps", "iproute2": "ip", "netcat-openbsd": "nc", "netcat": "nc",
    "coreutils": "ls", "findutils": "find", "psmisc": "killall", "util-linux": "mount", "redis-server": "redis-server",
    "iputils-ping": "ping", "openssh-client": "ssh", "openssh-server": "sshd", "nodejs": "node", "golang": "go",
    "dnsutils": "dig", "xz-utils": "xz", "gnupg": "gpg", "cron": "cron", "p7zip-full": "7z", "ripgrep": "rg",
}
#: What tells nothing that could be missed where nothing is fetched and nobody looks on.
_NEVER_MISSED = frozenset({"tmux", "asciinema", "ca-certificates", "apt-transport-https", "locales", "tzdata", "less",
                           "software-properties-common", "apt-utils", "lsb-release", "uv", "pip", "setuptools",
                           "wheel", "pytest-json-ctrf", "nano"})


class TerminalWorld(World):
    """As `World`; tasks whose images come from the host (`bases` says `host` for them) are built as said above."""

    def __init__(
        self, backend: Snapshots, *, cache: Path, bases: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None, network: Network = Network.NONE,
    ) -> None:
        super().__init__(backend, cache=cache, bases=bases, variables=variables, network=network)
        self._waiting = Waiting()

    def image(self, item: Item, word: str | None = None) -> str:
        word = item.task.image if word is None else word
        name, suffix = word.removesuffix("+rw"), "+rw" if word.endswith("+rw") else ""
        suite = item.exam.hidden
        if self._network is not Network.NONE or not isinstance(suite, ScriptSuite) or suite.package is None:
            return super().image(item, word)
        files = _context(suite, name, self._bases)
        text = files.get("Dockerfile", b"").decode("utf-8", "replace") if files is not None else ""
        if files is None or not all(self._is_the_host(base) for base in bases_of(text)):
            return super().image(item, word)
        try:
            built = for_the_host(text, needs=Needs(system=_has_package, python=_has_distribution),
                                 head=_stand_ins.head(), context=files)
        except Lacking as error:
            raise TaskError(str(error), file="environment/Dockerfile", line=error.line,
                            kind=FaultKind.TASK_ENVIRONMENT) from error
        return f"build:{self._laid({**files, 'Dockerfile': built.encode()})}{suffix}"

    def _is_the_host(self, base: str) -> bool:
        return (base if base == "host" else self._bases.get(base, self._bases.get("*"))) == "host"

    def _laid(self, files: Mapping[str, bytes]) -> Path:
        """A folder with a build context; written once for each content."""
        place = self._cache / "terminal" / context_digest(files)[:32]
        with published(place) as draft:
            if draft is not None:
                for path, content in files.items():
                    (draft / path).parent.mkdir(parents=True, exist_ok=True)
                    (draft / path).write_bytes(content)
        return place

    def frozen(self, snapshot: Snapshot, suite: ScriptSuite, artifacts: Sequence[str]) -> Frozen:
        if "/" not in suite.artifacts:
            return super().frozen(snapshot, suite, artifacts)
        return crossing(snapshot, suite, artifacts=artifacts)

    @staticmethod
    def lasts(item: Item) -> bool:
        """Whether what an answer leaves running is asked by the tests, as in Terminal-Bench."""
        suite = item.exam.hidden
        return (item.task.kind != KIND and isinstance(suite, ScriptSuite) and not suite.steps and not suite.image
                and "/" in suite.artifacts)

    async def make(self, item: Item, answer: Mapping[str, bytes], *, oracle: bool = False) -> Made:
        """As `World.make`; where the script leaves services that listen, their sandbox lives until `grade` is given
        the tree, or many others wait."""
        suite = item.exam.hidden
        if not self.lasts(item) or not isinstance(suite, ScriptSuite):
            return await super().make(item, answer, oracle=oracle)
        env = self.resolved({**suite.answer_env, **(suite.oracle_env if oracle else {})}, item.task)
        limits = item.task.limits.episode
        async with AsyncExitStack() as stack:
            (box,) = await stack.enter_async_context(
                self._backend.open(self.image(item), limits=limits, network=self._network))
            if not (hasattr(box, "start") and hasattr(box, "snapshot")):
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the backend {self._backend.name!r} keeps no files "
                                 "and services: use native")
            place = cast(Interactive, box)
            await place.files.make_dir(suite.workdir)
            base = suite.root.rstrip("/")
            await place.files.write_many({f"{base}/{path}": content for path, content in item.task.files.items()})
            outcome = await self._script(Lasting(place), item, answer, env, limits)
            for command in suite.collect:
                await place.run(["sh", "-c", command], cwd=suite.workdir, env=env)
            tree = await self.left(place, suite, stack)
        return Made(trees=(tree,), outcomes=(outcome,))

    async def left(self, box: Interactive, suite: ScriptSuite, stack: AsyncExitStack) -> Frozen:
        """What crosses of a sandbox. Where something listens in it, it lives on, and `stack`, which would have ended
        it, is emptied."""
        ports = await ports_of(box)
        await box.pause()
        try:
            tree = self.frozen(await cast(Forking, box).snapshot(), suite, ())
        finally:
            await box.resume()
        return await self._waiting.keep(tree, Living(box=box, ports=ports, stack=stack.pop_all())) if ports else tree

    async def grade(self, item: Item, trees: Sequence[Frozen]) -> Verdict:
        if item.task.kind == KIND:
            return await judge_ops(self._backend, item, trees[-1], restore=RESTORE)
        async with AsyncExitStack() as stack:
            backend: Backend = self._backend
            taken: list[Frozen] = []
            for given in trees:
                tree, living = self._waiting.take(given)
                taken.append(tree)
                if living is not None:
                    stack.push_async_callback(living.stack.aclose)
                    backend = Joined(self._backend, living)
            return await self._by_script(item, taken, backend)

    async def _by_script(self, item: Item, trees: Sequence[Frozen], backend: Backend) -> Verdict:
        suite = item.exam.hidden
        if not isinstance(suite, ScriptSuite):
            return await super().grade(item, trees)
        head = ("sh", "-c", _START, "start") if any(RESTORE in tree.files for tree in trees) else ()
        starting = msgspec.structs.replace(
            suite, answer_env=self.resolved(suite.answer_env, item.task), env=self.resolved(suite.env, item.task),
            argv=(*head, *suite.argv),
            steps=tuple(msgspec.structs.replace(step, argv=(*head, *step.argv)) for step in suite.steps))
        verdict = await check_script(
            backend, starting, trees, image=self.image(item, suite.image or None),
            limits=item.task.limits.command, network=self._network)
        return msgspec.structs.replace(verdict, suite=content_digest(suite))


def _context(suite: ScriptSuite, name: str, bases: Mapping[str, str]) -> dict[str, bytes] | None:
    """The build context that an image's word means, one of a single FROM where there is none; None for another's."""
    kind, _, rest = name.partition(":")
    own = suite.package.below("environment") if suite.package else {}
    if kind == "context":
        return next((dict(held) for held in (own, suite.files) if context_digest(held) == rest), None)
    if kind == "docker" and rest not in bases:
        return dict(own) if "Dockerfile" in own else {"Dockerfile": f"FROM {rest}\n".encode()}
    return {"Dockerfile": b"FROM host\n"} if name == "host" else None


@cache
def _has_package(name: str) -> bool:
    """Whether the host has a package of its system, or the command that one looks for in it."""
    name = name.partition("=")[0].partition(":")[0]
    if name in _NEVER_MISSED or shutil.which(_COMMANDS.get(name, name)):
        return True
    return Path(f"/var/lib/dpkg/info/{name}.list").exists() or any(
        Path("/var/lib/dpkg/info").glob(f"{name}:*.list"))


@cache
def _has_distribution(name: str) -> bool:
    """Whether the interpreter that sandboxes have knows a distribution."""
    site = sysconfig.get_path("purelib", vars={"base": sys.base_prefix, "platbase": sys.base_prefix})
    plain = name.lower().replace("_", "-")
    return plain in _NEVER_MISSED or any(
        (found.metadata["Name"] or "").lower().replace("_", "-") == plain
        for found in importlib.metadata.distributions(path=[site]))


def crossing(snapshot: Snapshot, suite: ScriptSuite, *, artifacts: Sequence[str] = ()) -> Frozen:
    """`freeze`, and where all of an answer crosses also what is no regular file, as a script in `RESTORE`."""
    tree = freeze(snapshot, suite, artifacts=artifacts)
    files = {path: content for path, content in tree.files.items() if not _is_closed(path)}
    gone = tuple(path for path in tree.removed if not _is_closed(path) and path != "opt")
    tree = msgspec.structs.replace(tree, files=files, executable=tree.executable & files.keys(), removed=gone)
    if "/" not in suite.artifacts:
        return tree
    lines: list[str] = []
    said = Wording.of(suite)
    with tarfile.open(fileobj=io.BytesIO(snapshot.content)) as archive:
        for member in archive:
            head, _, path = member.name.strip("/").partition("/")
            if head != "root" or not path or _is_closed(path) or PurePosixPath(path).name.startswith(".wh."):
                continue
            place, mode = shlex.quote(f"/{path}"), f"{member.mode & 0o777:o}"
            if member.isdir() and not path.startswith(("usr", "etc", "lib", "bin", "sbin")):
                lines.append(f"mkdir -p {place} && chmod {mode} {place}")
            elif member.issym() and _is_open(path, member.linkname):
                lines.append(f"[ -e {place} ] || ln -sfn {shlex.quote(member.linkname)} {place}")
            elif member.isfile() and path in files and member.mode & 0o777 not in (0o644, 0o755):
                lines.append(f"chmod {mode} {place}")
            elif member.isfile() and _is_new_command(path) and (stream := archive.extractfile(member)) is not None:
                content = stream.read()
                if not withheld(path, content, suite, said):
                    files[path] = content
                    lines.append(f"chmod {mode} {place}")
    if any(path.startswith("usr/local/lib/") and ".so" in path for path in files):  # its own cache stays behind
        lines = [*lines[:MAX_RESTORED - 1], "/sbin/ldconfig /usr/local/lib 2>/dev/null"]
    if lines:
        files[RESTORE] = ("\n".join(lines[:MAX_RESTORED]) + "\n").encode()
    return msgspec.structs.replace(tree, files=files)


def _is_closed(path: str) -> bool:
    return any(path == closed or path.startswith(f"{closed}/") for closed in _CLOSED)


def _is_open(path: str, target: str) -> bool:
    """Whether a link may cross: it lies beside the system's own, its target is plain (no way up behind a way down), and
    is neither closed nor above what is."""
    parts = PurePosixPath(target).parts
    ups = [n for n, part in enumerate(parts) if part == ".."]
    if ups and (target.startswith("/") or ups != list(range(len(ups)))):
        return False
    meant = os.path.normpath(target if target.startswith("/") else f"/{PurePosixPath(path).parent}/{target}").strip("/")
    own = path.startswith(("usr/", "etc/", "bin", "sbin", "lib"))
    return bool(meant) and meant != "." and not own and not _is_closed(meant) and meant not in ("opt", "var", "root")


def _is_new_command(path: str) -> bool:
    """A program below /usr/local that the host has none of, by that name, anywhere."""
    name = PurePosixPath(path).name
    return (path.startswith("usr/local/") and not os.path.lexists(f"/{path}") and shutil.which(name) is None
            and name not in _stand_ins.programs() and not name.startswith(("python", "pytest")))
