"""Rows to Parquet files that are named by their content, and back."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from quintain.store._manifest import Part, sync_folder
from quintain.store._rows import Row
from quintain.store._schema import SCHEMA, TABLES, arrow_schema, names
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow

#: Rows of a row group: few enough that one episode is found without unpacking much.
GROUP_ROWS = {"episodes": 4_096, "steps": 1_024, "events": 4_096}
#: A file ends at the first batch beyond so many rows.
FILE_ROWS = 2_000_000
DRAFTS = "drafts"

_SORTED_BY = {"episodes": "episode attempt", "steps": "episode attempt step", "scores": "episode attempt step",
              "flags": "episode attempt step", "events": "episode index"}
_UNLIKE = {"text", "stdout", "stderr", "program", "body", "prompt_token_ids", "output_token_ids", "logprobs",
           "state_hash", "mean_logprob", "at_seconds", "seconds", "wall_seconds", "cpu_seconds", "feedback",
           "reasoning"}

#: By what a look-up passes over row groups. A question reads the least and greatest of every such column, of all row
#: groups, before it begins: for all 39 columns of a million steps that took longer than the look-up.
_SOUGHT = {"run", "day", "kind", "episode", "task"}


class Place(NamedTuple):
    """A partition: rows of one run, day and kind of work."""

    run: str
    day: str
    kind: str

    def path(self, table: str) -> str:
        return f"parts/{table}/run={quote(self.run, safe='')}/day={self.day}/kind={quote(self.kind, safe='') or '_'}"


def need_arrow() -> None:
    """Raises HouseError(STORE_ERROR) where the extra is missing, naming what to install."""
    try:
        import duckdb  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"the library needs pip install 'quintain[library]': {error}")


def table_of(table: str, rows: Sequence[Row]) -> pyarrow.Table:
    """Rows as an Arrow table; text that UTF-8 cannot carry (a lone surrogate) shows `?` there."""
    import pyarrow

    schema = arrow_schema(table)
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def sorted_by(table: str) -> tuple[str, ...]:
    """The columns by which the rows of a file are in order, batch by batch."""
    return tuple(_SORTED_BY[table].split())


class PartWriter:
    """One Parquet file for each table of a partition, written batch by batch beside its place."""

    def __init__(self, library: Path, place: Place) -> None:
        self.place = place
        self.rows = 0
        self._library = library
        self._open: dict[str, tuple[Path, Any, int]] = {}

    def add(self, rows: dict[str, list[Row]]) -> None:
        for table in TABLES:
            if rows[table]:
                keys = itemgetter(*(names(table).index(name) for name in sorted_by(table)))
                self.add_table(table, table_of(table, sorted(rows[table], key=keys)))

    def add_table(self, table: str, content: pyarrow.Table) -> None:
        draft, writer, count = self._open[table] if table in self._open else (*self._start(table), 0)
        writer.write_table(content, row_group_size=GROUP_ROWS.get(table, 16_384))
        self._open[table] = (draft, writer, count + content.num_rows)
        self.rows = max(self.rows, count + content.num_rows)

    def finish(self) -> list[Part]:
        """The files at their places, on the disk."""
        parts = []
        for table, (draft, writer, count) in self._open.items():
            writer.close()
            parts.append(self._settle(table, draft, count))
        self._open = {}
        self.rows = 0
        return parts

    def abandon(self) -> None:
        for draft, writer, _ in self._open.values():
            writer.close()
            draft.unlink(missing_ok=True)

    def _start(self, table: str) -> tuple[Path, Any]:
        import pyarrow.parquet

        schema = arrow_schema(table)
        plain = [f"{f.name}.list.element" if f.name.endswith(("_ids", "logprobs")) else f.name
                 for f in schema if f.name in _UNLIKE]
        every = [f"{f.name}.list.element" if str(f.type).startswith("list") else f.name for f in schema]
        draft = self._library / DRAFTS / f"{os.getpid()}-{secrets.token_hex(6)}.parquet"
        try:
            draft.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{draft.parent}: cannot create: {error.strerror}")
        # a filter for the episodes of one row group: by default it is made for a million, which took half of the time
        bloom = {"episode": {"ndv": GROUP_ROWS.get(table, 16_384), "fpp": 0.01}}
        writer = pyarrow.parquet.ParquetWriter(
            draft, schema, compression="zstd", compression_level=1, write_page_checksum=True,
            use_dictionary=[name for name in every if name not in plain], bloom_filter_options=bloom,
            write_statistics=[field.name for field in schema if field.name in _SOUGHT],
        )
        return draft, writer

    def _settle(self, table: str, draft: Path, rows: int) -> Part:
        with draft.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            os.fsync(stream.fileno())
        relative = f"{self.place.path(table)}/{digest[:24]}.parquet"
        path = self._library / relative
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(draft, path)
            sync_folder(path.parent)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot write: {error}")
        return Part(
            table=table, run=self.place.run, day=self.place.day, kind=self.place.kind, path=relative, rows=rows,
            bytes=path.stat().st_size, sha256=digest, schema=SCHEMA,
        )


def part_is_whole(library: Path, part: Part, *, content: bool = False) -> str:
    """What is wrong with a file, in words; empty when nothing is. `content`: all of it is read."""
    path = library / part.path
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != part.bytes:
                return f"expected {part.bytes} bytes, found {size}"
            if content:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
                if found != part.sha256:
                    return f"expected content of sha256 {part.sha256}, found {found}"
    except OSError as error:
        return f"cannot read: {error.strerror}"
    return ""


def _array(values: Sequence[Any], kind: Any) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values, type=kind)
    except UnicodeEncodeError:
        return pyarrow.array([_sayable(value) for value in values], type=kind)


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return tuple(map(_sayable, value)) if isinstance(value, tuple | list) else value
