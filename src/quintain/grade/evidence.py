"""What a verdict rests on, in lines that a person can check: the report, how each process ended, what it used."""

from __future__ import annotations

from collections.abc import Iterable

from quintain.types import MEBIBYTE, Evidence, Outcome

#: How many failing lines of a report are quoted, and how much of each.
QUOTED_LINES = 3
QUOTED_CHARS = 300


def of_report(report: bytes) -> tuple[Evidence, ...]:
    """How long the report is and whether it has its end; the first failing lines, each with its offset in bytes."""
    lines = report.split(b"\n")
    tests = sum(line.startswith(b'{"test"') for line in lines)
    ended = any(line.startswith(b'{"end"') for line in lines)
    head = f"{tests} tests reported in {len(report)} bytes, {'with' if ended else 'without'} its last line"
    return (Evidence(source="report", text=head, offset_bytes=0), *_failing(lines))


def _failing(lines: list[bytes]) -> list[Evidence]:
    found: list[Evidence] = []
    offset = 0
    for line in lines:
        bad = line.startswith((b'{"file"', b'{"test"')) and not line.endswith(b"null}")  # "why" stands last
        if bad and len(found) < QUOTED_LINES:
            text = line[:QUOTED_CHARS].decode("utf-8", "replace")
            found.append(Evidence(source="report", text=text, offset_bytes=offset))
        offset += len(line) + 1
    return found


def of_outcome(who: str, outcome: Outcome | None) -> tuple[Evidence, ...]:
    """How a process ended and what it used, as the backend measured it from outside."""
    if outcome is None:
        return (Evidence(source="exit status", text=f"{who}: cut off when the verifier had finished"),)
    how = f"exit code {outcome.exit_code}" if outcome.signal is None else f"signal {outcome.signal}"
    killed = f", killed by {outcome.killed_by.value}" if outcome.killed_by else ""
    found = [Evidence(source="exit status", text=f"{who}: {outcome.status.value}, {how}{killed}")]
    used = [f"{outcome.wall_seconds:.3f} s wall"]
    if outcome.cpu_seconds is not None:
        used.append(f"{outcome.cpu_seconds:.3f} s CPU")
    if outcome.peak_memory_bytes is not None:
        used.append(f"{outcome.peak_memory_bytes / MEBIBYTE:.1f} MiB at most")
    if outcome.peak_processes is not None:
        used.append(f"{outcome.peak_processes} processes at most")
    found.append(Evidence(source="cgroup", text=f"{who}: {', '.join(used)}"))
    if outcome.denials:
        denied = ", ".join(f"{name} {count}" for name, count in sorted(outcome.denials.items()))
        found.append(Evidence(source="denials", text=f"{who}: {denied}"))
    return tuple(found)


def of_run(number: int, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The same, said to be of one run of several."""
    return tuple(
        Evidence(source=e.source, text=f"run {number}: {e.text}", blob=e.blob, offset_bytes=e.offset_bytes)
        for e in evidence
    )
