"""One episode's rows, read where they lie: no question is planned over all files for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quintain.store._manifest import Part
from quintain.store._schema import lifted
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow

_Range = tuple[str, str] | None
#: Of so many files what their footers say is kept.
_MOST = 4_096


class Places:
    """In which row groups of a library's files an episode can be. What was read of a file's footer is kept: files are
    named by their content."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._ranges: dict[str, tuple[_Range, ...]] = {}

    def rows(
        self, parts: Iterable[Part], episode: str, columns: Sequence[str] = (), *, passing_over: bool = False,
    ) -> list[pyarrow.Table]:
        """The rows of an episode in files of one table, as today's; all columns where none is named. Raises
        HouseError(STORE_ERROR) for a file that cannot be read where the episode can be, unless `passing_over` it."""
        import pyarrow

        found = []
        for part in parts:
            try:
                if groups := [number for number, range in enumerate(self._of(part)) if _can_be(range, episode)]:
                    found += [rows for rows in self._read(part, groups, episode, columns) if rows.num_rows]
            except (OSError, pyarrow.ArrowException) as error:
                if not passing_over:
                    why = f"{self._library / part.path}: cannot be read (see quintain library verify): {error}"
                    raise HouseError(FaultKind.STORE_ERROR, why) from None
        return found

    def _read(
        self, part: Part, groups: Sequence[int], episode: str, columns: Sequence[str],
    ) -> Iterable[pyarrow.Table]:
        import pyarrow.compute

        with _opened(self._library / part.path) as file:
            for number in groups:
                mask = pyarrow.compute.equal(file.read_row_group(number, columns=["episode"])["episode"], episode)
                if pyarrow.compute.any(mask).as_py():
                    found = file.read_row_group(number, columns=list(columns) or None).filter(mask)
                    yield found if columns else lifted(part.table, found)

    def _of(self, part: Part) -> tuple[_Range, ...]:
        kept = self._ranges.get(part.path)
        if kept is None:
            if len(self._ranges) >= _MOST:
                self._ranges.clear()
            with _opened(self._library / part.path) as file:
                at = file.schema_arrow.names.index("episode")
                groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
                kept = self._ranges[part.path] = tuple(_range(group.column(at).statistics) for group in groups)
        return kept


def _opened(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)


def _range(statistics: Any) -> _Range:
    """The least and greatest id of a row group; None where it is not told."""
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def _can_be(range: _Range, episode: str) -> bool:
    return range is None or range[0] <= episode <= range[1]
