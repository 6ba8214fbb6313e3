"""One way to speak to SQLite and to PostgreSQL: the same statements, with `?` for values, in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quintain.fleet._thread import open_database
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import psycopg

_Row = tuple[Any, ...]


class Session(Protocol):
    """For one thread. `types` are the database's own words for bytes and for a float of eight bytes; `alone` makes a
    transaction wait for others that say the same."""

    types: Mapping[str, str]
    alone: str
    errors: tuple[type[Exception], ...]

    def transaction(self) -> AbstractContextManager[None]: ...
    def ask(self, statement: str, values: Sequence[object] = ()) -> list[_Row]: ...
    def close(self) -> None: ...


class SqliteSession:
    types: Mapping[str, str] = {"bytes": "blob", "float": "real"}
    alone = "select 1"  # each is alone
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path, *, power_safe: bool) -> None:
        self._db = open_database(path, power_safe=power_safe)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def ask(self, statement: str, values: Sequence[object] = ()) -> list[_Row]:
        return self._db.execute(statement, tuple(values)).fetchall()

    def close(self) -> None:
        self._db.close()


class PostgresSession:
    """Connects again after a connection was lost: what was under way then has failed, and may be asked again."""

    types: Mapping[str, str] = {"bytes": "bytea", "float": "double precision"}
    alone = "select pg_advisory_xact_lock(7169746174)"  # tables cannot be made by two at once

    def __init__(self, url: str, where: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            wanted = f"{where}: expected the package psycopg, found none: pip install 'quintain[postgres]'"
            raise HouseError(FaultKind.STORE_ERROR, wanted) from error
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)
        self._url = url
        self._connection: psycopg.Connection[_Row] | None = None
        self._connected()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._connected().transaction():
            yield

    def ask(self, statement: str, values: Sequence[object] = ()) -> list[_Row]:
        # the statements are this package's own, never made of what somebody gave
        found = self._connected().execute(statement.replace("?", "%s").encode(), tuple(values))
        return found.fetchall() if found.description is not None else []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> psycopg.Connection[_Row]:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        return self._connection
