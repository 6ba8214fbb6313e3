"""Sandboxes that bubblewrap builds: the secondary launcher, for hosts where it is installed and allowed.

Covers: own pid, mount, network (loopback only), ipc and uts namespaces; read-only system; private /work, /tmp and
/dev/shm bounded in bytes; no capabilities, no_new_privs, our system-call filter; whole-tree kill; nothing of the
house's environment or descriptors. As root also: a user of its own for each sandbox, memory and process limits where
there are control groups.
Does not cover: flaws of the shared kernel; the number of inodes; the CPU time of a whole sandbox (only of each
process). Rootless: one host user for all, and memory is bounded for each process only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import PurePosixPath

from quintain.sandbox import _cgroup, _layout
from quintain.sandbox._engine import PROGRAM
from quintain.sandbox._ground import Ground
from quintain.sandbox._launcher import AGENT_AT, Plan, Spare, launched, translate
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, Sandbox
from quintain.types import FaultKind, HouseError, Isolation, Limits, Network

SPARE = Spare(memory_bytes=4 * 1024 * 1024, processes=2)  # bwrap's own process, and our agent
PROBE_WITHIN_SECONDS = 10
_TRY = ("--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")


class BubblewrapBackend:
    """Makes sandboxes with `bwrap`. Use as `async with BubblewrapBackend() as backend`, or call `aclose`."""

    name = "bubblewrap"

    def __init__(self, *, program: str = "bwrap") -> None:
        self._program = program
        self._root = os.geteuid() == 0
        self._ground: Ground | None = None
        self._image: tuple[str, ...] = ()

    async def __aenter__(self) -> BubblewrapBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    def probe(self) -> Capabilities:
        """What bwrap can do here, by trying it. Never raises; what is missing comes with its remedy."""
        missing = _missing(self._program)
        kinds = {h.kind for h in _cgroup.survey().usable} if self._root else set()
        gaps = ["flaws of the shared kernel", "inodes", "CPU time of a whole sandbox (only of each process)",
                "disk bytes together (/work, /tmp and /dev/shm are bounded one by one)"]
        if not self._root:
            gaps.append("a host user of its own for each sandbox (all share yours)")
        if not kinds & {"m", "u"}:
            gaps.append("memory of a whole sandbox (only of each process)")
        return Capabilities(
            name=self.name, available=not missing, isolation=Isolation.NAMESPACE,
            memory="hard" if kinds & {"m", "u"} else "soft", processes="hard", cpu="soft", disk="hard",
            networks=(Network.NONE,), unique_uid=self._root, channel=True,
            covers=("pid, mount, net, ipc, uts namespaces", "read-only system", "bounded private work tree",
                    "no capabilities, no_new_privs, seccomp filter", "whole-tree kill", "loopback only"),
            does_not_cover=tuple(gaps), missing=missing,
        )

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    @asynccontextmanager
    async def _open(self, image: str, limits: Limits, count: int, network: Network) -> AsyncIterator[Sequence[Sandbox]]:
        if image != "host" or network is not Network.NONE:
            raise HouseError(
                FaultKind.SANDBOX_CREATE_FAILED,
                f"expected image 'host' and network 'none', found {image!r} and {network.value!r}",
            )
        if shutil.which(self._program) is None:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"{self._program}: {REMEDY_INSTALL}")
        ground = self._prepared()
        async with launched(
            ground, limits, count, name=self.name, spare=SPARE, plan=lambda place: self._plan(ground, limits, place)
        ) as boxes:
            yield boxes

    def _prepared(self) -> Ground:
        if self._ground is None:
            self._ground = Ground()
            steps = translate(_layout.host_image(), self._ground.folder)
            parents = {str(above) for _, _, target in steps for above in PurePosixPath(target).parents}
            words = [word for path in sorted(parents - {"/"}) for word in ("--perms", "0755", "--dir", path)]
            for op, source, target in steps:
                words += ["--ro-bind" if op == "ro" else "--symlink", source, target]
            self._image = tuple(words)
        return self._ground

    def _plan(self, ground: Ground, limits: Limits, place: int) -> Plan:
        """As root the agent changes users itself, with three capabilities; else one user namespace holds one user."""
        if self._root:
            agent, user = ground.users(place)
            identity = ["--cap-drop", "ALL"]
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL"):
                identity += ["--cap-add", capability]
        else:
            agent = user = 1000
            identity = ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
        words = [
            self._program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
            "--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv", *identity,
            "--proc", "/proc", "--dev", "/dev", *self._image, "--ro-bind", str(PROGRAM), AGENT_AT,
        ]
        for directory in ("/work", "/tmp", "/dev/shm"):
            words += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", directory]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/work", "--"]
        return Plan(argv=(*words, *bounded(limits, groups=bool(ground.directories)), AGENT_AT, "agent", "0", str(agent),
                          str(user)))


REMEDY_INSTALL = "expected bubblewrap to be installed: apt-get install bubblewrap"
REMEDY_NAMESPACES = "allow user namespaces (sysctl user.max_user_namespaces > 0) or run as root"


def bounded(limits: Limits, *, groups: bool) -> list[str]:
    """The words that set what no control group sets; memory for each process where there are no groups."""
    words = ["prlimit", "--core=0", "--nofile=1024:4096", f"--nproc={limits.processes + 1}", "--memlock=65536",
             "--msgqueue=0", "--sigpending=1024"]
    return [*words, *([] if groups else [f"--as={limits.memory_bytes}"]), "--"]


def _missing(program: str) -> dict[str, str]:
    """What stands in the way, each with its remedy."""
    missing = {}
    if not os.access(PROGRAM, os.X_OK):
        missing["engine"] = "reinstall with a C compiler present (apt-get install gcc libc6-dev)"
    if shutil.which(program) is None:
        return {**missing, "bwrap": REMEDY_INSTALL}
    words = [program, *([] if os.geteuid() == 0 else ["--unshare-user"]), *_TRY, "true"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=PROBE_WITHIN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {**missing, "bwrap": f"expected `{program} … true` to end within {PROBE_WITHIN_SECONDS} s"}
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        missing["namespaces"] = f"{REMEDY_NAMESPACES}; bwrap: {said}"
    return missing
