"""What admissions have found before, on disk: a second run measures nothing again whose content is the same."""

from __future__ import annotations

from pathlib import Path

import msgspec

from quintain.curate.finding import Finding
from quintain.store import Ledger
from quintain.tasks import portable_name


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    finding: Finding


class Kept:
    """Findings in `folder`, one append-only file for each task. A key is the digest of all that a finding depends on;
    what has another key is measured anew. Several processes may write at once; a torn last line is overlooked.

    `get` and `put` raise HouseError(STORE_ERROR) for a file that cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, dict[str, Finding]] = {}

    def get(self, task: str, key: str) -> Finding | None:
        if task not in self._read:
            self._read[task] = {record.key: record.finding for record in self._ledger(task).read()}
        return self._read[task].get(key)

    def put(self, task: str, key: str, finding: Finding) -> None:
        record = _Kept(key=key, finding=finding)
        self._ledger(task).change(lambda _: (record,))
        self._read.setdefault(task, {})[key] = finding

    def _ledger(self, task: str) -> Ledger[_Kept]:
        return Ledger(self._folder / f"{portable_name(task)}.jsonl", _Kept)
