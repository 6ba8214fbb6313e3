"""One way to speak to SQLite and to PostgreSQL: the same statements, with `?` for values, in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from quintain.fleet._thread import open_database
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import psycopg

_Row = tuple[Any, ...]


class Session(Protocol):
    """For one thread. `types` are the database's own words for bytes and for a float of eight bytes; `alone` makes a
    transaction wait for others that say the same; `prelude` comes before tables are made."""

    types: Mapping[str, str]
    alone: str
    prelude: Sequence[str]
    errors: tuple[type[Exception], ...]

    def transaction(self) -> AbstractContextManager[None]: ...
    def ask(self, statement: str, values: Sequence[object] = ()) -> list[_Row]: ...
    def close(self) -> None: ...


class SqliteSession:
    types: Mapping[str, str] = {"bytes": "blob", "float": "real"}
    alone = "select 1"  # each is alone
    prelude: Sequence[str] = ()
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


_TIMEOUT_SECONDS = 15  # after which a server that is cut off is taken for lost, long before TCP would


class PostgresSession:
    """Connects again after a connection was lost: what was under way then has failed, and may be asked again. Of the
    URL, `schema=NAME` names where the tables are (default: the database's own); it is made where there is none."""

    types: Mapping[str, str] = {"bytes": "bytea", "float": "double precision"}
    alone = "select pg_advisory_xact_lock(7169746174)"  # tables cannot be made by two at once

    def __init__(self, url: str, where: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            wanted = f"{where}: expected the package psycopg, found none: pip install 'quintain[postgres]'"
            raise HouseError(FaultKind.STORE_ERROR, wanted) from error
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)
        self._url, schema = _with_search_path(url, where)
        self.prelude: Sequence[str] = (f"create schema if not exists {schema}",) if schema else ()
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
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=10, keepalives_idle=5, keepalives_interval=3,
                keepalives_count=3, tcp_user_timeout=1000 * _TIMEOUT_SECONDS,
            )
        return self._connection


def _with_search_path(url: str, where: str) -> tuple[str, str]:
    """The URL as the driver understands it, and the name of the schema, if it has one."""
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value.lower() for name, value in asked if name == "schema"), "")
    if not schema:
        return url, ""
    if not (schema.isascii() and schema.replace("_", "a").isalnum() and schema[0].isalpha()):
        raise HouseError(FaultKind.STORE_ERROR,
                         f"{where}: expected a schema of letters, digits and _, found {schema!r}")
    rest = [*(pair for pair in asked if pair[0] != "schema"), ("options", f"-c search_path={schema}")]
    return urlunsplit(parts._replace(query=urlencode(rest, quote_via=quote))), schema
