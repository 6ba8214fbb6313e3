"""All runs as one library: what their journals hold, in Parquet, asked in SQL while the runs go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quintain.store._attempts import Attempt, Ranges
from quintain.store._compact import (
    COMMIT_SECONDS,
    Compacted,
    Compaction,
    alone,
    described,
    ranges_by_episode,
    sweep_drafts,
)
from quintain.store._lookup import Places
from quintain.store._manifest import Aside, Kept, Manifest, Part, newest, publish
from quintain.store._parts import need_arrow, part_is_whole, table_of
from quintain.store._pass import Pass
from quintain.store._query import Questions
from quintain.store._record import decode_event, fill
from quintain.store._rows import add_rows, no_rows
from quintain.store._schema import names
from quintain.store._sources import sources
from quintain.store.base import Blobs
from quintain.store.blobs import LocalBlobs
from quintain.store.run import list_runs
from quintain.types import Event, FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow

#: The library of a folder of runs lies in it, where no run is looked for.
FOLDER = ".library"
_TRIES = 5
#: Drafts that are older were left by a killed compactor.
_DRAFT_SECONDS = 3600.0


class Log(NamedTuple):
    """An episode with all its events, of all its attempts, in order."""

    run: str
    episode: str
    events: tuple[Event, ...]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a library consists of. `pending` counts attempts that are not in its files yet, though they can be asked
    for; `aside` names what was damaged and passed over."""

    folder: str
    manifest: int
    parts: int
    rows: dict[str, int]
    bytes: int
    pending: int
    aside: tuple[Aside, ...]
    trash_bytes: int = 0


class Library:
    """The runs of a folder, and what was compacted of them before. Holds no file open. Any number of processes may read
    and write beside each other; one at a time compacts (others wait, at most `deadline_seconds`). What it has taken in
    is kept every `commit_seconds`: more is not done again after it was killed.

    The tables and their columns are in docs/rooms/library.md. Raises HouseError(STORE_ERROR) where the extra `library`
    is not installed. A damaged source or file is passed over and named (`status().aside`), and hides nothing else.
    """

    def __init__(
        self, runs: Path, *, folder: Path | None = None, blobs: Blobs | None = None, deadline_seconds: float = 600.0,
        commit_seconds: float = COMMIT_SECONDS,
    ) -> None:
        self.runs = runs
        self.folder = folder if folder is not None else runs / FOLDER
        self.blobs: Blobs = blobs if blobs is not None else LocalBlobs(self.folder / "blobs")
        self._deadline_seconds = deadline_seconds
        self._commit_seconds = commit_seconds
        self._questions: Questions | None = None
        self._places = Places(self.folder)

    def compact(self) -> Compacted:
        """Take every whole attempt that is not in the library yet into Parquet. Twice is the same as once; killed at
        any moment, it leaves the library as it was before or as it is after."""
        need_arrow()
        with alone(self.folder, deadline_seconds=self._deadline_seconds):
            sweep_drafts(self.folder, older_than_seconds=_DRAFT_SECONDS)
            for _ in range(_TRIES):
                made = Compaction(self.folder, self.runs, self.blobs, self._commit_seconds).go(self._known())
                if made is not None:
                    return made
        raise HouseError(FaultKind.STORE_ERROR, f"{self.folder}: other compactors were faster {_TRIES} times")

    def query(self, sql: str, parameters: Sequence[object] = ()) -> pyarrow.Table:
        """The answer of one SELECT over the tables, journals' unflushed tails included. `parameters` stand for `?`.
        Raises HouseError(STORE_ERROR) for other statements and with DuckDB's words for a wrong one."""
        manifest = newest(self.folder).manifest
        tail = self._tail(manifest)
        if any(part_is_whole(self.folder, part) for part in manifest.parts):  # replaced while we looked, or damaged
            manifest = newest(self.folder).manifest
            tail = self._tail(manifest)
        return self._ask(manifest, manifest.parts, tail, sql, parameters)

    def flushed(self, sql: str, parameters: Sequence[object] = ()) -> pyarrow.Table:
        """As `query`, over what has been compacted only."""
        manifest = newest(self.folder).manifest
        return self._ask(manifest, manifest.parts, no_rows(), sql, parameters)

    def marks(self) -> Iterator[str]:
        """All texts in which an event may name a blob: of the files, of what was taken out of them and can be put back,
        and of the journals' tails."""
        manifest = newest(self.folder).manifest
        trashed = [part for batch in manifest.trash for part in batch.parts]
        found = self._ask(
            manifest, [*manifest.parts, *trashed], self._tail(manifest),
            "SELECT coalesce(blobs, '') || CASE event WHEN 'graded' THEN body ELSE '' END AS text FROM events "
            "WHERE blobs IS NOT NULL OR event = 'graded'", (),
        )
        yield from found["text"].to_pylist()

    def events(self, episode: str, *, run: str | None = None) -> tuple[Event, ...]:
        """All events of an episode as they were journalled, blobs filled in. `episode` is its id, the id of its task or
        the beginning of an id; without `run`, in the newest run that has it. Raises HouseError(STORE_ERROR)."""
        return self._log(*self.find(episode, run=run)).events

    def steps(self, episode: str, *, run: str | None = None) -> pyarrow.Table:
        """The rows of `steps` of an episode, every attempt, in order: a look-up, which plans no question over all
        files. `episode` and `run` as for `events`. Raises HouseError(STORE_ERROR)."""
        found, id = self.find(episode, run=run)
        return self._rows_of("steps", id, run=found).sort_by([("attempt", "ascending"), ("step", "ascending")])

    def find(self, episode: str, *, run: str | None = None) -> tuple[str, str]:
        """The run and the id that are meant. Raises HouseError(STORE_ERROR) when there is none."""
        need_arrow()
        columns = ("run", "opened_unix_seconds")
        rows = self._rows_of("episodes", episode, run=run, columns=columns, passing_over=True).to_pylist()
        if rows:  # the newest
            return max(rows, key=lambda row: row["opened_unix_seconds"] or 0.0)["run"], episode
        which = "task = ?1 OR starts_with(episode, ?1)"
        found = self.query(
            f"SELECT run, episode FROM episodes WHERE ({which}) AND (?2 IS NULL OR run = ?2) "
            "ORDER BY task = ?1 DESC, opened_unix_seconds DESC NULLS LAST, episode LIMIT 1", (episode, run),
        ).to_pylist()
        if not found:
            where = f"run {run}" if run else f"the runs of {self.runs}"
            what = f"expected an episode that {episode!r} means, found none in {where}"
            raise HouseError(FaultKind.STORE_ERROR, what)
        return found[0]["run"], found[0]["episode"]

    def logs(self, where: str = "TRUE") -> Iterator[Log]:
        """The episodes of which a row of `episodes` satisfies an SQL condition, whole, by run and id."""
        found = self.query(f"SELECT DISTINCT run, episode FROM episodes WHERE {where} ORDER BY run, episode")
        for row in found.to_pylist():
            yield self._log(row["run"], row["episode"])

    def blobs_of(self, run: str) -> Blobs:
        """The bytes that a run's events name: of its folder while it is there, else the library's own."""
        return _Either(LocalBlobs(self.runs / run / "blobs"), self.blobs)

    def status(self) -> Status:
        """What there is, and what is damaged."""
        found = newest(self.folder)
        manifest = found.manifest
        rows: dict[str, int] = {}
        for part in manifest.parts:
            rows[part.table] = rows.get(part.table, 0) + part.rows
        broken = [_aside(part, why) for part in manifest.parts if (why := part_is_whole(self.folder, part))]
        return Status(
            folder=str(self.folder), manifest=manifest.number, parts=len(manifest.parts), rows=rows,
            bytes=sum(part.bytes for part in manifest.parts), pending=len(self._tail(manifest)["episodes"]),
            aside=(*manifest.aside, *found.damaged, *broken),
            trash_bytes=sum(part.bytes for batch in manifest.trash for part in batch.parts),
        )

    def verify(self) -> tuple[Aside, ...]:
        """Read every file of the library and compare it with its digest; what is not as it was written."""
        parts = newest(self.folder).manifest.parts
        return tuple(
            _aside(part, why) for part in parts if (why := part_is_whole(self.folder, part, content=True)))

    def repair(self) -> tuple[tuple[str, ...], tuple[Aside, ...]]:
        """Drop files that are not as they were written, and take the runs that they were of from their journals again;
        where those are gone the whole files stay and what is lost is named. The runs that were taken again, and the
        losses."""
        with alone(self.folder, deadline_seconds=self._deadline_seconds):
            found = newest(self.folder)
            manifest = found.manifest
            broken = {part.path: part for part in manifest.parts if part_is_whole(self.folder, part, content=True)}
            runs = {part.run for part in broken.values()}
            again = {run for run in runs if sources(self.runs / run)}
            held = tuple(batch for batch in manifest.trash if any(part.run in again for part in batch.parts))
            if held:
                raise HouseError(FaultKind.STORE_ERROR, f"{self.folder}: first undo or empty what gc took out: "
                                 f"{', '.join(batch.batch for batch in held)}")
            lost = tuple(_aside(part, "damaged, and its journals are gone")
                         for part in broken.values() if part.run not in again)
            made = msgspec.structs.replace(
                manifest, aside=(*manifest.aside, *lost),
                parts=tuple(p for p in manifest.parts if p.path not in broken and p.run not in again),
                sources={key: at for key, at in manifest.sources.items() if key.partition("/")[0] not in again},
            )
            if broken and publish(self.folder, made, after=found.highest) is None:
                raise HouseError(FaultKind.STORE_ERROR, f"{self.folder}: another process changed it: try again")
        if broken:
            self.compact()
        return tuple(sorted(again)), lost

    def _ask(
        self, manifest: Manifest, parts: Sequence[Part], tail: dict[str, list[tuple[object, ...]]], sql: str,
        parameters: Sequence[object],
    ) -> pyarrow.Table:
        whole = [part for part in parts if not part_is_whole(self.folder, part)]
        runs = {**manifest.runs, **self._living_runs()}
        if self._questions is None:
            self._questions = Questions(self.folder)
        return self._questions.ask(sql, parameters, parts=whole, tail=tail, runs=runs)

    def _log(self, run: str, episode: str) -> Log:
        found = self._rows_of("events", episode, run=run, columns=("index", "body", "blobs")).sort_by("index")
        blobs = self.blobs_of(run)
        events = []
        for text, named in zip(found["body"].to_pylist(), found["blobs"].to_pylist(), strict=True):
            event = decode_event(text.encode())
            events.append(fill(event, json.loads(named), blobs) if named else event)
        return Log(run, episode, tuple(events))

    def _rows_of(
        self, table: str, episode: str, *, run: str | None, columns: Sequence[str] = (), passing_over: bool = False,
    ) -> pyarrow.Table:
        """The rows of an episode, of files and of journals' tails; in no order."""
        import pyarrow

        manifest = newest(self.folder).manifest
        tail = self._tail(manifest, only=run)[table]
        if any(part_is_whole(self.folder, part) for part in manifest.of(table, run=run)):  # replaced while we looked
            manifest = newest(self.folder).manifest
            tail = self._tail(manifest, only=run)[table]
        at = names(table).index("episode")
        late = table_of(table, [row for row in tail if row[at] == episode])
        parts = (part for part in manifest.of(table, run=run) if not part_is_whole(self.folder, part))
        whole = self._places.rows(parts, episode, columns, passing_over=passing_over)
        return pyarrow.concat_tables([late.select(list(columns)) if columns else late, *whole])

    def _tail(self, manifest: Manifest, *, only: str | None = None) -> dict[str, list[tuple[object, ...]]]:
        rows = no_rows()
        for run in list_runs(self.runs):
            if only is None or run.name == only:
                for attempt in self._unflushed(run, manifest):
                    add_rows(rows, run.name, attempt)
        return rows

    def _unflushed(self, run: Path, manifest: Manifest) -> Iterator[Attempt]:
        look = Pass(run, manifest.sources, living=True)
        if look.is_idle:
            return
        known = self._ranges(manifest, run.name) if look.has_living else {}
        look = Pass(run, manifest.sources, known=known, living=True) if known else look
        yield from look.attempts()
        yield from look.rest()

    def _known(self) -> dict[str, dict[str, Ranges]]:
        manifest = newest(self.folder).manifest
        return {run.name: self._ranges(manifest, run.name) for run in list_runs(self.runs)
                if not Pass(run, manifest.sources).is_idle}

    def _ranges(self, manifest: Manifest, run: str) -> dict[str, Ranges]:
        """Which events of a run the library's files hold."""
        import pyarrow.parquet

        wanted = ["episode", "first_index", "last_index"]
        found: list[tuple[str, int, int]] = []
        for part in manifest.of("episodes", run=run):
            if not part_is_whole(self.folder, part):
                columns = pyarrow.parquet.read_table(self.folder / part.path, columns=wanted)
                found.extend(zip(*(columns[name].to_pylist() for name in wanted), strict=True))
        return ranges_by_episode(iter(found))

    def _living_runs(self) -> dict[str, Kept]:
        found = ((run.name, described(run)[0]) for run in list_runs(self.runs))
        return {name: kept for name, kept in found if kept is not None}


class _Either:
    """Blobs that lie here or there; what is put goes to the second."""

    def __init__(self, first: Blobs, second: Blobs) -> None:
        self._first = first
        self._second = second

    def put(self, content: bytes) -> str:
        return self._second.put(content)

    def get(self, digest: str) -> bytes:
        return (self._first if self._first.has(digest) else self._second).get(digest)

    def delete(self, digest: str) -> None:
        self._second.delete(digest)

    def has(self, digest: str) -> bool:
        return self._first.has(digest) or self._second.has(digest)

    def digests(self) -> Iterator[str]:
        yield from sorted({*self._first.digests(), *self._second.digests()})


def _aside(part: Part, why: str) -> Aside:
    return Aside(path=part.path, offset=0, reason=why)
