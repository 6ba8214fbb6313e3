"""Sandboxes that a container engine makes: podman or docker, through the command line, for hosts that have one.

Covers: what the engine's containers cover (own namespaces, read-only root, no capabilities for programs,
no_new_privs), no network but loopback, private /work, /tmp and /dev/shm bounded in bytes, memory and processes where
the engine may bound them, our system-call filter, whole-tree kill.
Does not cover: flaws of the shared kernel and of the engine, timing side channels, inodes, CPU time of a whole sandbox,
a user of its own for each sandbox (all map to the engine's), speed: a start takes some hundred milliseconds.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from quintain.sandbox import _layout
from quintain.sandbox._engine import PROGRAM
from quintain.sandbox._ground import Ground
from quintain.sandbox._launcher import AGENT_AT, Plan, launched, translate
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, Sandbox
from quintain.types import FaultKind, HouseError, Isolation, Limits, Network

PROBE_WITHIN_SECONDS = 60
ENGINES = ("podman", "docker")
AGENT, USER = 900, 1000  # inside
AGENT_MAY = ("SETUID", "SETGID", "KILL")
EMPTY_IMAGE = "localhost/quintain-host:1"  # links only; the host's own /usr is bound over it
HYBRID = "/sys/fs/cgroup/unified"
DOOR = "/run/quintain"  # the folder with the house's socket, inside
REMEDY = {
    "engine": "expected podman or docker: apt-get install podman",
    "program": "reinstall with a C compiler present (apt-get install gcc libc6-dev)",
    "run": "the engine starts no container here: see what it says, and whether its `run` works by hand",
}


class ContainerBackend:
    """Makes sandboxes with `podman run` or `docker run`. `program`: the engine's command (default: the first found).

    Use as `async with ContainerBackend() as backend`, or call `aclose`.
    """

    name = "container"

    def __init__(self, *, program: str | None = None, options: Sequence[str] = ()) -> None:
        self._program = program or next((e for e in ENGINES if shutil.which(e)), ENGINES[0])
        self._options = tuple(options)
        self._ground: Ground | None = None
        self._mounts: list[str] = []

    async def __aenter__(self) -> ContainerBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    def probe(self) -> Capabilities:
        """What the engine can do here, by running `true` in it. Never raises; what is missing comes with its remedy."""
        missing = {} if os.access(PROGRAM, os.X_OK) else {"program": REMEDY["program"]}
        if shutil.which(self._program) is None:
            missing["engine"] = REMEDY["engine"]
        else:
            said = self._try()
            if said is not None:
                missing[self._program] = f"{REMEDY['run']}; {self._program}: {said}"
        return Capabilities(
            name=self.name, available=not missing, isolation=Isolation.NAMESPACE, memory="soft", processes="hard",
            cpu="soft", disk="hard", networks=(Network.NONE,), unique_uid=False, channel=True,
            covers=("the engine's containers", "read-only system", "bounded private work tree",
                    "no capabilities, no_new_privs, seccomp filter", "whole-tree kill", "loopback only"),
            does_not_cover=("flaws of the shared kernel and of the engine", "timing side channels", "inodes",
                            "telling a kill for memory from another signal (the engine keeps the groups)",
                            "CPU time of a whole sandbox (only of each process)",
                            "disk bytes together (/work, /tmp and /dev/shm are bounded one by one)",
                            "a host user of its own for each sandbox"),
            missing=missing,
        )

    def _try(self) -> str | None:
        """What stands in the way, as the engine says it; `None` when a container ran."""
        try:
            self._import_image()
            words = [*self._words(DEFAULT_LIMITS, ()), "-v", "/usr:/usr:ro", EMPTY_IMAGE, "/usr/bin/true"]
            done = subprocess.run(words, capture_output=True, timeout=PROBE_WITHIN_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"no answer within {PROBE_WITHIN_SECONDS} s"
        except HouseError as error:
            return error.message
        return _last_words(done.stderr) if done.returncode else None

    def _import_image(self) -> None:
        """An image of links only. Raises HouseError with the engine's own words."""
        have = subprocess.run(
            [*self._engine(), "image", "inspect", EMPTY_IMAGE], capture_output=True, check=False,
            timeout=PROBE_WITHIN_SECONDS,
        )
        if have.returncode == 0:
            return
        done = subprocess.run(
            [*self._engine(), "import", "-", EMPTY_IMAGE], input=_links(), capture_output=True, check=False,
            timeout=PROBE_WITHIN_SECONDS,
        )
        if done.returncode:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, _last_words(done.stderr))

    def _engine(self) -> list[str]:
        """The engine's command. Where v1 and v2 groups are mixed, podman's runtimes start nothing while they see the
        v2 tree, so they get a mount namespace without it."""
        if Path(self._program).name != "podman":
            return [self._program]
        words = [self._program, "--cgroup-manager=cgroupfs"]
        mixed = os.geteuid() == 0 and os.path.ismount(HYBRID)
        return ["unshare", "--mount", "sh", "-c", f'umount {HYBRID} && exec "$@"', "sh", *words] if mixed else words

    def _words(self, limits: Limits, more: Sequence[str]) -> list[str]:
        words = [
            *self._engine(), "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--hostname=sandbox",
            *(f"--cap-add={name}" for name in AGENT_MAY), "--security-opt=no-new-privileges", "--user=0:0",
            "--workdir=/work", f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}",
            f"--pids-limit={limits.processes + 1}", "--ulimit=core=0:0", "--ulimit=nofile=1024:1024",
            f"--ulimit=nproc={limits.processes + 1}:{limits.processes + 1}",
            f"--shm-size={limits.disk_bytes}", "--log-driver=none", *self._options,
        ]
        for path in ("/work", "/tmp"):
            words.append(f"--tmpfs={path}:rw,exec,mode=1777,size={limits.disk_bytes}")
        return [*words, *more]

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
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, REMEDY["engine"])
        ground = self._prepared()
        async with launched(
            ground, limits, count, name=self.name, spare=None,
            plan=lambda place: self._plan(ground, limits, place),
        ) as boxes:
            yield boxes

    def _prepared(self) -> Ground:
        if self._ground is None:
            self._import_image()
            self._ground = Ground()
            self._mounts = []
            for op, source, target in translate(_layout.host_image(), self._ground.folder):
                if op == "ro":
                    self._mounts += ["-v", f"{source}:{target}:ro"]
        return self._ground

    def _plan(self, ground: Ground, limits: Limits, place: int) -> Plan:
        folder = ground.folder / f"s{place}"
        (folder / "door").mkdir(parents=True)
        known = f"quintain-{ground.slot.number}-{place}"
        words = self._words(limits, (
            f"--name={known}", *self._mounts, "-v", f"{PROGRAM}:{AGENT_AT}:ro", "-v", f"{folder / 'door'}:{DOOR}:ro",
            EMPTY_IMAGE, AGENT_AT, "agent", f"{DOOR}/socket", str(AGENT), str(USER),
        ))
        return Plan(
            argv=tuple(words), listen=folder / "door" / "socket", folder=folder,
            farewell=(*self._engine(), "rm", "--force", known),
        )


def _links() -> bytes:
    """A tar archive of the links and empty folders that the host's image begins with."""
    data = io.BytesIO()
    operations = _layout.host_image()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for op, a, b in zip(*[iter(operations)] * 3, strict=True):
            entry = tarfile.TarInfo(b)
            if op == "link" and not b.startswith("dev/"):
                entry.type, entry.linkname = tarfile.SYMTYPE, a
                archive.addfile(entry)
    return data.getvalue()


def _last_words(stderr: bytes) -> str:
    return stderr.decode("utf-8", "replace").strip()[-300:] or "it failed without a word"
