"""The root file system of the `host` image: the host's own /usr read-only, a minimal /etc and /dev, and the interpreter
that runs the house when it lives elsewhere. Nothing of /home, /root, /var, /run or /sys is there."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from quintain.sandbox._warm import Warm

#: What of /etc programs need as it is: links through alternatives, the loader's cache, certificates.
#: As a mount each would cost every sandbox; so it is copied into the engine's root, where it is not too much.
ETC = ("alternatives", "ld.so.cache", "ssl", "fonts", "java-17-openjdk", "java-21-openjdk")
ETC_COPIED = ("mime.types", "magic", "protocols", "services", "debian_version", "os-release")
COPY_BYTES, COPY_FILES = 8 << 20, 5_000
DEVICES = ("null", "zero", "full", "random", "urandom")
#: The CPU quota of a sandbox is one; libraries that size their pools by the host's cores are told so.
ONE_CPU = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHON_CPU_COUNT"), "1")
SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

PASSWD = "root:x:0:0:root:/root:/usr/sbin/nologin\nprogram:x:{uid}:{uid}:program:/tmp:/bin/sh\n"
GROUP = "root:x:0:\nprogram:x:{uid}:\n"


@cache
def interpreter_prefix() -> Path | None:
    """Where our interpreter lives, if outside /usr."""
    prefix = Path(sys.base_prefix).resolve()
    return None if prefix.is_relative_to("/usr") else prefix


@cache
def search_path() -> str:
    """PATH inside; the interpreter that runs the house comes first, so that `python3` is at least as new as ours."""
    prefix = interpreter_prefix()
    own = (str(prefix / "bin"),) if prefix else ()
    return ":".join((*own, *SEARCH_PATH))


def copied() -> list[tuple[str, str]]:
    """Name and content of the small files of /etc that the root gets a copy of."""
    found = []
    for name in ETC_COPIED:
        try:
            text = Path("/etc", name).read_text("utf-8", "replace")
        except OSError:
            continue
        if len(text) < 100_000 and "\0" not in text:
            found.append((name, text))
    return found


def small(path: Path) -> bool:
    """Whether a file or a directory is little enough to be copied for each engine."""
    if not path.is_dir():
        return path.stat().st_size <= COPY_BYTES
    sizes = [0]
    for place, _, names in os.walk(path):
        sizes += [os.lstat(os.path.join(place, name)).st_size for name in names]
        if len(sizes) > COPY_FILES or sum(sizes) > COPY_BYTES:
            return False
    return True


def host_image(warm: Warm | None = None) -> list[str]:
    """The operations that build the root, as triples for the engine: op, a, b."""
    ops: list[str] = ["ro", "/usr", "usr"]
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = Path("/") / name
        if path.is_symlink():
            ops += ["link", os.readlink(path).lstrip("/"), name]
        elif path.is_dir():
            ops += ["ro", str(path), name]
    for name in ETC:
        path = (Path("/etc") / name).resolve()
        if path.exists():
            ops += ["copy" if path.name == name and small(path) else "ro", str(path), f"etc/{name}"]
    for name, text in copied():
        ops += ["file", f"etc/{name}", text]
    ops += ["file", "etc/passwd", PASSWD.format(uid=1000), "file", "etc/group", GROUP.format(uid=1000)]
    ops += ["file", "etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"]
    ops += ["file", "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"]
    ops += ["file", "etc/resolv.conf", "", "file", "etc/hostname", "sandbox\n"]
    ops += ["file", "etc/machine-id", "0" * 32 + "\n"]
    for device in DEVICES:
        ops += ["dev", device, "-"]
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
                         ("stderr", "/proc/self/fd/2")):
        ops += ["link", target, f"dev/{name}"]
    prefix = interpreter_prefix()
    if prefix:
        ops += ["ro", str(prefix), str(prefix).lstrip("/")]
    for site, inside in warm.places() if warm else ():
        ops += ["ro", str(site), inside]
    return ops


def default_environment() -> dict[str, str]:
    """The whole environment of a program besides what its caller gives."""
    return {"PATH": search_path(), "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
            "USER": "program", "LOGNAME": "program", "SHELL": "/bin/sh", **ONE_CPU}
