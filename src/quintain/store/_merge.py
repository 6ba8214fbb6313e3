"""Many small Parquet files of one partition made into one, so that a library that is compacted often stays fast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from quintain.store._manifest import Part, without
from quintain.store._parts import PartWriter, Place, part_is_whole, sorted_by
from quintain.store._schema import lifted

#: So many small files of a table and partition are left; one more, and they become one.
FEW = 12
#: Beyond it a file is left as it is.
SMALL_BYTES = 8 << 20


def merged(library: Path, parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same rows in fewer files. The new ones are on the disk; the old ones stay there for whoever reads by an older
    manifest, until gc removes what no manifest names. What is damaged is left alone."""
    made = tuple(parts)
    small = sorted((part for part in parts if part.bytes < SMALL_BYTES), key=_partition)
    for (table, run, day, kind), group in groupby(small, key=_partition):
        chosen = [part for part in group if not part_is_whole(library, part)]
        if len(chosen) > FEW:
            fresh = _as_one(library, table, Place(run, day, kind), chosen)
            if fresh:
                made = (*without(made, chosen), *fresh)
    return made


def _partition(part: Part) -> tuple[str, str, str, str]:
    return part.table, part.run, part.day, part.kind


def _as_one(library: Path, table: str, place: Place, parts: Sequence[Part]) -> list[Part]:
    """Nothing when one of them cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        content = pyarrow.concat_tables([
            lifted(table, pyarrow.parquet.ParquetFile(library / part.path, page_checksum_verification=True).read())
            for part in parts])
    except (OSError, pyarrow.ArrowException):
        return []
    writer = PartWriter(library, place)
    try:
        writer.add_table(table, content.sort_by([(name, "ascending") for name in sorted_by(table)]))
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise
