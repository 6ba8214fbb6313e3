"""What happened to a program, as the house tells it."""

from __future__ import annotations

import os
import signal as signals

from quintain.sandbox import _wire
from quintain.sandbox._gauge import Usage
from quintain.sandbox._running import Exit
from quintain.types import KilledBy, Limits, Outcome, Status


def outcome_of(done: Exit, limits: Limits, after: Usage, denials: dict[str, int] | None = None) -> Outcome:
    """What happened, from the agent's report and the readings of the groups since its start."""
    code = os.waitstatus_to_exitcode(done.wait_status)
    signal = -code if code < 0 else None
    killed_by: KilledBy | None = None
    if done.flags & _wire.EXIT_TIMED_OUT:
        killed_by = KilledBy.TIMEOUT
    elif after.oom_kills:
        killed_by = KilledBy.OOM
    elif done.flags & _wire.EXIT_CPU or signal == signals.SIGXCPU:
        killed_by = KilledBy.CPU
    elif done.flags & _wire.EXIT_KILLED:
        killed_by = KilledBy.USER
    stdout, stderr = done.stdout, done.stderr
    if done.flags & _wire.EXIT_NOT_STARTED:
        stderr = os.strerror(done.error).encode()
    return Outcome(
        status=_status(done, code, killed_by),
        exit_code=None if signal or done.flags & _wire.EXIT_NOT_STARTED else code,
        signal=signal, killed_by=killed_by, stdout=stdout, stderr=stderr,
        stdout_bytes=done.stdout_bytes, stderr_bytes=done.stderr_bytes,
        stdout_truncated=done.stdout_bytes > len(stdout), stderr_truncated=done.stderr_bytes > len(stderr),
        wall_seconds=done.wall_seconds, cpu_seconds=done.cpu_seconds,
        peak_memory_bytes=done.peak_rss_bytes if after.peak_memory_bytes is None else after.peak_memory_bytes,
        peak_processes=after.peak_processes, disk_used_bytes=done.disk_used_bytes, denials=denials or {},
    )


def _status(done: Exit, code: int, killed_by: KilledBy | None) -> Status:
    if done.flags & _wire.EXIT_NOT_STARTED:
        return Status.NOT_STARTED
    if killed_by is KilledBy.TIMEOUT:
        return Status.TIMED_OUT
    if killed_by is KilledBy.OOM and code != 0:
        return Status.OUT_OF_MEMORY
    if killed_by is KilledBy.CPU:
        return Status.CPU_LIMIT
    if code < 0:
        return Status.SIGNALLED
    return Status.FAILED if code else Status.OK
