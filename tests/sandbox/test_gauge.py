"""What the groups of a sandbox tell, with files as the kernel writes them and with the kernel's own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend, _gauge


def test_an_older_commands_peak_is_not_charged_to_a_later_one(tmp_path: Path) -> None:
    """Before kernel 6.12 memory.peak only grows; where it did not grow, what this command took is not known from it."""
    peak = tmp_path / "s1/memory.peak"
    peak.parent.mkdir()
    peak.write_text("50000000\n")
    gauge = _gauge.Gauge({"u": tmp_path}, "s1", _gauge.Readings())
    gauge.begin()
    assert gauge.read().peak_memory_bytes == 50_000_000
    for later, reading in (("50000000\n", None), ("60000000\n", 60_000_000), ("60000000\n", None)):
        gauge.begin()
        gauge.close()  # as if the kernel offered no window
        peak.write_text(later)
        assert gauge.read().peak_memory_bytes == reading


def test_where_the_kernel_opens_a_window_the_peak_is_this_commands_own(tmp_path: Path) -> None:
    """From kernel 6.12 on a descriptor of memory.peak that was written to tells the peak since then."""
    peak = tmp_path / "s1/memory.peak"
    peak.parent.mkdir()
    peak.write_text("50000000\n")
    gauge = _gauge.Gauge({"u": tmp_path}, "s1", _gauge.Readings())
    gauge.begin()
    gauge.read()
    gauge.begin()
    peak.write_text("7000\n")
    assert gauge.read().peak_memory_bytes == 7000


def test_a_gauge_counts_only_new_memory_kills(tmp_path: Path) -> None:
    group = tmp_path / "memory/s1"
    group.mkdir(parents=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (group / "memory.max_usage_in_bytes").write_text("4096\n")
    gauge = _gauge.Gauge({"m": tmp_path / "memory"}, "s1", _gauge.Readings())
    gauge.begin()
    assert gauge.read().oom_kills == 2
    assert gauge.read().oom_kills == 0
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    reading = gauge.read()
    assert (reading.oom_kills, reading.peak_memory_bytes, reading.peak_processes) == (1, 4096, None)


def test_a_file_is_opened_once_and_closed_with_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "pids.peak"
    path.write_text("3\n")
    readings = _gauge.Readings(most=1)
    before = len(os.listdir("/proc/self/fd"))
    assert [readings.number(str(path)) for _ in range(3)] == [3, 3, 3]
    assert readings.number(str(tmp_path / "memory.peak")) is None
    (tmp_path / "memory.peak").write_text("7\n")
    assert readings.number(str(tmp_path / "memory.peak")) == 7  # read, and not kept: there is no more room
    assert len(os.listdir("/proc/self/fd")) == before + 1
    readings.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="expected root, who may make control groups")
def test_peaks_of_an_earlier_sandbox_are_not_found_by_the_next() -> None:
    """Their groups serve one after another, and the files of those that are made anew in between are opened anew."""
    several = ["sh", "-c", "for n in 1 2 3 4; do sleep 0.05 & done; wait"]

    async def peaks() -> list[int]:
        found = []
        async with NativeBackend(engines=1) as backend:
            for argv in (["true"], several, ["true"], ["true"], several, ["true"]):
                async with backend.open() as [box]:
                    found.append((await box.run(argv)).peak_processes or 0)
        return found

    first, many, *quiet, again, last = asyncio.run(peaks())
    assert [first, *quiet, last] == [2, 2, 2, 2]
    assert min(many, again) >= 6
