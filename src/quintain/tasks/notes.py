"""What reading or writing a task could not say, or found odd: told to a person, never dropped."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class NoteKind(StrEnum):
    """UNKNOWN: a key that means nothing here, kept as it is. LOSS: something that the other side cannot say. CHANGED:
    said otherwise than it stood there. WARNING: it works, and will surprise somebody."""

    UNKNOWN = "unknown"
    LOSS = "loss"
    CHANGED = "changed"
    WARNING = "warning"


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`file` is relative to the task, `key` the dotted name in it."""

    kind: NoteKind
    message: str
    file: str = ""
    key: str = ""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.file, self.key) if part)
        return f"{self.kind.value}: {place + ': ' if place else ''}{self.message}"
