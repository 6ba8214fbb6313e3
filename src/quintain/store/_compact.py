"""Journals to Parquet: whole attempts go over, once, whoever is killed in the middle and however many try."""

from __future__ import annotations

import fcntl
import gc
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from quintain.store._attempts import Attempt, Ranges, merged
from quintain.store._manifest import Aside, Found, Kept, Manifest, Part, newest, publish
from quintain.store._merge import merged as in_fewer_files
from quintain.store._parts import FILE_ROWS, PartWriter, Place
from quintain.store._pass import Pass
from quintain.store._rows import Row, add_rows, no_rows
from quintain.store.base import Blobs
from quintain.store.blobs import LocalBlobs
from quintain.store.run import Definition, Result, list_runs
from quintain.types import FaultKind, Graded, HouseError

#: Events that are held in memory before they are written.
BATCH_EVENTS = 60_000
#: A manifest is written when so long was worked since the last one: more is not lost with a compactor that is killed,
#: and one that is killed again and again gets to the end all the same.
COMMIT_SECONDS = 10.0
LOCK = "lock"


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What one compaction took in. `aside` is what it found damaged and passed over."""

    attempts: int = 0
    events: int = 0
    parts: int = 0
    bytes: int = 0
    seconds: float = 0.0
    aside: tuple[Aside, ...] = ()


class _Noted(msgspec.Struct, frozen=True, kw_only=True):
    image: str
    facts: dict[str, str] = {}
    verifier_build: str = ""


class _NotedLine(msgspec.Struct, frozen=True, kw_only=True):
    record: _Noted


@contextmanager
def alone(library: Path, *, deadline_seconds: float) -> Iterator[None]:
    """One at a time changes a library; the lock goes with the process. Raises HouseError(STORE_ERROR) when another one
    has it for longer than the deadline."""
    try:
        library.mkdir(parents=True, exist_ok=True)
        stream = (library / LOCK).open("ab")
    except OSError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"{library}: cannot open the library: {error.strerror}")
    with stream:
        end = time.monotonic() + deadline_seconds
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    what = "another process changes the library: wait for it, or end it"
                    raise HouseError(FaultKind.STORE_ERROR, f"{library}: {what}")
                time.sleep(0.05)
        yield


class _SecondError(Exception):
    """Somebody else has published a manifest first."""


class Compaction:
    """One pass over all runs. Where a lock does not hold (NFS), the manifest decides: who comes second begins anew."""

    def __init__(self, library: Path, runs: Path, blobs: Blobs, commit_seconds: float) -> None:
        self._library = library
        self._runs = runs
        self._blobs = blobs
        self._found: Found = newest(library)
        self._manifest: Manifest = self._found.manifest
        self._aside: list[Aside] = []
        self._made = Compacted()
        self._commit_seconds = commit_seconds
        self._committed = time.monotonic()

    def go(self, known: Mapping[str, Mapping[str, Ranges]]) -> Compacted | None:
        """`known` are the events of each run that the library has. None when somebody else was faster."""
        start = time.monotonic()
        try:
            changed = False
            for run in list_runs(self._runs):
                changed |= self._take_run(run, known.get(run.name, {}))
            if changed:
                parts = in_fewer_files(self._library, self._manifest.parts)
                self._manifest = msgspec.structs.replace(self._manifest, parts=parts)
            if changed or self._found.damaged:
                self._commit()
        except _SecondError:
            return None
        return msgspec.structs.replace(self._made, seconds=time.monotonic() - start, aside=tuple(self._aside))

    def _take_run(self, run: Path, known: Mapping[str, Ranges]) -> bool:
        kept, reason = described(run)
        if kept is None:
            return self._put_aside([Aside(path=f"{run.name}/run.json", offset=0, reason=reason)])
        changed = False
        while True:
            look = Pass(run, self._manifest.sources, known=known)
            if look.is_idle and self._manifest.runs.get(run.name) == kept:
                return changed
            parts = self._write(run, look)
            self._put_aside(look.asides())
            self._manifest = msgspec.structs.replace(
                self._manifest, parts=(*self._manifest.parts, *parts), runs={**self._manifest.runs, run.name: kept},
                sources={**self._manifest.sources, **look.standings()},
            )
            changed = True
            if self._is_due():
                self._commit()
            if not look.is_cut:
                return changed

    def _is_due(self) -> bool:
        return time.monotonic() - self._committed >= self._commit_seconds

    def _write(self, run: Path, look: Pass) -> list[Part]:
        local = LocalBlobs(run / "blobs")
        shelf = _Shelf(self._library, run.name)
        try:
            with _collector_at_rest():
                for attempt in look.attempts(lambda: shelf.attempts > 0 and self._is_due()):
                    self._bring(local, run, attempt)
                    shelf.put(attempt)
            parts = shelf.finish()
        except BaseException:
            shelf.abandon()
            raise
        self._made = msgspec.structs.replace(
            self._made, attempts=self._made.attempts + shelf.attempts, events=self._made.events + shelf.events,
            parts=self._made.parts + len(parts), bytes=self._made.bytes + sum(part.bytes for part in parts),
        )
        return parts

    def _bring(self, local: LocalBlobs, run: Path, attempt: Attempt) -> None:
        """The blobs of an attempt, so that it can be read when its run folder is gone. What the run itself has lost is
        named; a store that does not take one is an error, and the attempt is taken in next time."""
        for kept in attempt.kept:
            event, blobs, _ = kept.slim
            for digest in named_blobs(event, blobs) if blobs or isinstance(event, Graded) else ():
                if self._blobs.has(digest):
                    continue
                try:
                    content = local.get(digest)
                except HouseError as error:
                    self._put_aside([Aside(path=f"{run.name}/blobs", offset=0, reason=error.message)])
                else:
                    self._blobs.put(content)

    def _put_aside(self, found: Sequence[Aside]) -> bool:
        fresh = [aside for aside in found if aside not in self._manifest.aside]
        self._aside.extend(fresh)
        self._manifest = msgspec.structs.replace(self._manifest, aside=(*self._manifest.aside, *fresh))
        return bool(fresh)

    def _commit(self) -> None:
        """Raises _SecondError when another compactor was faster."""
        self._put_aside(self._found.damaged)
        made = publish(self._library, self._manifest, after=self._found.highest)
        if made is None:
            raise _SecondError
        self._manifest = made
        self._found = Found(made, (), made.number)
        self._committed = time.monotonic()


class _Shelf:
    """The rows of one run, sorted into its partitions."""

    def __init__(self, library: Path, run: str) -> None:
        self.attempts = self.events = 0
        self._library = library
        self._run = run
        self._rows: dict[Place, dict[str, list[Row]]] = {}
        self._writers: dict[Place, PartWriter] = {}
        self._parts: list[Part] = []
        self._held = 0

    def put(self, attempt: Attempt) -> None:
        rows = no_rows()
        day, kind = add_rows(rows, self._run, attempt)
        into = self._rows.setdefault(Place(self._run, day, kind), no_rows())
        for table, more in rows.items():
            into[table].extend(more)
        self.attempts += 1
        self.events += len(attempt.kept)
        self._held += len(attempt.kept)
        if self._held >= BATCH_EVENTS:
            self._flush()

    def finish(self) -> list[Part]:
        self._flush()
        for writer in self._writers.values():
            self._parts.extend(writer.finish())
        return self._parts

    def abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()

    def _flush(self) -> None:
        for place, rows in self._rows.items():
            writer = self._writers.setdefault(place, PartWriter(self._library, place))
            writer.add(rows)
            if writer.rows >= FILE_ROWS:
                self._parts.extend(writer.finish())
        self._rows = {}
        self._held = 0
        gc.collect(0)  # what others in this process left meanwhile


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Rows are many, live for one batch and form no cycles: looking through them for some took a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def described(run: Path) -> tuple[Kept | None, str]:
    """What a run folder says of itself, or why it cannot be read."""
    try:
        definition = msgspec.json.decode((run / "run.json").read_bytes(), type=Definition)
        result = run / "result.json"
        ended = msgspec.json.decode(result.read_bytes(), type=Result) if result.is_file() else None
    except (OSError, msgspec.MsgspecError) as error:
        return None, f"not what a run keeps there: {error}"
    noted = _noted(run / "surroundings.jsonl")
    if noted:
        definition = msgspec.structs.replace(definition, environment={**noted, **definition.environment})
    return Kept(definition=definition, result=ended), ""


def _noted(path: Path) -> dict[str, str]:
    """What was noted of the images that a run used (a Ledger of records with `image` and `facts`): digests and
    versions, by `IMAGE.FACT`. A line that is something else is passed over: it is a note, and not the truth."""
    found: dict[str, str] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            record = msgspec.json.decode(line, type=_NotedLine).record
        except msgspec.MsgspecError:
            continue
        found.update({f"{record.image}.{name}": value for name, value in record.facts.items()})
        found[f"{record.image}.verifier_build"] = record.verifier_build
    return found


def named_blobs(event: object, fields: Mapping[str, str]) -> Iterator[str]:
    """Every digest by which an event refers to bytes that lie elsewhere."""
    yield from fields.values()
    if isinstance(event, Graded):
        yield from (evidence.blob for evidence in event.verdict.evidence if evidence.blob)


def sweep_drafts(library: Path, *, older_than_seconds: float) -> int:
    """Remove what killed writers left of files that no manifest names; how many there were."""
    count = 0
    now = time.time()
    for path in (library / "drafts").glob("*.parquet"):
        try:
            if now - path.stat().st_mtime >= older_than_seconds:
                os.unlink(path)
                count += 1
        except FileNotFoundError:
            continue
    return count


def ranges_by_episode(rows: Iterator[tuple[str, int, int]]) -> dict[str, Ranges]:
    """From (episode, first index, last index) of attempts."""
    found: dict[str, list[tuple[int, int]]] = {}
    for episode, first, last in rows:
        found.setdefault(episode, []).append((first, last + 1))
    return {episode: merged(ranges) for episode, ranges in found.items()}
