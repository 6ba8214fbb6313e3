"""Rows of a JSONL file, found by id and decoded one at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from quintain.tasks.exam import Item
from quintain.tasks.names import check_id
from quintain.types import TaskError

#: A packed file is unpacked in memory; larger ones have to be unpacked on disk first.
MAX_UNPACKED_BYTES = 256 * 1024 * 1024

Row = TypeVar("Row")


class _Place(NamedTuple):
    number: int  # of the line, from 1
    offset: int
    size: int


class RowSource(Generic[Row]):
    """One task for each line of a `.jsonl` or `.jsonl.gz` file.

    `row` is the msgspec Struct that a line must fit, `id_of` its task id, `build` makes the item; SyntaxError and
    ValueError from `build` become a TaskError with file and line. The file is scanned once for ids and offsets; a plain
    file is then read by offset, a packed one is kept unpacked in memory.
    """

    def __init__(
        self, path: Path, row: type[Row], *, name: str, id_of: Callable[[Row], str], build: Callable[[Row], Item],
    ) -> None:
        self.name = name
        self._path = path
        self._decoder = msgspec.json.Decoder(row)
        self._id_of: Callable[[Row, int], str] = lambda row, number: id_of(row)
        self._build: Callable[[Row, str], Item] = lambda row, id: build(row)

    @classmethod
    def numbered(
        cls, path: Path, row: type[Row], *, name: str, id_of: Callable[[Row, int], str],
        build: Callable[[Row, str], Item],
    ) -> RowSource[Row]:
        """Rows that may have no id of their own: `id_of` is also given the number of the line, from 1, and `build` the
        id."""
        source = cls(path, row, name=name, id_of=lambda row: "", build=_never)
        source._id_of, source._build = id_of, build
        return source

    def ids(self) -> Sequence[str]:
        return tuple(self._places)

    def item(self, id: str) -> Item:
        place = self._places[id]
        if self._unpacked is not None:
            line = self._unpacked[place.offset:place.offset + place.size]
        else:
            with self._path.open("rb") as file:
                file.seek(place.offset)
                line = file.read(place.size)
        try:
            return self._build(self._decode(line, place.number), id)
        except TaskError as error:
            if error.file:
                raise
            raise self._error(error.message, place.number) from error
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the parser raises all four
            raise self._error(f"task {id!r} cannot be made: {error}", place.number) from error

    @cached_property
    def _unpacked(self) -> bytes | None:
        return unpack(self._path) if self._path.suffix == ".gz" else None

    @cached_property
    def _places(self) -> dict[str, _Place]:
        places: dict[str, _Place] = {}
        for place, line in self._lines():
            said = self._id_of(self._decode(line, place.number), place.number)
            id = check_id(said, file=str(self._path), line=place.number)
            if id in places:
                raise self._error(f"task id {id!r} was already used in line {places[id].number}", place.number)
            places[id] = place
        if not places:
            raise TaskError("expected one JSON object for each line, found no line", file=str(self._path))
        return places

    def _lines(self) -> Iterator[tuple[_Place, bytes]]:
        offset = 0
        for number, line in enumerate(read_lines(self._path, self._unpacked), start=1):
            if line.strip():
                yield _Place(number, offset, len(line)), line
            offset += len(line)

    def _decode(self, line: bytes, number: int) -> Row:
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._error(f"the row does not fit: {error}", number) from error

    def _error(self, message: str, number: int) -> TaskError:
        return TaskError(message, file=str(self._path), line=number)


def _never(row: object) -> Item:
    raise AssertionError("replaced by `numbered`")


def unpack(path: Path) -> bytes:
    """The content of a `.gz` file. Raises TaskError when it is no such file or larger than 256 MiB."""
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TaskError(f"expected a gzip file, found: {error}", file=str(path)) from error
    if len(content) > MAX_UNPACKED_BYTES:
        raise TaskError(f"expected at most {MAX_UNPACKED_BYTES} bytes unpacked: unpack it on disk", file=str(path))
    return content


def read_lines(path: Path, unpacked: bytes | None) -> Iterator[bytes]:
    """The lines of a file, line ends included (`\\n` only: JSON texts may hold other line separators)."""
    if unpacked is not None:
        start = 0
        while start < len(unpacked):
            end = unpacked.find(b"\n", start) + 1 or len(unpacked)
            yield unpacked[start:end]
            start = end
        return
    with path.open("rb") as file:
        yield from file


def has_keys(path: Path, *keys: str) -> bool:
    """Whether a path is a JSONL file whose first row has these keys."""
    if not path.is_file() or not path.name.endswith((".jsonl", ".jsonl.gz", ".json.gz", ".json")):
        return False
    try:
        with (gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            row = msgspec.json.decode(file.readline(16 * 1024 * 1024))
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, RecursionError):
        return False
    return isinstance(row, dict) and set(keys) <= row.keys()
