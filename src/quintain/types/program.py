"""A program that can be run, and what happened when it ran."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files (path relative to the work tree → bytes) and how to start them; with `argv` empty nothing starts."""

    files: dict[str, bytes]
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    env: dict[str, str] = {}
    language: str = "python"


class Status(StrEnum):
    """How one command ended. Only OK means exit code 0, and OK is no evidence that anything is right."""

    OK = "ok"
    FAILED = "failed"  # non-zero exit
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    CPU_LIMIT = "cpu_limit"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"
    NOT_STARTED = "not_started"  # the program could not be executed; `stderr` says why


class KilledBy(StrEnum):
    """Who ended the command, when it did not end by itself."""

    TIMEOUT = "timeout"
    CPU = "cpu"
    OOM = "oom"
    OUTPUT = "output"
    USER = "user"  # the caller asked for it


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened, measured from outside the program.

    `exit_code` is `None` when a signal ended it; `stdout` and `stderr` hold at most `Limits.output_bytes` each: all of
    it, or the first and last half when `*_truncated`. `*_bytes` count what was written in all. `None`: not measured.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    killed_by: KilledBy | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    peak_processes: int | None = None
    disk_used_bytes: int | None = None
    denials: dict[str, int] = {}

    @property
    def text(self) -> str:
        """stdout, decoded; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """stderr, decoded; bytes that are no UTF-8 become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def timed_out(self) -> bool:
        return self.killed_by is KilledBy.TIMEOUT

    @property
    def oom_killed(self) -> bool:
        return self.killed_by is KilledBy.OOM
