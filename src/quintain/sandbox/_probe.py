"""What this host can do for the native backend, layer by layer, found by trying it in a child process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from quintain.sandbox import _cgroup
from quintain.sandbox._engine import PROGRAM
from quintain.sandbox.base import Capabilities
from quintain.types import Isolation, Network

CLONE = {
    "mount": 0x0002_0000, "uts": 0x0400_0000, "ipc": 0x0800_0000, "pid": 0x2000_0000, "net": 0x4000_0000,
    "cgroup": 0x0200_0000,
}
CLONE_NEWUSER = 0x1000_0000
REMEDY = {
    "user": "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces > 0), or run as root",
    "mount": "run where mount namespaces are allowed (a container needs CAP_SYS_ADMIN or user namespaces)",
    "engine": "reinstall with a C compiler present (apt-get install gcc libc6-dev)",
    "seccomp": "use a kernel with CONFIG_SECCOMP_FILTER",
}


def in_child(attempt: Callable[[], bool]) -> bool:
    """Whether `attempt` holds, tried in a forked child so that nothing of it stays."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if attempt() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def unshare(flags: int) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def has_seccomp() -> bool:
    """Whether the kernel offers filters that answer with an errno."""
    try:
        return "errno" in Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        return False


def probe_native(*, rootless: bool) -> Capabilities:
    """Capabilities of the native backend here. Never raises; what is missing comes with its remedy."""
    missing: dict[str, str] = {}
    base = CLONE_NEWUSER if rootless else 0
    if rootless and not in_child(lambda: unshare(CLONE_NEWUSER)):
        missing["user"] = REMEDY["user"]
    else:
        for name, flag in CLONE.items():
            if not in_child(lambda flag=flag: unshare(base | flag)):  # type: ignore[misc]
                missing[f"{name} namespace"] = REMEDY["mount"]
    if not os.access(PROGRAM, os.X_OK):
        missing["engine"] = REMEDY["engine"]
    if not has_seccomp():
        missing["seccomp"] = REMEDY["seccomp"]
    available = not missing
    survey = _cgroup.survey()
    bounded = {controller for hierarchy in survey.usable for controller in hierarchy.controllers}
    missing.update({f"cgroup {name}": why for name, why in survey.missing.items()})
    gaps = ["flaws of the shared kernel", "timing side channels", "disk and memory bandwidth"]
    if rootless:
        gaps.append("a host user of its own for each sandbox (all share yours)")
    if "memory" not in bounded:
        gaps.append("memory of a whole sandbox (only of each process)")
    return Capabilities(
        name="native", available=available, isolation=Isolation.NAMESPACE,
        memory="hard" if "memory" in bounded else "soft", processes="hard",
        cpu="hard" if "cpu" in bounded else "soft", disk="hard", networks=(Network.NONE,),
        unique_uid=not rootless, channel=True,
        covers=("pid, mount, net, ipc, uts, cgroup namespaces", "read-only system", "bounded private work tree",
                "no capabilities, no_new_privs, seccomp filter", "whole-tree kill", "loopback only"),
        does_not_cover=tuple(gaps), missing=missing,
    )
