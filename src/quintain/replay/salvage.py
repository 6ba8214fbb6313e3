"""The logs of a run whose journal may be damaged: what is whole is read, what is not is named.

A journal refuses to open when a record in its middle is damaged, which is right for whoever goes on with it; whoever
only looks wants the rest. The lines are checked one by one (their form is documented in docs/rooms/store.md), and of
each episode the unbroken beginning is kept.
"""

from __future__ import annotations

import re
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from quintain.store import Definition, Journal, LocalBlobs, Run
from quintain.types import Event, HouseError, Opened

_LINE = re.compile(rb'\{"crc":"([0-9a-f]{8})",(.*)\}\Z', re.DOTALL)


class Salvaged(NamedTuple):
    """`logs` by episode, in the order of their beginnings; `problems` say what could not be read. `definition` is
    `None` where run.json cannot be read either."""

    logs: dict[str, tuple[Event, ...]]
    problems: tuple[str, ...]
    definition: Definition | None


class _Key(msgspec.Struct):
    episode: str
    index: int


class _Record(msgspec.Struct):
    event: _Key


def salvage(path: Path) -> Salvaged:
    """All of a run that can be read; a folder that is none at all has a problem and no logs."""
    problems: list[str] = []
    definition: Definition | None = None
    try:
        definition = msgspec.json.decode((path / "run.json").read_bytes(), type=Definition)
    except (OSError, msgspec.MsgspecError) as error:
        problems.append(f"{path / 'run.json'}: {error}")
    try:
        with Run.open(path) as run:
            return Salvaged(_logs(run.journal, problems), tuple(problems), definition)
    except HouseError as error:
        if definition is not None or str(path / "run.json") not in error.message:  # else it is named already
            problems.append(error.message)
    try:
        content = (path / "journal.jsonl").read_bytes()
    except OSError as error:
        return Salvaged({}, (*problems, f"{path / 'journal.jsonl'}: {error.strerror}"), definition)
    with tempfile.TemporaryDirectory(prefix="quintain-salvage-") as folder:
        mended = Path(folder) / "journal.jsonl"
        mended.write_bytes(b"".join(_whole(content, problems)))
        try:
            with Journal(mended, LocalBlobs(path / "blobs")) as journal:
                return Salvaged(_logs(journal, problems), tuple(problems), definition)
        except HouseError as error:
            return Salvaged({}, (*problems, error.message), definition)


def _whole(content: bytes, problems: list[str]) -> list[bytes]:
    """The lines that are whole and go on where their episode stood."""
    kept: list[bytes] = []
    known: dict[str, int] = {}
    broken: dict[str, int] = {}
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        key = _key(line.rstrip(b"\n"))
        if key is None:
            problems.append(f"line {number}: no whole record")
        elif key.index != known.get(key.episode, 0):
            broken[key.episode] = broken.get(key.episode, 0) + 1
        else:
            known[key.episode] = key.index + 1
            kept.append(line if line.endswith(b"\n") else line + b"\n")
    problems += [f"{episode}: {count} events after a gap are left out" for episode, count in broken.items()]
    return kept


def _key(line: bytes) -> _Key | None:
    found = _LINE.match(line)
    if found is None or found.group(1) != b"%08x" % zlib.crc32(b"{" + found.group(2) + b"}"):
        return None
    try:
        return msgspec.json.decode(b"{" + found.group(2) + b"}", type=_Record).event
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _logs(journal: Journal, problems: list[str]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, tuple[Event, ...]] = {}
    for episode in journal.episodes():
        log: list[Event] = []
        try:
            log.extend(journal.read(episode))
        except HouseError as error:
            problems.append(f"{episode}: {error.message}")
            log = _beginning(journal, episode)
        if log and isinstance(log[0], Opened):
            found[episode] = tuple(log)
        elif log:
            problems.append(f"{episode}: its log does not begin with Opened")
    return found


def _beginning(journal: Journal, episode: str) -> list[Event]:
    """The events up to the first that cannot be read."""
    log: list[Event] = []
    events = journal.read(episode)
    try:
        for event in events:
            log.append(event)
    except HouseError:
        pass  # named already
    return log
