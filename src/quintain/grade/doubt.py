"""Failures that look like the answer's and may be the house's: what is asked again before it is blamed on anybody.

The two cannot be told apart at first sight: SIGKILL from nobody that the backend knows of (the answer can kill itself;
so can the host's last resort against its own lack of memory), a verifier that runs out of memory, a time-out on a
machine whose CPUs were wanted by others. So the same run is made again in fresh sandboxes. What both runs say is
believed; where they differ the verdict is `conflicting_runs`, which is never paid and never laid on the policy.

Does not cover: a house that fails twice in the same way. What an answer does to itself by chance is masked, too: a
policy could have bad answers asked again by it, which is why an episode has few attempts (`rollout.Patience`).
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL

import msgspec

from quintain.types import FaultKind, Limits, Outcome, Status, Verdict

#: Above this share of the time in which some program waited for a CPU, a time-out is asked again.
PRESSURE = 0.20
#: An answer that used this share of its time on a CPU was not starved.
BUSY = 0.80
_PAGE_BYTES = 4096
_ROOM = 0.5  # files that need no more than this of their sandbox fit into it, whatever else it holds
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})
_NEVER_THE_ANSWERS = frozenset({errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ESTALE})


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """How long some program of this host has waited for a CPU so far (Linux PSI), and when that was read, both in
    seconds; `None` where the kernel does not tell."""

    waited_seconds: float | None
    at_seconds: float

    @classmethod
    def read(cls, at_seconds: float, *, file: Path = Path("/proc/pressure/cpu")) -> Pressure:
        try:
            some = file.read_text().splitlines()[0]
            waited: float | None = int(some.rpartition("total=")[2]) / 1e6
        except (OSError, ValueError, IndexError):
            waited = None
        return cls(waited_seconds=waited, at_seconds=at_seconds)

    def since(self, earlier: Pressure) -> float | None:
        """The share of the time between the two in which some program waited, in [0, 1]; `None`: not measured."""
        if self.waited_seconds is None or earlier.waited_seconds is None or self.at_seconds <= earlier.at_seconds:
            return None
        share = (self.waited_seconds - earlier.waited_seconds) / (self.at_seconds - earlier.at_seconds)
        return min(1.0, max(0.0, share))


def doubt(
    verdict: Verdict, *, verifier: Outcome | None, candidate: Outcome | None, pressure: float | None,
) -> str | None:
    """Why a failed run should be made again before it is believed; None when it is believed at once."""
    if verdict.solved:
        return None
    if candidate is not None and candidate.signal == SIGKILL and candidate.killed_by is None:
        return "its process was killed by a signal that this house did not send"
    if verifier is not None and verifier.status is Status.OUT_OF_MEMORY:
        return "the verifier ran out of memory"
    faults = [f for f in (verdict.fault, *(test.fault for test in verdict.tests)) if f is not None]
    late = any(fault.kind is FaultKind.TIMEOUT for fault in faults)
    if late and pressure is not None and pressure > PRESSURE and not _was_busy(candidate):
        return f"it was late, and programs waited for a CPU during {100 * pressure:.0f} % of the time"
    return None


def _was_busy(candidate: Outcome | None) -> bool:
    if candidate is None or candidate.cpu_seconds is None:
        return False
    return candidate.cpu_seconds >= BUSY * candidate.wall_seconds


def is_the_houses(error: OSError, files: Mapping[str, bytes], limits: Limits) -> bool:
    """Whether files that could not be written should have fitted: then the disk is at fault and not the answer."""
    if error.errno in _NEVER_THE_ANSWERS:
        return True
    if error.errno not in _FULL:
        return False
    folders = {path[:at] for path in files for at in range(len(path)) if path[at] == "/"}
    pages = sum(-(-len(content) // _PAGE_BYTES) for content in files.values()) + len(files) + len(folders)
    room = _ROOM * min(limits.disk_bytes, limits.memory_bytes)
    return pages * _PAGE_BYTES <= room and len(files) + len(folders) <= _ROOM * limits.inodes


def settled(first: Verdict, joined: Verdict, second: Verdict) -> Verdict:
    """The verdict on a run that was made again, from `joined`, what `judge.both` makes of the two. Where they agree on
    every test the second one's faults are told, since the first one's were in doubt; where they do not, the conflict is
    the fault of the whole."""
    if joined.runs == first.runs + second.runs:
        return msgspec.structs.replace(joined, tests=second.tests, fault=second.fault)
    faults = (test.fault for test in joined.tests)
    torn = next((f for f in faults if f is not None and f.kind is FaultKind.CONFLICTING_RUNS), None)
    return joined if torn is None else msgspec.structs.replace(joined, fault=torn)
