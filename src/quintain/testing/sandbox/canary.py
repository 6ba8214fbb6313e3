"""Things of the house that no sandbox may see: they stand while the kit runs, and programs look for them."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """`word` stands in the house's environment, in a file, behind an abstract socket and a loopback port, and in an
    inheritable descriptor. Texts of scenarios name them as @WORD@, @FILE@, @SOCKET@ and @PORT@."""

    word: str
    file: Path
    socket: str
    port: int

    def fill(self, text: str) -> str:
        values = {"WORD": self.word, "FILE": self.file, "SOCKET": self.socket, "PORT": self.port}
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        return text


@contextmanager
def canary() -> Iterator[Canary]:
    """Put them up, and take them down."""
    word = "canary" + secrets.token_hex(12)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quintain-canary-")))
        folder.chmod(0o755)
        file = folder / "canary.txt"
        file.write_text(word)
        file.chmod(0o644)
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        hidden = stack.enter_context(socket.socket(socket.AF_UNIX))
        hidden.bind("\0" + word)
        hidden.listen()
        fd = os.open(file, os.O_RDONLY)
        stack.callback(os.close, fd)
        os.set_inheritable(fd, True)
        os.environ["QUINTAIN_CANARY"] = word
        stack.callback(os.environ.pop, "QUINTAIN_CANARY")
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(folder / "temporary")  # nobody else's files, so that ours can be counted
        Path(tempfile.tempdir).mkdir()
        yield Canary(word=word, file=file, socket=word, port=listening.getsockname()[1])
