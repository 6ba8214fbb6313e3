"""Sandboxes behind gVisor's own kernel, for programs that should not meet the host's: `runsc` without a daemon.

Covers: what the native backend covers of namespaces, and the host kernel's system calls themselves: programs speak to
gVisor's kernel, written in Go, which asks the host for little. Private /work, /tmp and /dev/shm bounded in bytes; no
network but loopback; no capabilities; whole-tree kill; memory of each process. Control groups bound the whole as well.
Does not cover: memory and processes of a whole sandbox gently (what reaches those bounds ends the sandbox), inodes, CPU
time of a whole sandbox, timing side channels, what gVisor does not implement (some programs meet ENOSYS or EINVAL; see
its compatibility pages).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from quintain.sandbox import _layout
from quintain.sandbox._engine import PROGRAM
from quintain.sandbox._ground import Ground
from quintain.sandbox._launcher import AGENT_AT, Plan, Spare, launched, translate
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, Sandbox
from quintain.types import FaultKind, HouseError, Isolation, Limits, Network

SPARE = Spare(memory_bytes=128 * 1024 * 1024, processes=4096)  # on ptrace, threads for each pair of process and core
PROBE_WITHIN_SECONDS = 20
AGENT, USER = 900, 1000  # inside; the host sees neither
AGENT_MAY = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"]
REMEDY = {
    "runsc": "expected gVisor to be installed: apt-get install runsc, or https://gvisor.dev/docs/user_guide/install/",
    "root": "run as root: `runsc run` sets up its file server with rights that this user lacks",
    "engine": "reinstall with a C compiler present (apt-get install gcc libc6-dev)",
}


class GvisorBackend:
    """Makes sandboxes with `runsc run`. `platform` is 'ptrace' (works everywhere), 'systrap' or 'kvm'.

    Use as `async with GvisorBackend() as backend`, or call `aclose`.
    """

    name = "gvisor"

    def __init__(self, *, program: str = "runsc", platform: str = "ptrace") -> None:
        self._program = program
        self._platform = platform
        self._ground: Ground | None = None
        self._mounts: list[dict[str, object]] = []

    async def __aenter__(self) -> GvisorBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    def probe(self) -> Capabilities:
        """What runsc can do here, by trying it. Never raises; what is missing comes with its remedy."""
        missing = self._missing()
        return Capabilities(
            name=self.name, available=not missing, isolation=Isolation.GVISOR,
            memory="soft", processes="soft", cpu="soft", disk="hard",
            networks=(Network.NONE,), unique_uid=False, channel=True,
            covers=("the host kernel's system calls (a kernel of its own answers)", "read-only system",
                    "bounded private work tree", "no capabilities", "whole-tree kill", "loopback only"),
            does_not_cover=("inodes", "processes and memory together (at their bounds the sandbox ends)",
                            "CPU time of a whole sandbox",
                            "disk bytes together (/work, /tmp and /dev/shm are bounded one by one)",
                            "timing side channels", "system calls that gVisor lacks"),
            missing=missing,
        )

    def _missing(self) -> dict[str, str]:
        missing = {} if os.access(PROGRAM, os.X_OK) else {"engine": REMEDY["engine"]}
        if shutil.which(self._program) is None:
            return {**missing, "runsc": REMEDY["runsc"]}
        if os.geteuid() != 0:
            return {**missing, "root": REMEDY["root"]}
        with tempfile.TemporaryDirectory(prefix="quintain-runsc-") as state:
            words = [*self._words(Path(state)), "do", "true"]
            try:
                done = subprocess.run(words, capture_output=True, timeout=PROBE_WITHIN_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                return {**missing, "runsc": f"expected `{' '.join(words)}` to end within {PROBE_WITHIN_SECONDS} s: "
                                            "try another platform"}
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
            missing["runsc"] = f"expected `runsc do true` to work: {said}"
        return missing

    def _words(self, state: Path) -> list[str]:
        return [self._program, f"--platform={self._platform}", "--network=none", "--ignore-cgroups", f"--root={state}"]

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
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, REMEDY["runsc"])
        ground = self._prepared()
        async with launched(
            ground, limits, count, name=self.name, spare=SPARE, plan=lambda place: self._plan(ground, limits, place)
        ) as boxes:
            yield boxes

    def _prepared(self) -> Ground:
        """The root that all sandboxes share: links and empty folders; everything else is mounted over it."""
        if self._ground is None:
            self._ground = Ground()
            root = self._ground.folder / "root"
            root.mkdir()
            self._mounts = []
            for op, source, target in translate(_layout.host_image(), self._ground.folder):
                if op == "link":
                    (root / target.lstrip("/")).symlink_to(source)
                else:
                    self._mounts.append(_mount(target, "bind", source, "ro", "rbind"))
        return self._ground

    def _plan(self, ground: Ground, limits: Limits, place: int) -> Plan:
        folder = ground.folder / f"s{place}"
        folder.mkdir()
        config = self._config(ground.folder / "root", limits)
        (folder / "config.json").write_bytes(msgspec.json.encode(config))
        words = self._words(ground.folder / "state")
        known = f"quintain-{ground.slot.number}-{place}"
        return Plan(
            argv=(*words, "run", "-bundle", str(folder), known), farewell=(*words, "delete", "--force", known),
            folder=folder,
        )

    def _config(self, root: Path, limits: Limits) -> dict[str, object]:
        """The OCI runtime configuration (opencontainers/runtime-spec, config.md)."""
        bounds = {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 1024, "RLIMIT_AS": limits.memory_bytes}
        tmpfs = [
            _mount(path, "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", f"size={limits.disk_bytes}")
            for path in ("/work", "/tmp", "/dev/shm")
        ]
        return {
            "ociVersion": "1.0.2", "hostname": "sandbox", "root": {"path": str(root), "readonly": True},
            "process": {
                "terminal": False, "user": {"uid": 0, "gid": 0}, "cwd": "/work", "env": ["PATH=/usr/bin"],
                "args": [AGENT_AT, "agent", "0", str(AGENT), str(USER)],
                "noNewPrivileges": True,
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), AGENT_MAY),
                "rlimits": [{"type": name, "soft": n, "hard": n} for name, n in bounds.items()],
            },
            "mounts": [
                _mount("/proc", "proc", "proc"), _mount("/dev", "dev", "dev"), *self._mounts, *tmpfs,
                _mount(AGENT_AT, "bind", str(PROGRAM), "ro", "bind"),
            ],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
        }


def _mount(destination: str, kind: str, source: str, *options: str) -> dict[str, object]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}
