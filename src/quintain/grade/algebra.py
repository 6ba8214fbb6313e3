"""Formulas compared by a computer algebra system that may hang, in a process of its own that may not."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from quintain.types import FaultKind, HouseError

_PROGRAM = Path(__file__).with_name("inside") / "algebra.py"
#: Wall time for the library to load, and for a question beyond its CPU time on a machine with other work.
_START_SECONDS, _GRACE_SECONDS = 60.0, 30.0


class Stage(StrEnum):
    """How far a question came: nothing is understood, the expected formula is, both are, it is decided."""

    START = "start"
    EXPECTED = "expected"
    GIVEN = "given"
    DONE = "done"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """`same` is `None` where nothing was decided; `limit` says that CPU time or memory ran out; `why` says the rest."""

    stage: Stage
    same: bool | None = None
    why: str = ""
    limit: bool = False


class Algebra:
    """The process that compares formulas: `with Algebra() as algebra: algebra.ask("\\\\frac12", "0.5")`.

    It starts at the first question and serves any number of threads, one question at a time; each question has
    `cpu_seconds` and `memory_bytes` of its own. Needs the extra `math`. Raises HouseError (from `ask`) when the library
    is not there, or no answer came in time though the limits allow none so late.

    Covers: no text is evaluated as code, and none can use more than its limits. Does not cover: faults of the parser
    itself, which runs with this process's rights; it reads LaTeX by a grammar.
    """

    def __init__(self, *, cpu_seconds: int = 5, memory_bytes: int = 1 << 30) -> None:
        self._limits = (str(cpu_seconds), str(memory_bytes))
        self._seconds = cpu_seconds + _GRACE_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._fresh = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._end()

    def ask(self, expected: str, given: str, *, equation: bool = False) -> Decided:
        """Whether two LaTeX formulas have the same value, or two equations the same solutions."""
        question = {"mode": "equation" if equation else "value", "expected": expected, "given": given}
        with self._lock:
            process = self._process or self._start()
            try:
                assert process.stdin is not None
                process.stdin.write(msgspec.json.encode(question) + b"\n")
                process.stdin.flush()
                line = self._line(process)
            except (OSError, TimeoutError) as error:
                self._end()
                raise HouseError(FaultKind.VERIFIER_ERROR, f"comparing formulas: {error}")
        return msgspec.json.decode(line, type=Decided)

    def _start(self) -> subprocess.Popen[bytes]:
        for module in ("sympy", "latex2sympy2_extended"):
            if importlib.util.find_spec(module) is None:
                raise HouseError(
                    FaultKind.VERIFIER_ERROR, f"comparing formulas needs {module}: pip install 'quintain[math]'")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_PROGRAM), *self._limits], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True, env={"PYTHONHASHSEED": "0"},
        )
        self._fresh = True
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        until = time.monotonic() + self._seconds + (_START_SECONDS if self._fresh else 0.0)
        self._fresh = False
        found = b""
        while not found.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError("no answer in time")
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                raise OSError(f"the process ended: {process.wait()}")
            found += piece
        return found

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a fork at work is in the same session
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
