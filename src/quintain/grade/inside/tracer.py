"""Follows the candidate's code, inside its own process, and writes down what each test made it do.

One line for each fact, when a test first makes it true: "TEST<tab>PATH<tab>LINE" for a line that ran, and
"TEST<tab>PATH<tab>LINE<tab>COLUMN<tab>END<tab>WAY" for a way that a decision went. It works by `sys.settrace`, on
every Python from 3.11 on. The candidate shares the process and could write the same: this is no evidence that anything
is right.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from quintain.grade.inside.points import decisions

FACTS = "/tmp/quintain-facts"
MAX_FACTS = 60_000
_SELF = "quintain_tracer.py"


class Tracer:
    """`root` is the folder of the candidate's files. What happens between two tests is counted for the later one."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/") + "/"
        self._fd = os.open(FACTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._test: int | None = None
        self._waiting: list[str] = []
        self._seen: set[Any] = set()
        self._codes: dict[int, Any] = {}
        self._left = MAX_FACTS

    def mark(self, test: int | None) -> None:
        """From now on what happens belongs to this test; to the next one for None."""
        self._seen = set()
        self._test = test
        if test is not None:
            waiting, self._waiting = self._waiting, []
            for fact in dict.fromkeys(waiting):
                self._write(fact)
        self.follow()

    def follow(self) -> None:
        """Again and again: an exception at the limit of recursion turns tracing off."""
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def _write(self, fact: str) -> None:
        if self._test is None:
            self._waiting.append(fact)
        elif self._left > 0:
            self._left -= 1
            try:
                os.write(self._fd, f"{self._test}\t{fact}\n".encode())
            except OSError:  # closed by the candidate, or its disk is full
                self._left = 0

    def _known(self, code: CodeType) -> Any:
        """[path, decisions, the code itself, so that its id stays its own]; None for code that is not followed."""
        file = code.co_filename
        if not file.startswith(self._root) or file == self._root + _SELF:
            return [None, {}, code]
        return [file[len(self._root):], decisions(code), code]

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        known = self._codes.get(id(code))
        if known is None:
            known = self._codes[id(code)] = self._known(code)
        path, jumps, _ = known
        if path is None or self._left <= 0:
            return None
        frame.f_trace_opcodes = bool(jumps)
        last: tuple[int, int, int, int, int] | None = None

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                at = frame.f_lasti
                if last is not None and jumps.get(at) is not last:
                    low, high, *place = last
                    way = int(not low <= at <= high)
                    fact = "\t".join(map(str, (path, *place, way)))
                    if fact not in self._seen:
                        self._seen.add(fact)
                        self._write(fact)
                last = jumps.get(at)
            elif event == "line":
                fact = f"{path}\t{frame.f_lineno}"
                if fact not in self._seen:
                    self._seen.add(fact)
                    self._write(fact)
            else:
                last = None
            return local

        return local


_tracer: Tracer | None = None


def begin() -> None:
    """Called by the tests before they import anything of the candidate."""
    global _tracer
    if _tracer is None:
        _tracer = Tracer(os.getcwd())
        _tracer.follow()


def mark(test: int | None) -> None:
    if _tracer is not None:
        _tracer.mark(test)
