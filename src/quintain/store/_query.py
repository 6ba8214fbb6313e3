"""SQL over a library and the tails of its journals, in a DuckDB that can reach nothing else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quintain.store._manifest import Kept, Part
from quintain.store._parts import need_arrow, table_of
from quintain.store._rows import Row
from quintain.store._schema import TABLES, arrow_schema, as_today
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow

_LOCKED = {
    "autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "custom_user_agent": "quintain",
}


class Questions:
    """One connection with the views `runs`, `episodes`, `steps`, `scores`, `flags` and `events` of a library, which
    `ask` renews. It reads the library's files and nothing else: no other file, no network, no extension. Threads take
    turns."""

    def __init__(self, library: Path) -> None:
        need_arrow()
        import duckdb

        self._library = library
        self._mutex = threading.Lock()
        self._views: dict[str, tuple[str, ...]] = {}
        self._at: Any = duckdb.connect(":memory:", config=_LOCKED)
        self._at.execute(f"SET allowed_directories = [{_text(str(library.resolve()))}]")
        self._at.execute("SET enable_external_access = false")
        self._at.execute("SET parquet_metadata_cache = true")
        self._at.execute("SET lock_configuration = true")

    def ask(
        self, sql: str, parameters: Sequence[object], *, parts: Iterable[Part], tail: Mapping[str, Sequence[Row]],
        runs: Mapping[str, Kept],
    ) -> pyarrow.Table:
        """The answer of one SELECT. Raises HouseError(STORE_ERROR) for anything else, with DuckDB's own words."""
        import duckdb

        words = set(re.findall(r"[a-z_]+", sql.lower()))
        with self._mutex:
            try:
                statements = self._at.extract_statements(sql)
                kinds = [statement.type.name for statement in statements]
                if len(kinds) != 1 or kinds[0] not in ("SELECT", "EXPLAIN"):
                    found = ", ".join(kinds) or "nothing"
                    raise HouseError(FaultKind.STORE_ERROR, f"expected one SELECT, found {found}: {sql[:200]}")
                for table in words.intersection(TABLES):
                    self._view(table, [part for part in parts if part.table == table], tail.get(table, ()))
                if "runs" in words:
                    self._at.register("runs", _runs_table(runs))
                return self._at.sql(sql, params=list(parameters)).to_arrow_table()
            except duckdb.Error as error:
                raise HouseError(FaultKind.STORE_ERROR, f"{error}")

    def _view(self, table: str, parts: Sequence[Part], tail: Sequence[Row]) -> None:
        paths = tuple(part.path for part in parts)
        if self._views.get(table) == paths and not tail:
            return
        sources = [f"SELECT * FROM tail_{table}"] if tail or not parts else []
        for version in sorted({part.schema for part in parts}):
            files = [_text(str((self._library / part.path).resolve())) for part in parts if part.schema == version]
            what = as_today(table, version)
            sources.append(f"SELECT {what} FROM read_parquet([{', '.join(files)}], hive_partitioning = false)")
        self._at.register(f"tail_{table}", table_of(table, tail))
        self._at.execute(f"CREATE OR REPLACE VIEW {table} AS {' UNION ALL BY NAME '.join(sources)}")
        self._views[table] = () if tail else paths


def _runs_table(runs: Mapping[str, Kept]) -> pyarrow.Table:
    import pyarrow

    rows = []
    for name, kept in sorted(runs.items()):
        asked, came = kept.definition, kept.result
        rows.append((
            name, asked.taskset, asked.taskset_digest, asked.policy, asked.size, asked.seed, asked.sandboxes,
            asked.backend, asked.code_version, asked.created_unix_seconds, _json(asked.options),
            _json(asked.environment), came is not None, came.episodes if came else None,
            came.solved if came else None, came.reward if came else None, came.seconds if came else None,
        ))
    schema = arrow_schema("runs")
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pyarrow.Table.from_arrays(
        [pyarrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _json(value: Mapping[str, str]) -> str:
    return msgspec.json.encode(value).decode()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
