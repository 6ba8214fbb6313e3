"""Frames between the verifier and the candidate: a length, then JSON; and how one of them may fail to arrive.

Covers: the size of a frame and of all frames together, nesting, deadlines, numbers that are no integers.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

MAX_FRAME_BYTES = 4 * 1024 * 1024
MAX_TOTAL_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 60
MAX_NODES = 4_000_000


class Gone(BaseException):
    """There is nothing to talk to any more. `why`: 'hung', 'exited', 'forged' or 'flood'. No test can catch it as an
    Exception; and it is remembered, so that catching it does not help."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(why, text)
        self.why = why
        self.text = text

    def __str__(self) -> str:
        return self.text


class WrongType(TypeError):
    """A value that cannot cross, or that may not be asked what a plain value would be asked."""


class _Exact:
    """What the scanner of the json module asks of its owner: only integers, strings and constants are let in."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_int = int

    @staticmethod
    def parse_float(text: str) -> float:
        raise ValueError(f"expected an integer, found {text[:40]}")

    parse_constant = parse_float


def _load_codec() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """Reading and writing JSON. Importing json costs 10 ms, for its regular expressions; its C parts cost nothing."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Exact())  # type: ignore[arg-type]
        nothing: Any = None
        encode = make_encoder({}, nothing, encode_basestring_ascii, nothing, ":", ",", False, False, False)

        def read(text: str) -> Any:
            try:
                value, end = scan(text, 0)
            except StopIteration:
                raise ValueError("expected JSON") from None
            if end != len(text):
                raise ValueError("expected one JSON value, found more")
            return value

        def write(value: Any) -> str:
            return "".join(encode(value, 0))

        if read(write([1, "a", None, True])) == [1, "a", None, True]:
            return read, write
    except (ImportError, TypeError, ValueError):
        pass
    import json

    return lambda text: json.loads(text, parse_float=_Exact.parse_float), lambda v: json.dumps(v, separators=(",", ":"))


read_json, write_json = _load_codec()


class Pipe:
    """One end of the socket. `deadline` (seconds of time.monotonic) is when waiting ends; `None` waits for ever."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.deadline: float | None = None
        self.received_bytes = 0
        self._poll = select.poll()
        os.set_blocking(fd, False)

    def _wait(self, event: int) -> None:
        self._poll.register(self.fd, event)
        while True:
            left = None if self.deadline is None else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Gone("hung", "the candidate did not answer in time")
            if self._poll.poll(None if left is None else left * 1000 + 1):
                return

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = os.read(self.fd, min(count - len(data), 1 << 20))
            except BlockingIOError:
                self._wait(select.POLLIN)
                continue
            except OSError:
                chunk = b""
            if not chunk:
                raise Gone("exited", "the candidate's process ended")
            data += chunk
        return bytes(data)

    def receive(self) -> Any:
        """The next message. Raises Gone."""
        if self.deadline is not None and time.monotonic() > self.deadline:  # whoever talks all the time is late as well
            raise Gone("hung", "the candidate did not answer in time")
        size = int.from_bytes(self._read(4), "big")
        if size > MAX_FRAME_BYTES:
            raise Gone("forged", f"expected a frame of at most {MAX_FRAME_BYTES} bytes, found {size}")
        self.received_bytes += size
        if self.received_bytes > MAX_TOTAL_BYTES:
            raise Gone("flood", f"more than {MAX_TOTAL_BYTES} bytes came from the candidate")
        data = self._read(size)
        try:
            return read_json(data.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise Gone("forged", f"a frame that is not of the protocol: {type(error).__name__}") from None

    def send(self, message: Any) -> None:
        """Raises WrongType for a message that is too large, Gone when nobody listens."""
        data = write_json(message).encode("ascii")
        if len(data) > MAX_FRAME_BYTES:
            raise WrongType(f"a value of {len(data)} bytes is too large to cross: at most {MAX_FRAME_BYTES}")
        view = memoryview(len(data).to_bytes(4, "big") + data)
        while view:
            try:
                view = view[os.write(self.fd, view):]
            except BlockingIOError:
                self._wait(select.POLLOUT)
            except OSError:
                raise Gone("exited", "the candidate's process ended") from None
