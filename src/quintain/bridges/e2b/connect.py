"""The Connect protocol with JSON, from the side of the server: errors, envelopes of streams. Pure.

After https://connectrpc.com/docs/protocol. Messages follow protobuf's JSON: bytes are base64, 64-bit numbers are texts.
"""

from __future__ import annotations

import struct

import msgspec

STREAM = "application/connect+json"
_HEAD = struct.Struct(">BI")
_END = 2
_STATUS = {
    "invalid_argument": 400, "failed_precondition": 400, "out_of_range": 400, "unauthenticated": 401,
    "permission_denied": 403, "not_found": 404, "already_exists": 409, "resource_exhausted": 429, "internal": 500,
    "unimplemented": 501, "unavailable": 503, "deadline_exceeded": 504,
}


class ConnectError(Exception):
    """A call that fails. `code` is one of Connect's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status of a call that has no stream."""
        return _STATUS[self.code]

    def content(self) -> bytes:
        return msgspec.json.encode({"code": self.code, "message": str(self)})


def envelope(message: object) -> bytes:
    """One message of a stream."""
    content = msgspec.json.encode(message)
    return _HEAD.pack(0, len(content)) + content


def ending(error: ConnectError | None = None) -> bytes:
    """The end of a stream, good or bad."""
    told = {} if error is None else {"error": {"code": error.code, "message": str(error)}}
    content = msgspec.json.encode(told)
    return _HEAD.pack(_END, len(content)) + content


class Envelopes:
    """Messages of a stream that comes in, whole as soon as their bytes are there."""

    def __init__(self, most_bytes: int) -> None:
        self._held = bytearray()
        self._most = most_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Raises ConnectError for a message that is compressed, or too large."""
        self._held += data
        found: list[bytes] = []
        while len(self._held) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(self._held)
            if flags & ~_END:
                raise ConnectError("invalid_argument", f"expected messages without compression, found flags {flags}")
            if size > self._most:
                raise ConnectError("resource_exhausted", f"expected at most {self._most} bytes, found {size}")
            if len(self._held) < _HEAD.size + size:
                break
            if not flags & _END:
                found.append(bytes(self._held[_HEAD.size : _HEAD.size + size]))
            del self._held[: _HEAD.size + size]
        return found


def single(body: bytes) -> bytes:
    """The one message of a call that is answered by a stream. Raises ConnectError for none, or several."""
    found = Envelopes(len(body)).feed(body)
    if len(found) != 1:
        raise ConnectError("invalid_argument", f"expected one message, found {len(found)}")
    return found[0]


def seconds_of(header: str | None) -> float | None:
    """`Connect-Timeout-Ms` in seconds. Raises ConnectError for what is no number."""
    if not header:
        return None
    if not header.isascii() or not header.isdigit() or len(header) > 10:
        raise ConnectError("invalid_argument", f"expected connect-timeout-ms as a number, found {header[:20]!r}")
    return int(header) / 1000
