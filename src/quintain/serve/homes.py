"""What each tenant keeps: a folder of its own, with its runs, its tasks and its ledger."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from quintain.serve.words import Refusal, RunAsked, RunState, absent
from quintain.types import FaultKind, HouseError

#: What this server knows of a run, in the run's folder.
SERVED = "served.json"
JOURNAL = "journal.jsonl"
_T = TypeVar("_T")


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that somebody asked for. Times are Unix seconds."""

    asked: RunAsked
    state: RunState
    submitted_unix_seconds: float
    ended_unix_seconds: float | None = None
    reason: str = ""


class Home:
    """A tenant's folder. Names of things in it come from outside: they are looked up among those that are there, and
    never become a path before they are known to be one plain name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.tasksets = path / "tasksets"
        self.ledger = path / "health.jsonl"

    def taskset(self, name: str) -> Path:
        """Raises Refusal(404)."""
        if not _is_plain(name) or not (self.tasksets / name).is_dir():
            raise absent("taskset", name)
        return self.tasksets / name

    def taskset_names(self) -> tuple[str, ...]:
        if not self.tasksets.is_dir():
            return ()
        return tuple(sorted(path.name for path in self.tasksets.iterdir() if _is_plain(path.name)))

    def kept_bytes(self) -> int:
        """What its files take; walks the whole folder."""
        kept = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(OSError):  # it may go meanwhile
                    kept += os.lstat(os.path.join(folder, name)).st_size
        return kept

    def write_taskset(self, name: str, files: Mapping[str, bytes]) -> Path:
        """A new folder of tasks, whole or not at all. Raises Refusal(409) where one is called so, Refusal(422) for a
        path that leads out."""
        for path in files:
            if not _is_inside(path):
                raise Refusal(422, "bad_path", expected="relative paths of plain names", found=path, where="body.files")
        target = self.tasksets / name
        if target.exists():
            raise Refusal(409, "taken", expected="a name that is free", found=name, where="body.name")
        draft = self.tasksets / f".{name}.{secrets.token_hex(4)}"
        try:
            for path, content in files.items():
                (draft / path).parent.mkdir(parents=True, exist_ok=True)
                (draft / path).write_bytes(content)
            draft.rename(target)
        except OSError as error:  # a file that another one needs as a folder, or a disk that is full
            shutil.rmtree(draft, ignore_errors=True)
            if target.exists():
                raise Refusal(409, "taken", expected="a name that is free", found=name, where="body.name") from None
            raise Refusal(422, "bad_path", expected="files that can lie beside each other",
                          found=error.strerror or "none", where="body.files") from None
        return target


class Homes:
    """All tenants' folders below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def of(self, tenant: str) -> Home:
        return Home(self._root / tenant)

    def tenants(self) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in self._root.iterdir())) if self._root.is_dir() else ()


def write_served(run: Path, served: Served) -> None:
    """Raises HouseError(STORE_ERROR)."""
    draft = run / f".{SERVED}.{os.getpid()}"
    try:
        draft.write_bytes(msgspec.json.encode(served))
        os.replace(draft, run / SERVED)
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{run.name}: cannot be written: {error.strerror}") from None


def read_served(run: Path) -> Served | None:
    """`None` for a run that was not asked for here, or of which the note is damaged."""
    try:
        return msgspec.json.decode((run / SERVED).read_bytes(), type=Served)
    except (OSError, msgspec.MsgspecError):
        return None


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= 128 and not name.startswith(".") and "/" not in name and "\0" not in name


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return len(parts) <= 32 and "\\" not in path and all(_is_plain(part) and part.isprintable() for part in parts)
