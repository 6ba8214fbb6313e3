"""A run on the disk: a folder with what was asked, everything that happened, and what came of it."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from quintain.store.blobs import LocalBlobs
from quintain.store.journal import Journal, Mode, Sync
from quintain.store.resume import Progress, progress
from quintain.types import FaultKind, HouseError

_DEFINITION = "run.json"
_RESULT = "result.json"
_JOURNAL = "journal.jsonl"
_BLOBS = "blobs"

_T = TypeVar("_T")


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run was asked to do: enough to do it again. `size` is the number of episodes per task, `options` holds
    what else was said on the command line, as text; `environment` what it was done in (digests of images, the
    interpreter, the kernel), by name."""

    taskset: str
    policy: str
    size: int = 1
    seed: int = 0
    sandboxes: int = 1
    backend: str = "native"
    taskset_digest: str = ""
    options: dict[str, str] = {}
    code_version: str = ""
    created_unix_seconds: float = 0.0
    environment: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name in ("size", "sandboxes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of a run. `faults` counts by owner; `reward` is the mean over the episodes that have one."""

    episodes: int
    solved: int
    faults: dict[str, int] = {}
    reward: float | None = None
    seconds: float = 0.0


class Run:
    """One run folder, opened: `run.json`, `journal.jsonl`, `blobs/`, and `result.json` once it has ended.

    Close it, or use it in a `with`. Only one process writes a run at a time. Raises HouseError(STORE_ERROR) for a
    folder that is no run, naming the file, what was expected and what was found.
    """

    def __init__(self, path: Path, definition: Definition, *, mode: Mode, sync: Sync = Sync.LEAVE) -> None:
        self.path = path
        self.definition = definition
        self.blobs = LocalBlobs(path / _BLOBS)
        self.journal = Journal(path / _JOURNAL, self.blobs, mode=mode, sync=sync)

    @classmethod
    def create(cls, runs: Path, definition: Definition, *, name: str | None = None, sync: Sync = Sync.LEAVE) -> Run:
        """A new folder in `runs`, named by the time, the taskset, the policy and four random digits; opened for
        writing. Raises HouseError(STORE_ERROR) when a run of that `name` is there already."""
        now = time.time()
        if not definition.created_unix_seconds:
            definition = msgspec.structs.replace(definition, created_unix_seconds=now)
        path = runs / (name or _fresh_name(definition, now))
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot create the run folder: {error.strerror}")
        _write(path / _DEFINITION, definition)
        return cls(path, definition, mode=Mode.WRITE, sync=sync)

    @classmethod
    def open(cls, path: Path, *, mode: Mode = Mode.READ, sync: Sync = Sync.LEAVE) -> Run:
        """A run that is there: to read it, beside its writer if need be, or to go on with it."""
        definition = _read(path / _DEFINITION, Definition)
        if mode is Mode.READ and not (path / _JOURNAL).exists():
            raise HouseError(FaultKind.STORE_ERROR, f"{path / _JOURNAL}: expected a journal, found nothing")
        return cls(path, definition, mode=mode, sync=sync)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def result(self) -> Result | None:
        """`None` while it has none: it is still going, or was interrupted."""
        path = self.path / _RESULT
        return _read(path, Result) if path.exists() else None

    def finish(self, result: Result) -> None:
        """Write what came of it; a later `finish` replaces it."""
        _write(self.path / _RESULT, result)

    def progress(self) -> Progress:
        """Which episodes are finished, broken by the house, or were left in the middle."""
        return progress(self.journal.read())

    def close(self) -> None:
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def list_runs(runs: Path) -> tuple[Path, ...]:
    """The run folders in `runs`, oldest first; none where there is no such folder."""
    return tuple(sorted(_run_folders(runs), key=lambda path: (path.stat().st_mtime_ns, path.name)))


def find_run(runs: Path, name: str) -> Path:
    """The run folder that `name` means: a path, the folder's name or the end or start of it, or `latest`.

    Raises HouseError(STORE_ERROR) when it means none, or several.
    """
    if (Path(name) / _DEFINITION).is_file():
        return Path(name)
    known = list_runs(runs)
    exact = [path for path in known if path.name == name]
    if name == "latest" and known:
        return max(known, key=lambda path: _read(path / _DEFINITION, Definition).created_unix_seconds)
    matching = exact or [path for path in known if path.name.endswith(name) or path.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    found = ", ".join(path.name for path in matching) or f"none among {len(known)} runs"
    raise HouseError(FaultKind.STORE_ERROR, f"{runs}: expected one run that {name!r} means, found {found}")


def _run_folders(runs: Path) -> Iterator[Path]:
    if runs.is_dir():
        yield from (path for path in runs.iterdir() if (path / _DEFINITION).is_file())


def _fresh_name(definition: Definition, now: float) -> str:
    words = (_slug(definition.taskset), _slug(definition.policy))
    return "-".join((time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)), *words, secrets.token_hex(2)))


def _slug(text: str) -> str:
    last = text.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:24] or "run"


def _write(path: Path, value: Definition | Result) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        os.replace(draft, path)
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot write: {error.strerror}")


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: expected the file of a run, found nothing")
    except (OSError, msgspec.MsgspecError) as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: not what a run keeps there: {error}")
