"""What a host can do, what a live sandbox really has, and the cleaning up after what was killed."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from quintain.sandbox import _slots
from quintain.sandbox._ground import sweep_folders
from quintain.sandbox._slots import Sweep as Sweep
from quintain.sandbox.base import Capabilities
from quintain.sandbox.bubblewrap import BubblewrapBackend
from quintain.sandbox.container import ContainerBackend
from quintain.sandbox.gvisor import GvisorBackend
from quintain.sandbox.native import NativeBackend
from quintain.types import Limits

BACKENDS = (NativeBackend, BubblewrapBackend, GvisorBackend, ContainerBackend)
#: Host settings worth knowing, and the value that a careful host has (`None`: shown, not judged).
SYSCTLS: dict[str, str | None] = {
    "kernel/unprivileged_bpf_disabled": "2", "kernel/io_uring_disabled": None, "vm/unprivileged_userfaultfd": "0",
    "kernel/dmesg_restrict": "1", "kernel/kptr_restrict": None, "kernel/yama/ptrace_scope": None,
    "dev/tty/legacy_tiocsti": "0", "fs/protected_symlinks": "1", "fs/protected_hardlinks": "1",
    "user/max_user_namespaces": None, "kernel/core_pattern": None,
}


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a live sandbox: what was looked at, what was found, and whether it is as it should be."""

    name: str
    found: str
    ok: bool


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """This host: kernel, user, each backend's capabilities, settings."""

    kernel: str
    machine: str
    user: int
    cpus: int
    backends: tuple[Capabilities, ...]
    settings: dict[str, str]


def examine() -> Host:
    """Look at the host; changes nothing."""
    settings = {}
    for name in SYSCTLS:
        try:
            settings[name.replace("/", ".")] = Path("/proc/sys", name).read_text().strip()
        except OSError:
            settings[name.replace("/", ".")] = "absent"
    return Host(
        kernel=platform.release(), machine=platform.machine(), user=os.geteuid(), cpus=len(os.sched_getaffinity(0)),
        backends=tuple(kind().probe() for kind in BACKENDS), settings=settings,
    )


def clean() -> Sweep:
    """Remove what killed engines left behind; touches nothing that a living engine holds."""
    swept = _slots.clean()
    folders = sweep_folders()
    return Sweep(in_use=swept.in_use, removed=swept.removed + folders)


PROBE_SCRIPT = r"""
status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status | head -n 1; }
echo "user=$(id -u)"; echo "capabilities=$(status CapEff)"; echo "bounding=$(status CapBnd)"
echo "no_new_privs=$(status NoNewPrivs)"; echo "seccomp=$(status Seccomp)"; echo "groups=$(status Groups)"
echo "pid1=$(ls -d /proc/1 2>/dev/null || echo hidden)"; echo "processes=$(ls -d /proc/[0-9]* | wc -l)"
echo "links=$(sed -n 's/^ *\([a-z0-9]*\):.*/\1/p' /proc/net/dev | tr '\n' ' ')"
echo "loopback=$(python3 -I -S -c 'import socket
s=socket.socket(); s.bind(("127.0.0.1",0)); s.listen()
c=socket.create_connection(s.getsockname(),2); print("up")' 2>&1 | tail -n 1)"
echo "outside=$(python3 -I -S -c 'import socket
try: socket.create_connection(("192.0.2.1",80),2); print("reached")
except OSError as e: print(e.strerror)' 2>&1 | tail -n 1)"
echo "sys=$(ls /sys 2>/dev/null | wc -l)"
touch /usr/quintain-probe 2>/dev/null && echo "usr=writable" || echo "usr=read-only"
# the last mount at a place covers those before it
echo "mounts=$(awk '{top[$2] = $4} END {for (m in top) if (top[m] ~ /(^|,)rw(,|$)/) printf "%s ", m}' /proc/mounts)"
unshare -U true 2>/dev/null && echo "userns=allowed" || echo "userns=refused"
echo "descriptors=$(ls /proc/self/fd | wc -l)"; echo "cgroup=$(cut -d: -f3 /proc/self/cgroup | sort -u | tr '\n' ' ')"
echo "disk=$(df -kP /work | awk 'NR==2 {print $2}')"; echo "host=$(hostname)"
"""


async def report(backend: NativeBackend, limits: Limits) -> tuple[Layer, ...]:
    """The isolation of one live sandbox, looked at from inside."""
    async with backend.open(limits=limits) as [box]:
        outcome = await box.run(["sh", "-c", PROBE_SCRIPT])
    seen = dict(line.split("=", 1) for line in outcome.text.splitlines() if "=" in line)
    writable = set(seen.get("mounts", "").split())
    expected = {"/work", "/tmp", "/dev/shm", "/proc"}
    checks = [
        ("user", seen.get("user", "?"), seen.get("user") not in ("0", "65534", "?")),
        ("supplementary groups", seen.get("groups", "?") or "none", not seen.get("groups", "?").strip()),
        ("effective capabilities", seen.get("capabilities", "?"), set(seen.get("capabilities", "?")) == {"0"}),
        ("bounding set", seen.get("bounding", "?"), set(seen.get("bounding", "?")) == {"0"}),
        ("no_new_privs", seen.get("no_new_privs", "?"), seen.get("no_new_privs") == "1"),
        ("seccomp", seen.get("seccomp", "?"), seen.get("seccomp") == "2"),
        ("first process", seen.get("pid1", "?"), seen.get("pid1") == "hidden" or not backend.probe().unique_uid),
        ("network links", seen.get("links", "?"), seen.get("links", "").split() == ["lo"]),
        ("loopback", seen.get("loopback", "?"), seen.get("loopback") == "up"),
        ("outside network", seen.get("outside", "?"), seen.get("outside", "reached") != "reached"),
        ("/sys entries", seen.get("sys", "?"), seen.get("sys") == "0"),
        ("/usr", seen.get("usr", "?"), seen.get("usr") == "read-only"),
        ("writable mounts", " ".join(sorted(writable)),
         not {m for m in writable - expected if not m.startswith(("/proc/", "/dev/"))}),
        ("new user namespace", seen.get("userns", "?"), seen.get("userns") == "refused"),
        ("cgroup path seen", seen.get("cgroup", "?"), seen.get("cgroup", "").split() in (["/"], [])),
        ("work tree (KiB)", seen.get("disk", "?"), seen.get("disk", "0") == str(limits.disk_bytes // 1024)),
        ("host name", seen.get("host", "?"), seen.get("host") == "sandbox"),
    ]
    return tuple(Layer(name=name, found=found.strip(), ok=ok) for name, found, ok in checks)
