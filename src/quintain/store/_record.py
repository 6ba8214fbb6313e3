"""One event as one line of text, and back: exact, or refused at write time. Pure.

A line is a JSON object that any JSON reader can read, `{"crc":"89abcdef","event":{…},"blobs":{…}}`: `crc` is the CRC-32
of the line without its crc member, `blobs` names the big byte fields that lie in the blob store instead.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from quintain.store.base import Blobs
from quintain.types import Built, Event, FaultKind, HouseError, Ran

#: Byte fields above this size go to the blob store.
INLINE_BYTES = 16 * 1024

_HEAD = b'{"crc":"'
_EVENT = b'{"event":'
_BODY_AT = len(_HEAD) + 8 + 2  # after the digits, the quote and the comma


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    event: Event
    blobs: dict[str, str] = {}


class _Key(msgspec.Struct, frozen=True, kw_only=True):
    """What an index needs of any event; the rest of the line is skipped unread."""

    episode: str
    index: int


class _KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    event: _Key


_records = msgspec.json.Decoder(_Record)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_keys = msgspec.json.Decoder(_KeyRecord)


class Where(NamedTuple):
    """Whose event a line holds, and which of its episode (the event's index)."""

    episode: str
    nth: int


def encode(event: Event, blobs: Blobs) -> bytes:
    """The line of an event, newline included. Raises HouseError(STORE_ERROR) as `encode_body` does."""
    body = encode_body(event, blobs)
    return _HEAD + b"%08x" % zlib.crc32(body) + b'",' + body[1:] + b"\n"


def encode_body(event: Event, blobs: Blobs) -> bytes:
    """The record of an event as JSON without a check sum. Raises HouseError(STORE_ERROR) for what would not read back
    equal: a number that is not finite, halves of a surrogate pair that JSON would join."""
    slim, moved = _spill(event)
    record = _Record(event=slim, blobs={field: blobs.put(content) for field, content in moved.items()})
    try:
        body = _dump(record)
        back = _load(body)
    except (ValueError, OverflowError, TypeError, msgspec.MsgspecError) as error:
        raise _refused(event, str(error))
    if back != record:
        raise _refused(event, "it does not read back equal")
    return body


def is_whole(line: bytes) -> bool:
    """Whether a line (without its newline) is a record exactly as it was written."""
    body = _body(line)
    return body is not None and line[len(_HEAD):len(_HEAD) + 8] == b"%08x" % zlib.crc32(body)


def where(line: bytes) -> Where:
    """Whose event a whole line holds."""
    body = _body(line) or b""
    try:
        key = _keys.decode(body).event
    except (msgspec.MsgspecError, UnicodeError):  # a lone surrogate in it
        key = msgspec.convert(json.loads(body), _KeyRecord).event
    return Where(key.episode, key.index)


def decode(line: bytes, blobs: Blobs) -> Event:
    """The event of a whole line. Raises HouseError(STORE_ERROR) for one written by other words than ours, and for a
    blob that is not there."""
    slim = decode_body(_body(line) or b"")
    return fill(slim.event, slim.blobs, blobs)


class Slim(NamedTuple):
    """An event whose big byte fields are empty: `blobs` names them, `text` is the event as it was written."""

    event: Event
    blobs: dict[str, str]
    text: bytes


def body_of(line: bytes) -> bytes:
    """The record of a whole line, without its check sum."""
    return _body(line) or b""


def decode_body(body: bytes) -> Slim:
    """Raises HouseError(STORE_ERROR) for a record written by other words than ours."""
    try:
        record = _load(body)
        end = body.rfind(b',"blobs":{') if record.blobs else len(body) - 1  # raw quotes: it is not within a string
        return Slim(record.event, record.blobs, body[len(_EVENT):end])
    except (ValueError, msgspec.MsgspecError) as error:
        raise HouseError(FaultKind.STORE_ERROR, f"a record that this version cannot read: {error}")


def decode_event(text: bytes) -> Event:
    """The event that a `Slim.text` holds, its big fields still empty. Raises HouseError(STORE_ERROR)."""
    try:
        return _load_event(text)
    except (ValueError, msgspec.MsgspecError) as error:
        raise HouseError(FaultKind.STORE_ERROR, f"a record that this version cannot read: {error}")


def fill(event: Event, named: Mapping[str, str], blobs: Blobs) -> Event:
    """The event with its big fields. Raises HouseError(STORE_ERROR) for a blob that is not there."""
    return _restore(event, {field: blobs.get(digest) for field, digest in named.items()})


def _body(line: bytes) -> bytes | None:
    if not line.startswith(_HEAD) or line[_BODY_AT - 2:_BODY_AT] != b'",':
        return None
    return b"{" + line[_BODY_AT:]


def _dump(record: _Record) -> bytes:
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:  # a lone surrogate: as a \u escape, which is JSON though no UTF-8
        return json.dumps(msgspec.to_builtins(record), separators=(",", ":"), allow_nan=False).encode("ascii")


def _load(body: bytes) -> _Record:
    try:
        return _records.decode(body)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.convert(json.loads(body), _Record)


def _load_event(text: bytes) -> Event:
    try:
        return _events.decode(text)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate in it
        event: Event = msgspec.convert(json.loads(text), Event)
        return event


def _refused(event: Event, reason: str) -> HouseError:
    name = type(event).__name__
    return HouseError(
        FaultKind.STORE_ERROR, f"{event.episode}: event {event.index} ({name}) cannot be kept exactly: {reason}",
    )


def _spill(event: Event) -> tuple[Event, dict[str, bytes]]:
    """The event without its big byte fields, and those fields."""
    fields = {name: content for name, content in _byte_fields(event).items() if len(content) > INLINE_BYTES}
    return (_restore(event, dict.fromkeys(fields, b"")), fields) if fields else (event, fields)


def _byte_fields(event: Event) -> dict[str, bytes]:
    if isinstance(event, Built):
        files = {f"file:{path}": content for path, content in event.program.files.items()}
        return {"stdin": event.program.stdin, **files}
    if isinstance(event, Ran) and event.outcome is not None:
        return {"stdout": event.outcome.stdout, "stderr": event.outcome.stderr}
    return {}


def _restore(event: Event, fields: dict[str, bytes]) -> Event:
    if not fields:
        return event
    replace = msgspec.structs.replace
    if isinstance(event, Built):
        files = {path: fields.get(f"file:{path}", content) for path, content in event.program.files.items()}
        stdin = fields.get("stdin", event.program.stdin)
        return replace(event, program=replace(event.program, files=files, stdin=stdin))
    if isinstance(event, Ran) and event.outcome is not None:
        return replace(event, outcome=replace(event.outcome, **fields))
    raise HouseError(FaultKind.STORE_ERROR, f"{type(event).__name__} has no byte fields, found {sorted(fields)}")
