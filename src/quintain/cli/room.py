"""How much of this host a worker may use for its sandboxes: as it is said, or as it is found."""

from __future__ import annotations

import re
from pathlib import Path

import click

from quintain.fleet import Room

_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_ENDLESS = 2**60  # of what is not bounded here


def size(text: str) -> int:
    """Bytes, as in 8GiB: what an option is read by."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]iB)?", text)
    if found is None:
        raise click.BadParameter(f"expected a size as in 8GiB, found {text!r}")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def room_for(
    slots: int, *, share: int = 1, memory_bytes: int | None = None, cpus: float | None = None,
    tokens: int | None = None, elsewhere: bool = False,
) -> Room:
    """What is not said: memory is an equal part (`share` workers are on this host) of what is free now, and is not
    bounded where sandboxes live elsewhere; CPUs are as many as slots, because whoever asks for more slots than CPUs
    knows that policies take their time."""
    if memory_bytes is None:
        memory_bytes = _ENDLESS if elsewhere else _free_bytes() // share
    return Room(
        cpus=float(slots) if cpus is None else cpus, disk_bytes=_ENDLESS, memory_bytes=memory_bytes,
        inference_tokens=_ENDLESS if tokens is None else tokens,
    )


def _free_bytes(root: Path = Path("/")) -> int:
    """Memory that can be used: of the host, or of the control group around us where that allows less."""
    found = [_ENDLESS]
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    groups = root / "sys/fs/cgroup"
    for most, now in ((groups / "memory.max", groups / "memory.current"),
                      (groups / "memory/memory.limit_in_bytes", groups / "memory/memory.usage_in_bytes")):
        bound = _text(most).strip()
        if bound.isdigit():
            found.append(max(0, int(bound) - int(_text(now).strip() or 0)))
    return min(found)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
