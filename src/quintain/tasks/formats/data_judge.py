"""Compares tables, and asks a query of a data base. It is laid beside the hidden tests of a data task; stdlib only.

Covers: a query runs in the verifier's process, on a data base in memory, as one statement that reads: an authoriser
refuses whatever else, and its steps and rows are bounded. An answer is compared as values, never by its own `==`.
Does not cover: a query that is slow without many steps of SQLite's machine.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence

MAX_STEPS = 20_000_000
MAX_ROWS = 100_000
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}  # 33: a recursive WITH
_REFUSED = {"load_extension", "randomblob", "zeroblob"}


def ask(query: object, tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]]) -> list[list[object]]:
    """The header and the rows of one reading statement on tables of name → (column declarations, rows). Raises
    AssertionError for what is no such statement."""
    assert type(query) is str and query.strip(), f"expected the text of a query, found {type(query).__name__}"
    base = sqlite3.connect(":memory:")
    for name, (columns, rows) in tables.items():
        base.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        base.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    base.commit()
    base.set_authorizer(_allowed)
    left = [MAX_STEPS // 10_000]

    def spent() -> int:
        left[0] -= 1
        return int(left[0] < 0)

    base.set_progress_handler(spent, 10_000)
    try:
        found = base.execute(query)
        assert found.description is not None, "expected a query with a result, found none"
        rows_found = found.fetchmany(MAX_ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise AssertionError(f"the query does not run: {error}") from None
    assert len(rows_found) <= MAX_ROWS, f"expected at most {MAX_ROWS} rows"
    return [[str(column[0]) for column in found.description], *(list(row) for row in rows_found)]


def _allowed(action: int, first: str | None, second: str | None, base: str | None, inner: str | None) -> int:
    if action not in _READS or (second or "").lower() in _REFUSED:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def same(found: object, expected: list[list[object]], *, ordered: bool, tolerance: float) -> None:
    """Whether a table (a header, then rows) is the expected one: the same columns in their order, as many rows, in
    order where that was asked for, text and whole numbers as they are, others within the tolerance (relative above 1).
    Raises AssertionError with the first place where they differ."""
    assert type(found) is list and found, f"expected a table as a list of rows, found {type(found).__name__}"
    rows = [_row(row, number) for number, row in enumerate(found)]
    assert rows[0] == expected[0], f"expected the columns {expected[0]}, found {rows[0]}"
    assert len(rows) == len(expected), f"expected {len(expected) - 1} rows, found {len(rows) - 1}"
    mine, theirs = (rows[1:], expected[1:]) if ordered else (sorted(rows[1:], key=_key), sorted(expected[1:], key=_key))
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
        assert len(one) == len(other), f"row {number}: expected {len(other)} values, found {len(one)}"
        for column, value, wanted in zip(expected[0], one, other, strict=True):
            assert _close(value, wanted, tolerance), f"row {number}, {column}: expected {wanted!r}, found {value!r}"


def _row(row: object, number: int) -> list[object]:
    assert type(row) in (list, tuple), f"expected row {number} as a list, found {type(row).__name__}"
    cells: list[object] = list(row)  # type: ignore[call-overload]
    for cell in cells:
        assert cell is None or type(cell) in (str, int, float, bool), f"row {number} holds a {type(cell).__name__}"
    return cells


def _key(row: Sequence[object]) -> list[tuple[int, float, str]]:
    """Text before numbers, so that rows are paired by what is exact; numbers by their size, roughly."""
    texts = [(0, 0.0, cell) if isinstance(cell, str) else (1, 0.0, "") for cell in row]
    numbers = [(2, round(float(cell), 4), "") for cell in row if isinstance(cell, int | float)]
    return [*texts, *numbers]


def _close(found: object, wanted: object, tolerance: float) -> bool:
    if isinstance(wanted, float) and type(found) in (int, float):
        number = float(found)  # type: ignore[arg-type]
        return math.isfinite(number) and abs(number - wanted) <= tolerance * max(1.0, abs(wanted))
    if isinstance(wanted, int) and isinstance(found, float):
        return type(wanted) is int and found == wanted
    return type(found) is type(wanted) and found == wanted
