"""What is asked: all that a policy may see of a task."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from quintain.types.limits import Scopes


class Network(StrEnum):
    """What of the network a sandbox may reach. NONE still has its own loopback."""

    NONE = "none"
    ALLOW_LIST = "allow_list"
    FULL = "full"


class Isolation(StrEnum):
    """How strong the wall is, weakest first; a task names the least that it accepts."""

    PROCESS = "process"
    NAMESPACE = "namespace"
    GVISOR = "gvisor"
    MICROVM = "microvm"


class Grading(StrEnum):
    EACH_TURN = "each_turn"
    ON_SUBMIT = "on_submit"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the answer goes: the file that the reply becomes, and the name that it must define (if any)."""

    path: str = "solution.py"
    name: str | None = None
    language: str = "python"


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task. The exam (hidden tests, oracle, reserve) appears only as its digest.

    `version` is the sha256 of everything else here, the exam's digest included: same version, same task. Make it with
    `Task.sealed`. `files` are put into the work tree first; the visible tests are among them when there are any.
    """

    id: str
    version: str
    kind: str = "code"
    instructions: str
    files: dict[str, bytes] = {}
    image: str = "host"
    entry: Entry = Entry()
    limits: Scopes = Scopes()
    network: Network = Network.NONE
    isolation: Isolation = Isolation.NAMESPACE
    exam: str
    grading: Grading = Grading.EACH_TURN
    tags: tuple[str, ...] = ()

    @classmethod
    def sealed(cls, **fields: object) -> Task:
        """A task whose `version` is computed from its content."""
        draft = cls(version="", **fields)  # type: ignore[arg-type]
        return msgspec.structs.replace(draft, version=content_digest(draft))


def content_digest(value: object) -> str:
    """sha256 (hex) of the canonical JSON of any of the house's records."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
