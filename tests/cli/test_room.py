"""What a worker may use of its host: as it is said, or as it is found."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from quintain.cli.room import _free_bytes, room_for, size

GIB = 1024**3


@pytest.mark.parametrize(("text", "bytes_"), [("8GiB", 8 * GIB), ("1.5 MiB", 1572864), ("4096", 4096), ("2TiB", 2**41)])
def test_sizes_are_said_in_bytes_or_binary_units(text: str, bytes_: int) -> None:
    assert size(text) == bytes_


@pytest.mark.parametrize("text", ["8GB", "much", "-1", ""])
def test_another_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a size as in 8GiB"):
        size(text)


def test_the_least_of_what_is_free_counts(tmp_path: Path) -> None:
    assert _free_bytes(tmp_path) > 2**50, "nothing is known, so nothing is bounded"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {16 * 1024**2} kB\n")
    assert _free_bytes(tmp_path) == 16 * GIB
    groups = tmp_path / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (groups / "memory.max").write_text("max\n")
    assert _free_bytes(tmp_path) == 16 * GIB
    (groups / "memory.max").write_text(f"{4 * GIB}\n")
    (groups / "memory.current").write_text(f"{GIB}\n")
    assert _free_bytes(tmp_path) == 3 * GIB


def test_a_host_is_shared_alike_and_slots_say_how_many_cpus_are_meant() -> None:
    whole, half = room_for(4), room_for(4, share=2)
    assert 0 < half.memory_bytes < whole.memory_bytes
    assert whole.cpus == 4.0
    said = room_for(4, share=2, memory_bytes=7, cpus=1.5, tokens=9)
    assert (said.memory_bytes, said.cpus, said.inference_tokens) == (7, 1.5, 9)
