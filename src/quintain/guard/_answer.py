"""What an attempt hands in, read as facts: each file in its language, the tree as a whole, and what was said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from quintain.guard._facts import Fact
from quintain.guard._python import python_facts
from quintain.guard._script import script_facts
from quintain.guard._shell import shell_facts
from quintain.types import Attempt

_ENDINGS = {
    "py": "python", "pyw": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript",
    "jsx": "javascript", "ts": "javascript", "tsx": "javascript", "mts": "javascript", "cts": "javascript",
    "sh": "shell", "bash": "shell", "bats": "shell", "zsh": "shell", "ksh": "shell", "bashrc": "shell",
    "profile": "shell", "bash_profile": "shell", "bash_aliases": "shell", "envrc": "shell",
}
_READERS = {"python": python_facts, "javascript": script_facts, "shell": shell_facts}
_MOST_LINES = 2_000


def language_of(path: str, content: bytes, attempt: Attempt) -> str | None:
    """The language of a file of the answer, by its name or its first line, or as the entry; None: no program."""
    entry = attempt.task.entry
    if path == entry.path and entry.language in ("bash", "sh"):
        return "shell"
    if path == entry.path and entry.language in _READERS:
        return entry.language
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    first = content[:80].split(b"\n")[0]
    if first.startswith(b"#!"):
        marks = {b"python": "python", b"node": "javascript", b"sh": "shell"}
        return next((name for mark, name in marks.items() if mark in first), None)
    return None


@lru_cache(maxsize=2048)
def facts_in(path: str, content: bytes, language: str | None) -> tuple[Fact, ...]:
    """The facts of one file."""
    if language is not None:
        return tuple(_READERS[language](path, content))
    if b"\0" in content[:4096]:
        return ()
    lines = content[:200_000].decode("utf-8", "replace").splitlines()[:_MOST_LINES]
    return tuple(Fact(kind="line", text=line[:400], file=path, line=n) for n, line in enumerate(lines, 1))


def tree_facts(attempt: Attempt) -> Iterator[Fact]:
    """Which files came, changed or went; the entry itself is what was asked for."""
    for path in sorted(attempt.changed):
        if path != attempt.task.entry.path:
            yield Fact(kind="file", text=path, file=path)
    for path in attempt.removed:
        yield Fact(kind="removed", text=path, file=path)


def said_facts(attempt: Attempt) -> Iterator[Fact]:
    """The lines of what the policy said, its reasoning left out: that is where it may think what it likes."""
    for turn in attempt.turns:
        for number, line in enumerate(turn.text[:200_000].splitlines()[:_MOST_LINES], 1):
            yield Fact(kind="said", text=line[:400], file="turn", line=number)


def text_of(attempt: Attempt) -> str:
    """What the task says: its instructions, and the file that it gives as a beginning."""
    given = attempt.task.files.get(attempt.task.entry.path, b"")
    return f"{attempt.task.instructions}\n{given[:50_000].decode('utf-8', 'replace')}"


def mentions_file(attempt: Attempt, path: str) -> bool:
    """Whether the task speaks of a file of this name."""
    name = re.escape(path.rpartition("/")[2])
    return re.search(rf"(?<![\w.]){name}(?![\w.])", attempt.task.instructions) is not None
