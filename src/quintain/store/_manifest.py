"""Which files a library consists of: one small file, replaced as a whole."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from quintain.store._attempts import Ranges
from quintain.store.run import Definition, Result
from quintain.types import FaultKind, HouseError

FOLDER = "manifest"
_NAME = re.compile(r"(\d{10})\.json")
_HEAD = b"quintain-manifest 1 "
#: So many manifests before the newest stay: to read beside whoever replaces them, and to go back where one is damaged.
KEPT = 8


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file, named by its content; `path` is relative to the library."""

    table: str
    run: str
    day: str
    kind: str
    path: str
    rows: int
    bytes: int
    sha256: str
    schema: int


class Standing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a source has been taken in: all that lies before `low`, and of what follows the events in `done`. `size`
    is that of the file when it was read."""

    size: int
    low: int
    done: dict[str, Ranges] = {}


class Aside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What could not be read, and was passed over; `path` is relative to the runs or to the library."""

    path: str
    offset: int
    reason: str


class Trashed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that were taken out, as files of their own, until `until_unix_seconds`; putting them back is adding `parts`.
    """

    batch: str
    at_unix_seconds: float
    until_unix_seconds: float
    episodes: int
    parts: tuple[Part, ...]


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a run whose folder may be gone."""

    definition: Definition
    result: Result | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The library at one moment. `sources` are by `RUN/FILE`."""

    number: int = 0
    at_unix_seconds: float = 0.0
    parts: tuple[Part, ...] = ()
    sources: dict[str, Standing] = {}
    runs: dict[str, Kept] = {}
    aside: tuple[Aside, ...] = ()
    trash: tuple[Trashed, ...] = ()

    def of(self, table: str, *, run: str | None = None) -> list[Part]:
        return [part for part in self.parts if part.table == table and (run is None or part.run == run)]


class Found(NamedTuple):
    """The newest whole manifest; newer ones that are damaged are named; `highest` is the highest number in use."""

    manifest: Manifest
    damaged: tuple[Aside, ...]
    highest: int


def newest(library: Path) -> Found:
    """An empty manifest where there is none yet."""
    damaged: list[Aside] = []
    numbers = _numbers(library)
    for number in reversed(numbers):
        path = _path(library, number)
        try:
            return Found(_load(path), tuple(damaged), numbers[-1])
        except FileNotFoundError:  # an old one, removed meanwhile
            continue
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            damaged.append(Aside(path=f"{FOLDER}/{path.name}", offset=0, reason=f"a damaged manifest: {error}"))
    return Found(Manifest(), tuple(damaged), numbers[-1] if numbers else 0)


def publish(library: Path, manifest: Manifest, *, after: int) -> Manifest | None:
    """Make it the newest, if `after` is still the highest number; None if another one came first. Whole or not at all,
    also under SIGKILL and loss of power."""
    number = after + 1
    made = msgspec.structs.replace(manifest, number=number, at_unix_seconds=time.time())
    body = msgspec.json.encode(made)
    draft = library / FOLDER / f".{number}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as stream:
            stream.write(_HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, _path(library, number))
        except FileExistsError:
            return None
        sync_folder(draft.parent)
        for old in _numbers(library)[:-KEPT]:
            _path(library, old).unlink(missing_ok=True)
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{draft.parent}: cannot write the manifest: {error}")
    finally:
        draft.unlink(missing_ok=True)
    return made


def without(parts: Sequence[Part], gone: Sequence[Part]) -> tuple[Part, ...]:
    paths = {part.path for part in gone}
    return tuple(part for part in parts if part.path not in paths)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _load(path: Path) -> Manifest:
    head, _, body = path.read_bytes().partition(b"\n")
    if head != _HEAD + hashlib.sha256(body).hexdigest().encode():
        raise ValueError("expected content of the sha256 in its first line, found other bytes")
    return msgspec.json.decode(body, type=Manifest)


def _path(library: Path, number: int) -> Path:
    return library / FOLDER / f"{number:010}.json"


def _numbers(library: Path) -> list[int]:
    names = os.listdir(library / FOLDER) if (library / FOLDER).is_dir() else []
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
