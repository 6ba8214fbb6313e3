"""How the things of a queue are called in NATS. Pure.

    NAME.KIND.PRIORITY.ID       a job, in the stream NAME-KIND (one message at most for each, so an id is kept once)
    NAME_aside.dead.KIND.ID     a dead job         NAME_aside.stop.KIND       a kind that is stopped
    NAME_aside.terms            the terms          NAME_aside.pardon.KIND.N   deliveries of message N that do not count
    NAME_wake                   said when there may be something new; kept nowhere
"""

from __future__ import annotations

import re

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_NAME = re.compile(r"[A-Za-z0-9_]{1,48}")


def token(text: str) -> str:
    """Any text as one token of a subject, and of a stream's name: `=XX` for each byte that may not stand there."""
    return "".join(
        c if c in _PLAIN else "".join(f"={byte:02X}" for byte in c.encode("utf-8", "surrogatepass")) for c in text
    ) or "="


def text(token: str) -> str:
    """What `token` was made of."""
    if token == "=":
        return ""
    raw = re.sub(rb"=([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), token.encode())
    return raw.decode("utf-8", "surrogatepass")


class Subjects:
    """The names of one queue."""

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected a queue's name of 1 to 48 letters, digits and underscores, found {name!r}")
        self.jobs = f"{name}.>"
        self.aside = f"{name}_aside"
        self.wake = f"{name}_wake"
        self.terms = f"{self.aside}.terms"
        self._name = name

    def stream(self, kind: str) -> str:
        return f"{self._name}-{token(kind)}"

    def kind_of(self, stream: str) -> str | None:
        """The kind whose stream that is; None for a stream that is none of ours."""
        head, dash, tail = stream.partition("-")
        return text(tail) if head == self._name and dash else None

    def of_kind(self, kind: str) -> str:
        return f"{self._name}.{token(kind)}.>"

    def lane(self, kind: str, priority: int) -> str:
        return f"{self._name}.{token(kind)}.{priority}.*"

    def job(self, kind: str, priority: int, id: str) -> str:
        return f"{self._name}.{token(kind)}.{priority}.{token(id)}"

    def dead(self, kind: str | None = None, id: str | None = None) -> str:
        """Of one job, of one id whatever its kind, of a kind, or of all."""
        if id is not None:
            return f"{self.aside}.dead.{'*' if kind is None else token(kind)}.{token(id)}"
        return f"{self.aside}.dead.>" if kind is None else f"{self.aside}.dead.{token(kind)}.*"

    def stop(self, kind: str | None = None) -> str:
        return f"{self.aside}.stop.{'*' if kind is None else token(kind)}"

    def pardon(self, kind: str, number: int) -> str:
        return f"{self.aside}.pardon.{token(kind)}.{number}"

    def asides(self) -> str:
        return f"{self.aside}.>"


def last(subject: str) -> str:
    """What the last token of a subject stands for."""
    return text(subject.rpartition(".")[2])
