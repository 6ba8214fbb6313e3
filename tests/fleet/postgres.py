"""A real PostgreSQL for tests, from the programs that Debian's package installs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """The folder of initdb and postgres; None where they are not installed."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    found = shutil.which("initdb")
    return known[-1].parent if known else Path(found).resolve().parent if found else None


@contextmanager
def running(folder: Path, *, within: Sequence[str] = (), listen: str = "") -> Iterator[str]:
    """The URL of a server that listens on a socket in a folder of its own, or at an address, and ends with the block.
    The server refuses to be root, so for root it runs as the user that the package made. `within` is what its command
    begins with, for root only."""
    home = Path(tempfile.mkdtemp(prefix="quintain-pg-"))
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    who = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    if who:
        shutil.chown(home, user)
    data = home / "data"
    with (home / "log").open("wb") as log:
        subprocess.run(
            [folder / "initdb", "-D", data, "-A", "trust", "-U", "quintain", "--no-sync"], check=True, stdout=log,
            stderr=log, cwd=home, timeout=120, **who)
        if listen:
            with (data / "pg_hba.conf").open("a") as access:
                access.write(f"host all all {listen}/24 trust\n")
        words = [folder / "postgres", "-D", data, "-k", home, "-c", f"listen_addresses={listen}", "-c", "fsync=off"]
        if within:
            as_user = [f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
            words, who = [*within, "setpriv", *as_user, *words], {}
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd=home, **who)
    try:
        for _ in range(600):
            up = subprocess.run([folder / "pg_isready", "-q", "-h", home], check=False, timeout=30)
            if up.returncode == 0 or server.poll() is not None:
                break
        assert server.poll() is None, (home / "log").read_text()
        yield f"postgresql://quintain@{listen}/postgres" if listen else f"postgresql://quintain@/postgres?host={home}"
    finally:
        server.send_signal(signal.SIGINT)  # at once: who is cut off never says goodbye
        server.wait(60)
        shutil.rmtree(home)
