"""Output kept within a bound: all of it, or the first and the last half."""

from __future__ import annotations

from collections import deque


class Retained:
    """Keeps at most `limit_bytes` of what is added."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_room = (limit_bytes + 1) // 2
        self._tail_room = limit_bytes - self._head_room
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def add(self, data: bytes) -> None:
        if self._head_room:
            first, data = data[: self._head_room], data[self._head_room :]
            self._head.append(first)
            self._head_room -= len(first)
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes > self._tail_room:
            surplus = self._tail_bytes - self._tail_room
            oldest = self._tail.popleft()
            if len(oldest) > surplus:
                self._tail.appendleft(oldest[surplus:])
            self._tail_bytes -= min(len(oldest), surplus)

    def value(self) -> bytes:
        return b"".join((*self._head, *self._tail))
