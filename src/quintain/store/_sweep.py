"""Rows out of a library's files, and back while the undo window is open."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from quintain.store._manifest import Found, Manifest, Part, Trashed, newest, publish, without
from quintain.store._parts import PartWriter, Place, part_is_whole
from quintain.store._schema import lifted
from quintain.store.lifecycle import DAY_SECONDS
from quintain.types import FaultKind, HouseError

TRASH = "trash"
UNREFERENCED = "unreferenced.json"
#: Files that no manifest names are left for so long to whoever still reads by an older one.
GRACE_SECONDS = 3600.0


class _Place(Place):
    """A partition of the trash."""

    __slots__ = ()

    def path(self, table: str) -> str:
        return f"{TRASH}/{Place(self.run, self.day, self.kind).path(table)}"


def take_out(
    library: Path, victims: Collection[tuple[str, str]], *, undo_days: float, now: float,
) -> Trashed | None:
    """Move the rows of these episodes (run, id) into files of their own; None when there are none. The caller has the
    library's lock. Raises HouseError(STORE_ERROR) when another process changed the library meanwhile."""
    found = newest(library)
    runs = {run for run, _ in victims}
    wanted = set(victims)
    gone: list[Part] = []
    kept: list[Part] = []
    trashed: list[Part] = []
    for part in found.manifest.parts:
        if part.run in runs and not part_is_whole(library, part):
            stay, go = _split(library, part, wanted)
            if go:
                gone.append(part)
                kept.extend(stay)
                trashed.extend(go)
    if not trashed:
        return None
    batch = Trashed(
        batch=f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{found.highest + 1}", at_unix_seconds=now,
        until_unix_seconds=now + undo_days * DAY_SECONDS, episodes=len(victims), parts=tuple(trashed),
    )
    _publish(library, found, msgspec.structs.replace(
        found.manifest, parts=(*without(found.manifest.parts, gone), *kept), trash=(*found.manifest.trash, batch)))
    return batch


def put_back(library: Path, batch: str | None) -> Trashed:
    """Undo one removal, by default the last. Raises HouseError(STORE_ERROR) when there is none of that name."""
    found = newest(library)
    named = [trashed for trashed in found.manifest.trash if batch is None or trashed.batch == batch]
    if not named:
        known = ", ".join(trashed.batch for trashed in found.manifest.trash) or "none"
        what = f"expected something to undo{f' called {batch}' if batch else ''}, found {known}"
        raise HouseError(FaultKind.STORE_ERROR, f"{library}: {what}")
    chosen = named[-1]
    _publish(library, found, msgspec.structs.replace(
        found.manifest, parts=(*found.manifest.parts, *chosen.parts),
        trash=tuple(trashed for trashed in found.manifest.trash if trashed is not chosen)))
    return chosen


def empty_trash(library: Path, *, now: float) -> int:
    """Remove for good what can be undone no more, and files that no manifest names; the bytes that were freed."""
    found = newest(library)
    over = [trashed for trashed in found.manifest.trash if trashed.until_unix_seconds <= now]
    if over:
        left = tuple(trashed for trashed in found.manifest.trash if trashed.until_unix_seconds > now)
        _publish(library, found, msgspec.structs.replace(found.manifest, trash=left))
    expired = {part.path for trashed in over for part in trashed.parts}
    return sum(_unlink(path) for path in tuple(_orphans(library, expired, now)))


def forgotten(
    library: Path, present: Collection[str], marked: Collection[str], *, now: float, days: float,
) -> list[str]:
    """The blobs that nothing has referred to for so many days; those that nothing refers to now are noted for later."""
    path = library / UNREFERENCED
    try:
        since = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.MsgspecError):  # the note is lost: the days begin anew
        since = {}
    fresh = {digest: since.get(digest, now) for digest in present if digest not in marked}
    due = [digest for digest, at in fresh.items() if digest in since and now - at >= days * DAY_SECONDS]
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(msgspec.json.encode({digest: at for digest, at in fresh.items() if digest not in due}))
    os.replace(draft, path)
    return sorted(due)


def _split(library: Path, part: Part, victims: Collection[tuple[str, str]]) -> tuple[list[Part], list[Part]]:
    """The rows that stay and those that go, as new files; nothing when none go."""
    import pyarrow
    import pyarrow.parquet

    stay = PartWriter(library, Place(part.run, part.day, part.kind))
    go = PartWriter(library, _Place(part.run, part.day, part.kind))
    try:
        with pyarrow.parquet.ParquetFile(library / part.path) as file:
            for batch in file.iter_batches(batch_size=8_192):
                table = lifted(part.table, pyarrow.Table.from_batches([batch]))
                goes = [(part.run, episode) in victims for episode in table["episode"].to_pylist()]
                for writer, mask in ((go, goes), (stay, [not one for one in goes])):
                    chosen: Any = table.filter(pyarrow.array(mask))
                    if chosen.num_rows:
                        writer.add_table(part.table, chosen)
        if not go.rows:
            stay.abandon()
            return [], []
        return stay.finish(), go.finish()
    except BaseException:
        stay.abandon()
        go.abandon()
        raise


def _orphans(library: Path, expired: Collection[str], now: float) -> Iterator[Path]:
    manifest: Manifest = newest(library).manifest
    named = {part.path for part in manifest.parts}
    named.update(part.path for trashed in manifest.trash for part in trashed.parts)
    for folder in ("parts", TRASH):
        for path in (library / folder).rglob("*.parquet"):
            relative = path.relative_to(library).as_posix()
            if relative not in named and (relative in expired or now - path.stat().st_ctime > GRACE_SECONDS):
                yield path


def _unlink(path: Path) -> int:
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size


def _publish(library: Path, found: Found, manifest: Manifest) -> None:
    if publish(library, manifest, after=found.highest) is None:
        raise HouseError(FaultKind.STORE_ERROR, f"{library}: another process changed the library meanwhile: try again")
