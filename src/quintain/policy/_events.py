"""Server-sent events as they come over a line. Pure."""

from __future__ import annotations

#: An event longer than this is no event of a chat completion.
MOST_BYTES = 4 * 1024 * 1024


class EventStream:
    """Bytes in any pieces go in, the `data` of whole events comes out (WHATWG HTML §9.2.6: lines end in LF, CRLF or
    CR, several data lines are joined by LF, comments and other fields are passed over).

    Raises ValueError for bytes that are no UTF-8, and for an event above MOST_BYTES.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """The events that this piece completes."""
        text = self._rest + piece
        # a CR at the very end may be half of a CRLF: leave it for the next piece
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + held
        if len(self._rest) + self._size > MOST_BYTES:
            raise ValueError(f"expected events of at most {MOST_BYTES} bytes, found a longer one")
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> str | None:
        if not line:
            event = "\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._size += len(value)
            self._data.append(value.removeprefix(b" ").decode("utf-8"))
        return None
