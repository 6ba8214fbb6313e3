"""An append-only file of records that several processes write by turns."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from quintain.types import FaultKind, HouseError

T = TypeVar("T")

_HEAD = b'{"crc":"'
_BODY_AT = len(_HEAD) + 8 + 2  # after the digits, the quote and the comma


class Ledger(Generic[T]):
    """Records of one kind in `path`, one checked line of JSON each: `{"crc":"89abcdef","record":{…}}`.

    `change` reads everything, decides, and appends under one lock, so that what was decided is still true when it is
    written: two processes never take the same thing. A torn last line (its writer died) is moved to `path` + `.torn`
    by the next writer and overlooked by readers. Damage with whole lines after it is HouseError(STORE_ERROR) with the
    number of the line. `kind` is what msgspec decodes: a Struct, or a union of tagged ones.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    def read(self) -> tuple[T, ...]:
        """All whole records in order; none where there is no file."""
        return self._parsed(self._content())[0]

    def change(self, decide: Callable[[Sequence[T]], Sequence[T]]) -> tuple[T, ...]:
        """Append what `decide` makes of all records so far, and return it. What `decide` raises is raised, and nothing
        is written."""
        with self._locked() as file:
            content = self._content()
            records, whole = self._parsed(content)
            made = tuple(decide(records))
            if whole < len(content):
                self._set_aside(content[whole:])
                file.truncate(whole)
            lines = b"".join(self._line(record) for record in made)
            try:
                written = file.write(lines)
                if written != len(lines):
                    raise OSError(f"only {written} of {len(lines)} bytes could be written")
                os.fsync(file.fileno())
            except OSError as error:
                file.truncate(whole)
                raise self._error(f"cannot append: {error}") from None
            return made

    @contextmanager
    def _locked(self) -> Iterator[FileIO]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            stream = self._path.open("ab", buffering=0)
        except OSError as error:
            raise self._error(f"cannot open: {error.strerror}") from None
        with stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._error(f"cannot read: {error.strerror}") from None

    def _parsed(self, content: bytes) -> tuple[tuple[T, ...], int]:
        """The whole records, and where the last of them ends."""
        records: list[T] = []
        end = 0
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            record = self._record(line, number) if line.endswith(b"\n") else None
            if record is None:
                if any(self._record(later, 0) is not None for later in content[end + len(line):].splitlines(True)):
                    raise self._error(f"line {number}: expected a whole record, found damage with whole ones after it")
                break
            records.append(record)
            end += len(line)
        return tuple(records), end

    def _record(self, line: bytes, number: int) -> T | None:
        """None for a line that is not whole. Raises HouseError for a whole one in other words than ours."""
        body = line.rstrip(b"\n")
        if not body.startswith(_HEAD) or body[_BODY_AT - 2:_BODY_AT] != b'",':
            return None
        record = b"{" + body[_BODY_AT:]
        if body[len(_HEAD):len(_HEAD) + 8] != b"%08x" % zlib.crc32(record):
            return None
        try:
            return self._decoder.decode(msgspec.json.decode(record, type=dict[str, msgspec.Raw])["record"])
        except (KeyError, msgspec.MsgspecError) as error:
            raise self._error(f"line {number}: a record that this version cannot read: {error}") from None

    def _line(self, record: T) -> bytes:
        body = msgspec.json.encode({"record": record})
        return _HEAD + b"%08x" % zlib.crc32(body) + b'",' + body[1:] + b"\n"

    def _set_aside(self, torn: bytes) -> None:
        with self._path.with_name(self._path.name + ".torn").open("ab") as aside:
            aside.write(torn)

    def _error(self, message: str) -> HouseError:
        return HouseError(FaultKind.STORE_ERROR, f"{self._path}: {message}")
